"""The order of propagation: by kinds of operations, and by users' priorities.

Source: Shardy's `op_priority_propagation.cc` and `user_priority_propagation.cc`.
"""

from collections.abc import Callable, Sequence

from minixla.core.sharding_rule import PASS_THROUGH, ShardingRule
from minixla.sharding.operations import PropagationBarrier, SdyOperation
from minixla.sharding.propagation.driver import Driver
from minixla.sharding.propagation.network import Kind
from minixla.sharding.propagation.strategies import BACKWARD, BOTH, FORWARD, NONE
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla_ops.indexing.dynamic_slicing import DynamicSlice, DynamicUpdateSlice
from minixla_ops.movement.broadcasting import BroadcastInDim
from minixla_ops.movement.reshaping import Reshape, Transpose

#: The number of rounds of operation priority; each allows more than the one before.
ROUNDS = 5
_WAYS = {"FORWARD": FORWARD, "BACKWARD": BACKWARD, "NONE": NONE}


def directions(kind: Kind, last: int = ROUNDS - 1) -> Sequence[int]:
    """Return the directions of shardings along each factor of nodes of a kind.

    Args:
        kind: the kind.
        last: the round of operation priority; the last allows everything.
    """
    op = kind.op
    if isinstance(op, PropagationBarrier):
        way = _WAYS[op.allowed_direction]
        return _along(kind.rule, way, way)
    ways = NONE
    if last >= (0 if kind.reads_once else 1):
        if kind.is_elementwise or op is None or isinstance(op, (Reshape, Transpose, SdyOperation)):
            ways = BOTH
        elif isinstance(op, (DynamicSlice, DynamicUpdateSlice)):
            ways = FORWARD
    later = BACKWARD if isinstance(op, BroadcastInDim) and last < ROUNDS - 1 else BOTH
    passing = later if last >= 2 else NONE
    others = later if last >= 3 else NONE
    return _along(kind.rule, ways | passing, ways | others)


def _along(rule: ShardingRule, passing: int, others: int) -> Sequence[int]:
    """Return the direction along each factor: `passing` if it passes through, or else `others`."""
    along = [
        NONE if factor in rule.blocked else passing if rule.kind(factor) == PASS_THROUGH else others
        for factor in range(len(rule.sizes))
    ]
    return tuple(along)


def by_operation(driver: Driver) -> None:
    """Propagate through operations that only pass values on, then through others."""
    for last in range(ROUNDS):
        driver.run(lambda kind, last=last: directions(kind, last))


class _Waiting:
    """The dimensions of a tensor that take part in propagation only later."""

    def __init__(self, tensor: int, sharding: TensorSharding) -> None:
        self.tensor, self.given = tensor, sharding
        self.priorities = [dimension.priority or 0 for dimension in sharding.dimensions]

    def sharding(self, current: TensorSharding, last: int) -> TensorSharding:
        """Return the tensor's sharding in the round of a priority.

        Dimensions that still wait are empty and closed. Their axes are replicated, so that other
        dimensions cannot take them.
        """
        mesh = self.given.mesh
        dimensions, kept = [], [*map(mesh.part, self.given.replicated)]
        for number, priority in enumerate(self.priorities):
            if priority > last:
                dimensions.append(DimensionSharding())
                kept += self.given.parts[number]
            elif priority == last:
                stated = self.given.dimensions[number]
                dimensions.append(DimensionSharding(stated.axes, stated.is_closed))
            else:
                dimensions.append(current.dimensions[number])
        return current.of(dimensions=dimensions, replicated=mesh.listed(kept))


def by_user(driver: Driver, once: Callable[[Driver], None]) -> None:
    """Propagate shardings in the order of their priorities, each time by `once`."""
    waiting = [
        _Waiting(tensor, sharding)
        for tensor, sharding in enumerate(driver.network.shardings)
        if sharding is not None
        and any(dimension.priority is not None for dimension in sharding.dimensions)
    ]
    for last in sorted({0}.union(*[tensor.priorities for tensor in waiting])):
        for each in waiting:
            if last == 0 or last in each.priorities:
                current = driver.sharding(each.tensor) or each.given
                driver.put(each.tensor, each.sharding(current, last))
        once(driver)
