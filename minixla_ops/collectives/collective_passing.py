"""CollectivePermute and CollectiveBroadcast: collectives that pass operands unchanged."""

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, register
from minixla.core.attributes import Boolean, attribute
from minixla_ops.collectives.collective_groups import CHANNEL, GROUPS, Collective, ProcessLists
from minixla_ops.collectives.processes import current_process
from minixla_ops.helpers.shorthand import add_cotangents, splat
from minixla_ops.programs.lowering import Lowered

_ONCE = "A process can send to at most one target and receive from at most one source."


def _nothing(operand: np.ndarray) -> np.ndarray:
    """Return the value of a process that receives nothing."""
    # If the type cannot represent zero, the conversion of zero is used, whose bits are not all
    # zero.
    return np.broadcast_to(np.zeros(()).astype(operand.dtype), operand.shape)


@register
class CollectivePermute(Collective):
    """Send the operand of each source to its target; others get zeros. XLA: CollectivePermute.

    Args:
        operand: an array.
        source_target_pairs: pairs (source, target) of replicas, or of partitions if there is a
            channel.
        channel_id: see Collective.
        inplace: whether the result may reuse the operand's memory; values do not change.

    Returns:
        An array with the operand's shape.

    Checks:
        (C1) each pair has two numbers.
        (C2) sources and targets are not repeated.
        (G4) when it runs: all numbers are those of existing processes.

    Example:
        >>> send = lambda x: ops.collective_permute(x, [(0, 1)])
        >>> mx.simulate(send, [[(np.int32([1]),)], [(np.int32([2]),)]])
        [[array([0], dtype=int32)], [array([1], dtype=int32)]]
    """

    stablehlo_name = "collective_permute"
    linear_operands = (0,)
    covers = False
    source_target_pairs: Sequence[Sequence[int]] = attribute(ProcessLists(width=2))
    channel_id = CHANNEL
    inplace: bool = attribute(Boolean(), default=False, stablehlo=None, hlo=None)

    @property
    def replica_groups(self) -> Sequence[Sequence[int]]:  # type: ignore[override]  # follows from the pairs
        """One group of all senders and receivers, which meet."""
        named = {number for pair in self.source_target_pairs for number in pair}
        return (sorted(named),) if named else ()

    def shape(self, operand):
        if any(len(pair) != 2 for pair in self.source_target_pairs):
            advice = "Pass a pair (source, target) for each transfer."
            self.refuse_attribute("C1", "each pair must have two numbers", advice)
        columns = zip(*self.source_target_pairs, strict=True)
        for name, numbers in zip(("source", "target"), columns, strict=False):
            if len(set(numbers)) < len(numbers):
                self.refuse_attribute("C2", f"a {name} must not be repeated", _ONCE)
        return operand

    def reference(self, operand):
        members, pairs = self.members(), self.source_target_pairs
        if not members or not pairs:
            return _nothing(operand)
        values = self.exchange(operand, members, pairs=pairs)
        (everyone,) = self.replica_groups
        received = everyone[members.index(current_process().id)]
        source = next((source for source, target in pairs if target == received), None)
        return _nothing(operand) if source is None else values[everyone.index(source)]

    def transpose(self, cotangents, operands, linear):
        back = [(target, source) for source, target in self.source_target_pairs]
        return (self(cotangents, source_target_pairs=back),)


@register
class CollectiveBroadcast(Collective, Lowered):
    """Send the operand of a group's first member to all its members. XLA: CollectiveBroadcast.

    A process in no group gets zeros. XLA lacks the operation on CPU and TPU. There, the first
    member of each group sends to the others one after the other.

    Args:
        operand: an array.
        replica_groups, channel_id: the groups; see Collective.

    Returns:
        An array with the operand's shape.

    Checks:
        (G1), (G4) see Collective; groups may differ in size and omit processes.

    Example:
        >>> mx.simulate(ops.collective_broadcast, [[(np.int32([1]),)], [(np.int32([2]),)]])
        [[array([1], dtype=int32)], [array([1], dtype=int32)]]
    """

    stablehlo_name = "collective_broadcast"
    gives_all_the_same = True
    linear_operands = (0,)
    covers = False
    replica_groups = GROUPS
    channel_id = CHANNEL

    def shape(self, operand):
        self.check_groups()
        return operand

    def reference(self, operand):
        members = self.members()
        return self.exchange(operand, members, itemgetter(0)) if members else _nothing(operand)

    def lowered(self, operand):
        here, result = splat(True, Shape("pred")), None
        for pairs in self._to_members():
            moved = ops.collective_permute(operand, pairs, self.channel_id)
            if result is not None:
                has_moved = ops.collective_permute(here, pairs, self.channel_id)
                moved = ops.select(has_moved, moved, result)
            result = moved
        return result

    def stablehlo(self, emit, operands, shapes, results):
        # StableHLO's groups must have the same size.
        several = len(set(map(len, self.replica_groups))) > 1
        rule = Lowered if several else Collective
        return rule.stablehlo(self, emit, operands, shapes, results)

    def jvp(self, primals, tangents, results):
        return self(*tangents)

    def transpose(self, cotangents, operands, linear):
        total = None
        for pairs in self._to_members():
            back = [(target, source) for source, target in pairs]
            total = add_cotangents(total, ops.collective_permute(cotangents, back, self.channel_id))
        return (total,)

    def _to_members(self) -> list[list[tuple[int, int]]]:
        """Return pairs from each group's first member to its first, to its second, and so on."""
        groups = self.replica_groups
        longest = range(max(map(len, groups), default=0) or self.group_size())
        return [[(group[0], group[at]) for group in groups if at < len(group)] for at in longest]
