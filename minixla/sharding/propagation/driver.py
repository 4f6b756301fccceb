"""Propagation to a fixed point: nodes are visited until no visit changes a sharding."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minixla.sharding.propagation.factors import tensors_of
from minixla.sharding.propagation.network import NOWHERE, Kind, Network, Node, View
from minixla.sharding.propagation.strategies import Projection
from minixla.sharding.tensor_sharding import TensorSharding

#: Returns the directions of shardings along each factor of nodes of a kind.
Directions = Callable[[Kind], Sequence[int]]
#: One step of a strategy on a projection; see `strategies`.
Strategy = Callable[[Projection, Sequence[int]], None]
#: The tensors of a node whose sharding a visit changes, with the numbers of the new ones.
Changes = Sequence[tuple[int, int]]
#: A strategy, directions, and the results of visits by the numbers of the shardings before.
Plan = tuple[Strategy, Sequence[int], dict[tuple[int, ...], Changes]]


class Driver:
    """Propagation in a network.

    The result of a visit depends only on the shardings of its tensors. It is computed once for each
    combination. A visit is omitted if neither shardings nor directions changed since the last one.
    Equal shardings have one number; no sharding has number 0.

    Args:
        network: the network; `end` changes its shardings.
        strategies: the steps of each visit, in order.
        only_whole: whether parts of axes are not propagated.
    """

    def __init__(
        self, network: Network, strategies: Sequence[Strategy], only_whole: bool = False
    ) -> None:
        self.network, self.strategies, self.only_whole = network, strategies, only_whole
        self._known: list[TensorSharding | None] = [None]
        self._numbers: dict[TensorSharding | None, int] = {None: 0}
        # By tensor.
        self._shardings = [
            0 if sharding is None else self._number(sharding) for sharding in network.shardings
        ]
        self._plans: dict[Any, Plan] = {}
        self._waiting: list[Node] = []

    def _number(self, sharding: TensorSharding | None) -> int:
        number = self._numbers.setdefault(sharding, len(self._known))
        if number == len(self._known):
            self._known.append(sharding)
        return number

    def sharding(self, tensor: int) -> TensorSharding | None:
        """Return the current sharding of a tensor."""
        return self._known[self._shardings[tensor]]

    def put(self, tensor: int, sharding: TensorSharding | None) -> None:
        """Set the sharding of a tensor."""
        self._put(tensor, self._number(sharding))

    def _put(self, tensor: int, number: int) -> None:
        self._shardings[tensor] = number
        for node in self.network.watchers[tensor]:
            node.settled = None
            if not node.is_waiting:
                node.is_waiting = True
                self._waiting.append(node)
        for node in self.network.others.get(tensor, ()):
            node.settled = None

    def end(self) -> None:
        """Write the shardings to the network."""
        self.network.shardings[:] = [self._known[number] for number in self._shardings]

    def run(self, directions: Directions) -> None:
        """Visit the nodes, and again those whose tensors change, until nothing changes.

        Results of functions are visited before and after them. The order is that of MLIR's greedy
        pattern driver, because the outcome depends on it if shardings compete. It is the program's
        order, but nodes near a change come first. Several strategies run one after the other,
        each to the end.
        """
        for number in range(len(self.strategies)):
            kinds = self.network.kinds
            self._run([self._plan(number, kind, directions(kind)) for kind in kinds])

    def _run(self, plan: Sequence[Plan]) -> None:
        results, waiting = self.network.results, self.network.nodes[::-1]
        self._waiting = waiting
        for node in waiting:
            node.is_waiting = True
        for node in results:
            self._visit(node, plan[node.kind.number])
        while waiting:
            node = waiting.pop()
            planned = plan[node.kind.number]
            if node.settled is not planned:
                self._visit(node, planned)
            node.is_waiting = False
        for node in results:
            self._visit(node, plan[node.kind.number])

    def _plan(self, number: int, kind: Kind, directions: Sequence[int]) -> Plan:
        key = number, kind.number, directions
        if key not in self._plans:
            self._plans[key] = self.strategies[number], directions, {}
        return self._plans[key]

    def _visit(self, node: Node, planned: Plan) -> None:
        """Let shardings pass through a node."""
        strategy, directions, visits = planned
        shardings, members = self._shardings, self.network.members
        before = node.of_tensors(shardings)
        if node.views:
            before = self._seen(node, before)
        changes = visits.get(before)
        if changes is None:
            changes = visits[before] = self._step(strategy, node.kind, before, directions)
        if not changes:
            node.settled = planned
        for at, number in changes:
            tensor = node.tensors[at]
            if node.views:
                number = self._left(node.views[at], number)
            for member in members.get(tensor) or (tensor,):
                if member != NOWHERE and shardings[member] != number:
                    self._put(member, number)

    def _left(self, view: View | None, number: int) -> int:
        """Return the outside number of a sharding that a node sees in another form."""
        sharding = self._known[number]
        return number if view is None or sharding is None else self._number(view.leave(sharding))

    def _seen(self, node: Node, before: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers of a node's shardings in the form in which it sees them."""
        before_views = [self._known[number] for number in before]
        pairs = zip(before_views, node.views, strict=True)
        seen = [view.enter(entry) if view and entry else entry for entry, view in pairs]
        return tuple(map(self._number, seen))

    def _step(
        self,
        strategy: Strategy,
        kind: Kind,
        numbers: Sequence[int],
        directions: Sequence[int],
    ) -> Changes:
        before = [self._known[number] for number in numbers]
        first = common_mesh(before)
        if first is None:
            return ()
        rule, count = kind.rule, len(kind.rule.operands)
        tensors = tensors_of(rule, before)
        step = Projection(
            tensors[:count],
            tensors[count:],
            rule.sizes,
            kind.is_elementwise,
            first.mesh,
            self.only_whole and kind.can_be_conservative,
        )
        strategy(step, directions)
        changes = []
        for at, tensor in enumerate(tensors):
            new = tensor.sharding_of(first.mesh, first.mesh_name)
            if new is not before[at]:
                changes.append((at, self._number(new)))
        return changes


def common_mesh(shardings: Iterable[TensorSharding | None]) -> TensorSharding | None:
    """Return a sharding on the common mesh of all; None without a common mesh with axes."""
    sharding: TensorSharding | None = None
    for each in shardings:
        if each is None or each.mesh.is_empty:
            continue
        if sharding is None:
            sharding = each
        elif each.mesh is not sharding.mesh and each.mesh != sharding.mesh:
            return None
    return None if sharding is None or sharding.mesh.is_maximal else sharding
