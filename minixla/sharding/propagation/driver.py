"""Propagation to a fixed point: nodes are visited until no visit changes a sharding."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minixla.sharding.propagation.factors import Tensor
from minixla.sharding.propagation.network import Network, Node
from minixla.sharding.propagation.strategies import Projection
from minixla.sharding.tensor_sharding import TensorSharding

#: Which way shardings go along each factor of a node.
Directions = Callable[[Node], Sequence[int]]
#: What one step of a strategy does with a projection: see `strategies`.
Strategy = Callable[[Projection, Sequence[int]], Any]


class Driver:
    """Propagates in a network.

    Args:
        network: it is changed.
        strategies: what each visit does, one after the other.
        only_whole: whether parts of axes are not propagated.
    """

    def __init__(
        self, network: Network, strategies: Sequence[Strategy], only_whole: bool = False
    ) -> None:
        self.network, self.strategies, self.only_whole = network, strategies, only_whole
        self._same: dict[TensorSharding, TensorSharding] = {}
        self._steps: dict[Any, list[TensorSharding | None] | None] = {}
        network.shardings[:] = map(self.known, network.shardings)
        #: For each node what it was last visited with: directions and shardings.
        self._seen: list[Any] = [None] * len(network.nodes)

    def known(self, sharding: TensorSharding | None) -> TensorSharding | None:
        """The one object of all equal shardings."""
        return None if sharding is None else self._same.setdefault(sharding, sharding)

    def run(self, directions: Directions) -> None:
        """Visits the nodes, and those whose tensors change again, until nothing changes.

        What functions give comes before and after them. The order is that of MLIR's greedy pattern
        driver, on which the outcome depends where shardings compete: in the program's order, but
        those near a change first.
        """
        network = self.network
        for node in network.results:
            self._visit(node, directions(node))
        waiting = list(reversed(network.nodes))
        is_waiting = [True] * len(waiting)
        while waiting:
            node = waiting.pop()
            is_waiting[node.number] = False
            for tensor in self._visit(node, directions(node)):
                for other in network.watchers[tensor]:
                    if other is not node and not is_waiting[other.number]:
                        is_waiting[other.number] = True
                        waiting.append(other)
        for node in network.results:
            self._visit(node, directions(node))

    def _visit(self, node: Node, directions: Sequence[int]) -> list[int]:
        """Lets shardings pass through a node; the tensors that changed."""
        shardings = self.network.shardings
        before = [None if each is None else shardings[each] for each in node.tensors]
        if not any(before):
            return []
        if node.views:
            pairs = zip(before, node.views, strict=True)
            before = [
                self.known(view.enter(each)) if view and each else each for each, view in pairs
            ]
        is_elementwise = node.is_elementwise
        key = (id(node.rule), is_elementwise, directions, *map(id, before))
        if key not in self._steps:
            self._steps[key] = self._step(node, before, directions)
        after = self._steps[key]
        if after is None:
            return []
        changed = []
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            tensor = node.tensors[number]
            if new is old or tensor is None:
                continue
            if node.views and node.views[number]:
                new = self.known(node.views[number].leave(new))
            for member in self.network.members.get(tensor, (tensor,)):
                if shardings[member] is not new:
                    shardings[member] = new
                    changed.append(member)
        return changed

    def _step(
        self, node: Node, before: Sequence[TensorSharding | None], directions: Sequence[int]
    ) -> list[TensorSharding | None] | None:
        """The shardings after a visit; None where they stay as they are."""
        first = common_mesh(before)
        if first is None:
            return None
        rule, count = node.rule, len(node.rule.operands)
        tensors = [
            Tensor(dimensions, sharding, rule.sizes)
            for dimensions, sharding in zip((*rule.operands, *rule.results), before, strict=True)
        ]
        step = Projection(
            tensors[:count],
            tensors[count:],
            rule.sizes,
            node.is_elementwise,
            first.mesh,
            self.only_whole,
        )
        for strategy in self.strategies:
            strategy(step, directions)
        after = [self.known(each.sharding_of(first.mesh, first.mesh_name)) for each in tensors]
        return None if after == list(before) else after


def common_mesh(shardings: Iterable[TensorSharding | None]) -> TensorSharding | None:
    """A sharding on the mesh that all have in common; None where they have none with axes."""
    found: TensorSharding | None = None
    for each in shardings:
        if each is None or each.mesh.is_empty:
            continue
        if found is None:
            found = each
        elif each.mesh is not found.mesh and each.mesh != found.mesh:
            return None
    return None if found is None or found.mesh.is_maximal else found
