"""Sharding groups: tensors that lie alike."""

from minixla.sharding.propagation.network import Network
from minixla.sharding.tensor_sharding import TensorSharding


def share(network: Network) -> None:
    """Gives all members of a group its sharding.

    Where members have different ones it is open, over no axes.
    """
    shardings = network.shardings
    for members in {id(each): each for each in network.members.values()}.values():
        given = {shardings[each]: None for each in members if shardings[each] is not None}
        if not given:
            continue
        first = next(iter(given))
        common = (
            first
            if len(given) == 1
            else TensorSharding.open(first.mesh, first.rank, first.mesh_name)
        )
        for each in members:
            shardings[each] = common
