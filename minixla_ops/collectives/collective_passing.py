"""CollectivePermute and CollectiveBroadcast: operands that move as they are."""

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

_ONCE = "A process sends to one target at most and receives from one source at most."


def _nothing(operand: np.ndarray) -> np.ndarray:
    """What a process gets to which nobody sends."""
    # Where zero has no representation, it is converted: not all bits are zero.
    return np.broadcast_to(np.zeros(()).astype(operand.dtype), operand.shape)


@register
class CollectivePermute(Collective):
    """Sends the operand of each source to its target; others get zeros. XLA: CollectivePermute.

    Args:
        operand: an array.
        source_target_pairs: who sends to whom: pairs of replicas, or of partitions where there is
            a channel.
        channel_id: see Collective.
        inplace: whether the operand's memory may be used for the result; no effect on values.

    Returns:
        An array of the operand's shape.

    Checks:
        (C1) each pair has two numbers.
        (C2) no source and no target comes twice.
        (G4) when it runs: all numbers are those of processes.

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
        """One group of all that send or receive, which meet."""
        named = {number for pair in self.source_target_pairs for number in pair}
        return (sorted(named),) if named else ()

    def shape(self, operand):
        if any(len(pair) != 2 for pair in self.source_target_pairs):
            advice = "Give (source, target) for each."
            self.refuse_attribute("C1", "a pair has not two numbers", advice)
        columns = zip(*self.source_target_pairs, strict=True)
        for name, numbers in zip(("source", "target"), columns, strict=False):
            if len(set(numbers)) < len(numbers):
                self.refuse_attribute("C2", f"a {name} comes twice", _ONCE)
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
    """Sends the operand of the first of each group to all of it. XLA: CollectiveBroadcast.

    A process in no group gets zeros. XLA lacks the operation on CPU and TPU: there the first of
    each group sends to one other at a time.

    Args:
        operand: an array.
        replica_groups, channel_id: who takes part; see Collective.

    Returns:
        An array of the operand's shape.

    Checks:
        (G1), (G4) see Collective; groups may differ in size and leave processes out.

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
        # StableHLO has no groups of several sizes.
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
        """Pairs from the first of each group to its first, to its second, and so on."""
        groups = self.replica_groups
        longest = range(max(map(len, groups), default=0) or self.group_size())
        return [[(group[0], group[at]) for group in groups if at < len(group)] for at in longest]
