"""Propagation to a fixed point: nodes are visited until no visit changes a sharding."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minixla.sharding.propagation.factors import Tensor
from minixla.sharding.propagation.network import NOWHERE, Kind, Network, Node
from minixla.sharding.propagation.strategies import Projection
from minixla.sharding.tensor_sharding import TensorSharding

#: Which way shardings go along each factor of nodes of a kind.
Directions = Callable[[Kind], Sequence[int]]
#: What one step of a strategy does with a projection: see `strategies`.
Strategy = Callable[[Projection, Sequence[int]], None]
#: Shardings of a node's tensors after a visit; None where they stay as they are.
After = Sequence[TensorSharding | None] | None
#: A strategy, directions, and what visits do by the identities of the shardings before.
Plan = tuple[Strategy, Sequence[int], dict[tuple[int, ...], After]]


class Driver:
    """Propagates in a network.

    What a visit does depends on the shardings of its tensors alone. It is worked out once for each
    combination, and left out where neither they nor the directions are others than last time.

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
        network.shardings[:] = map(self.known, network.shardings)
        self._plans: dict[Any, Plan] = {}
        # For each node the plan of the last visit, if that changed nothing and nothing did since.
        count = len(network.nodes) + len(network.results)
        self._settled: list[Any] = [None] * count
        self._near: list[list[int]] = [[] for _ in network.shardings]
        for node in (*network.nodes, *network.results):
            for tensor in node.tensors:
                self._near[tensor].append(node.number)
        self._near[NOWHERE] = []

    def known(self, sharding: TensorSharding | None) -> TensorSharding | None:
        """The one object of all equal shardings."""
        return None if sharding is None else self._same.setdefault(sharding, sharding)

    def put(self, tensor: int, sharding: TensorSharding | None) -> None:
        """Gives a tensor a sharding that is known."""
        self.network.shardings[tensor] = sharding
        for number in self._near[tensor]:
            self._settled[number] = None

    def run(self, directions: Directions) -> None:
        """Visits the nodes, and those whose tensors change again, until nothing changes.

        What functions give comes before and after them. The order is that of MLIR's greedy pattern
        driver, on which the outcome depends where shardings compete: in the program's order, but
        those near a change first. With several strategies all is done by each in turn.
        """
        for number in range(len(self.strategies)):
            kinds = self.network.kinds.values()
            self._run([self._plan(number, kind, directions(kind)) for kind in kinds])

    def _run(self, plan: Sequence[Plan]) -> None:
        network, settled = self.network, self._settled
        for node in network.results:
            self._visit(node, plan[node.kind.number])
        waiting = network.nodes[::-1]
        is_waiting = [True] * len(waiting)
        while waiting:
            node = waiting.pop()
            is_waiting[node.number] = False
            planned = plan[node.kind.number]
            if settled[node.number] is planned:
                continue
            for tensor in self._visit(node, planned):
                for other in network.watchers[tensor]:
                    if other is not node and not is_waiting[other.number]:
                        is_waiting[other.number] = True
                        waiting.append(other)
        for node in network.results:
            self._visit(node, plan[node.kind.number])

    def _plan(self, number: int, kind: Kind, directions: Sequence[int]) -> Plan:
        key = number, kind.number, directions
        if key not in self._plans:
            self._plans[key] = self.strategies[number], directions, {}
        return self._plans[key]

    def _visit(self, node: Node, planned: Plan) -> Sequence[int]:
        """Lets shardings pass through a node; the tensors that changed."""
        shardings = self.network.shardings
        before = [shardings[tensor] for tensor in node.tensors]
        if node.views:
            before = self._seen(node, before)
        strategy, directions, visits = planned
        key = tuple(map(id, before))
        if key not in visits:
            visits[key] = self._step(strategy, node.kind, before, directions)
        after = visits[key]
        if after is None:
            self._settled[node.number] = planned
            return ()
        return self._put_all(node, before, after)

    def _put_all(
        self, node: Node, before: Sequence[Any], after: Sequence[TensorSharding | None]
    ) -> Sequence[int]:
        """Gives a node's tensors, and the others of their groups, their new shardings."""
        changed = []
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            tensor = node.tensors[number]
            if new is old or tensor == NOWHERE:
                continue
            view = node.views[number] if node.views else None
            if view is not None and new is not None:
                new = self.known(view.leave(new))
            for member in self.network.members.get(tensor, (tensor,)):
                if self.network.shardings[member] is not new:
                    self.put(member, new)
                    changed.append(member)
        return changed

    def _seen(self, node: Node, before: list[Any]) -> list[TensorSharding | None]:
        pairs = zip(before, node.views, strict=True)
        return [self.known(view.enter(each)) if view and each else each for each, view in pairs]

    def _step(
        self,
        strategy: Strategy,
        kind: Kind,
        before: Sequence[TensorSharding | None],
        directions: Sequence[int],
    ) -> After:
        first = common_mesh(before)
        if first is None:
            return None
        rule, count = kind.rule, len(kind.rule.operands)
        tensors = [
            Tensor(dimensions, sharding, rule.sizes)
            for dimensions, sharding in zip((*rule.operands, *rule.results), before, strict=True)
        ]
        step = Projection(
            tensors[:count],
            tensors[count:],
            rule.sizes,
            kind.is_elementwise,
            first.mesh,
            self.only_whole and kind.can_be_conservative,
        )
        strategy(step, directions)
        after = [self.known(each.sharding_of(first.mesh, first.mesh_name)) for each in tensors]
        return None if all(map(lambda old, new: old is new, before, after)) else after


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
