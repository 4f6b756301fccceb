"""Sharding groups before propagation: tensors with equal shardings."""

from collections.abc import Iterable, Mapping, Sequence

from minixla.sharding.operations import ShardingConstraint
from minixla.sharding.program import Program, Value
from minixla.sharding.propagation.network import Network
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import sharding_of


def separate(program: Program, groups: Mapping[int, Sequence[Value]]) -> bool:
    """Replace members of groups whose shardings differ; return whether there are such groups.

    Each member is replaced by an open constraint on it, which all its readers then read.
    """
    has_any = False
    for values in groups.values():
        members = dict.fromkeys(values)
        stated = _said(map(sharding_of, members))
        if len(stated) > 1:
            has_any = True
            sharding = next(iter(stated))
            sharding = TensorSharding.open(sharding.mesh, sharding.rank, sharding.mesh_name)
            for value in members:
                _constrain(program, value, sharding)
    return has_any


def share(network: Network) -> None:
    """Give all members of each group the sharding that a member has."""
    shardings = network.shardings
    for members in {id(member): member for member in network.members.values()}.values():
        for sharding in _said(shardings[member] for member in members):
            for member in members:
                shardings[member] = sharding


def _said(shardings: Iterable[TensorSharding | None]) -> dict[TensorSharding, None]:
    """Return distinct shardings, except open ones without axes."""
    return {
        sharding: None
        for sharding in shardings
        if sharding is not None and any(part.axes or part.is_closed for part in sharding.dimensions)
    }


def _constrain(program: Program, value: Value, sharding: TensorSharding) -> None:
    """Insert a constraint directly after a value; its readers read the constraint instead."""
    block = value.block
    step = block.new_step(ShardingConstraint(sharding), [value])
    program.read_instead({value: step.results[0]})
    block.steps.insert(block.steps.index(value.step) + 1 if value.step else 0, step)
