"""CollectivePermute and CollectiveBroadcast: operands that move as they are."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integers
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.operation import register
from minixla.core.processes import current_process
from minixla.core.shapes import Shape
from minixla.core.tracing import bind
from minixla_ops.collective_groups import CHANNEL, GROUPS, Collective, Groups, channel_text
from minixla_ops.composed import Composed
from minixla_ops.rules import add_cotangents, splat
from minixla_ops.selection import select

__all__ = ["collective_broadcast", "collective_permute"]


class _Passing(Collective):
    """Base class: operands move as they are, and who receives none gets zeros."""

    linear_operands = (0,)
    covers = False

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int | None]:
        return bind(self, *operands, **attributes), dimensions[0]


def _nothing(operand: np.ndarray) -> np.ndarray:
    # Where zero has no representation, it is converted: not all bits are zero.
    return np.broadcast_to(np.zeros(()).astype(operand.dtype), operand.shape)


@register
class CollectivePermute(_Passing):
    """Sends the operand of each source to its target; others get zeros. XLA: CollectivePermute.

    Attributes:
        source_target_pairs: pairs of replicas, or of partitions where there is a channel.
        channel_id: see Collective.
        inplace: whether the operand's memory may be used for the result; no effect on values.

    Checks:
        (C1) each pair has two numbers.
        (C2) no source and no target comes twice.
        (G4) when it runs: all numbers are those of processes.
    """

    stablehlo_name = "collective_permute"
    attributes = {
        "source_target_pairs": SequenceAttribute(Integers(minimum=0)),
        "channel_id": CHANNEL,
        "inplace": Boolean(False),
    }

    def shape(self, operand: Any, /, *, source_target_pairs: Groups, **others: Any) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [f"source_target_pairs {source_target_pairs}"]
        if any(len(pair) != 2 for pair in source_target_pairs):
            advice = "Give (source, target) for each."
            self.reject_attribute("C1", "a pair has not two numbers", given, advice)
        for name, numbers in zip(
            ("source", "target"), zip(*source_target_pairs, strict=True), strict=False
        ):
            if len(set(numbers)) < len(numbers):
                self.reject_attribute(
                    "C2",
                    f"a {name} comes twice",
                    given,
                    "A process sends to one target at most and receives from one source at most.",
                )
        return operand

    def reference(
        self,
        operand: np.ndarray,
        /,
        *,
        source_target_pairs: Groups,
        channel_id: int | None,
        **others: Any,
    ) -> np.ndarray:
        # All that send or receive meet.
        everyone = sorted({number for pair in source_target_pairs for number in pair})
        members = self.members([everyone] if everyone else [], channel_id)
        if members is None or not everyone:
            return _nothing(operand)
        values = self.exchange(operand, members, channel_id, list, pairs=tuple(source_target_pairs))
        own = everyone[members.index(current_process().id)]
        for source, target in source_target_pairs:
            if target == own:
                return values[everyone.index(source)]
        return _nothing(operand)

    def stablehlo(
        self,
        emit: Any,
        *values: Any,
        source_target_pairs: Groups,
        channel_id: int | None,
        inplace: bool,
    ) -> Sequence[str]:
        return self.emit_collective(
            emit,
            *values,
            source_target_pairs=source_target_pairs or "dense<> : tensor<0x2xi64>",
            channel_handle=channel_text(channel_id),
        )

    def hlo_attributes(
        self,
        shapes: Any,
        *,
        source_target_pairs: Groups,
        channel_id: int | None,
        inplace: bool,
    ) -> dict[str, Any]:
        return {"channel_id": channel_id or None, "source_target_pairs": source_target_pairs}

    def transpose(
        self,
        cotangents: Any,
        *_: Any,
        source_target_pairs: Groups,
        **others: Any,
    ) -> Sequence[Any]:
        back = [(target, source) for source, target in source_target_pairs]
        return (bind(self, cotangents, source_target_pairs=back, **others),)


@register
class CollectiveBroadcast(_Passing, Composed):
    """Sends the operand of the first of each group to all of it. XLA: CollectiveBroadcast.

    A process in no group gets zeros. XLA:CPU lacks the operation: there the first of each group
    sends to one other at a time.

    Attributes:
        replica_groups, channel_id: see Collective.

    Checks:
        (G1), (G4) see Collective; groups may differ in size and leave processes out.
    """

    stablehlo_name = "collective_broadcast"
    attributes = {"replica_groups": GROUPS, "channel_id": CHANNEL}

    def shape(self, operand: Any, /, **groups: Any) -> Shape:
        (operand,) = self.array_shapes([operand])
        self.check_groups(**groups)
        return operand

    def reference(
        self, operand: np.ndarray, /, *, replica_groups: Groups, channel_id: int | None
    ) -> np.ndarray:
        members = self.members(replica_groups, channel_id)
        if members is None:
            return _nothing(operand)
        return self.exchange(operand, members, channel_id, itemgetter(0))

    def composition(self, operand: Any, *, replica_groups: Groups, channel_id: int | None) -> Any:
        if not replica_groups:
            self.group_size(replica_groups, channel_id, False)  # which raises
        here = splat(True, Shape("pred"))
        result = None
        for pairs in _to_members(replica_groups):
            moved = collective_permute(operand, pairs, channel_id)
            if result is None:
                result = moved
            else:
                result = select(collective_permute(here, pairs, channel_id), moved, result)
        return result

    def stablehlo(self, emit: Any, *values: Any, **groups: Any) -> Sequence[str]:
        # StableHLO has no groups of several sizes.
        if emit.platform == "cpu" or len(set(map(len, groups["replica_groups"]))) > 1:
            return super().stablehlo(emit, *values, **groups)
        return self.emit_collective(emit, *values, **self.group_text(**groups))

    def hlo_attributes(self, shapes: Any, **groups: Any) -> dict[str, Any]:
        return self.hlo_groups(**groups)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /, **groups: Any
    ) -> Any:
        return bind(self, *tangents, **groups)

    def transpose(
        self,
        cotangents: Any,
        *_: Any,
        replica_groups: Groups,
        channel_id: int | None,
    ) -> Sequence[Any]:
        if not replica_groups:
            self.group_size(replica_groups, channel_id, False)  # which raises
        total = None
        for pairs in _to_members(replica_groups):
            back = [(target, source) for source, target in pairs]
            total = add_cotangents(total, collective_permute(cotangents, back, channel_id))
        return (total,)


def _to_members(replica_groups: Groups) -> list[list[tuple[int, int]]]:
    """Pairs from the first of each group to its first, to its second, and so on."""
    longest = max(map(len, replica_groups))
    return [
        [(group[0], group[at]) for group in replica_groups if at < len(group)]
        for at in range(longest)
    ]


def collective_permute(
    operand: Any,
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: int | None = None,
    inplace: bool = False,
) -> Any:
    """The operand of this process's source; zeros where it is no target.

    Args:
        operand: an array.
        source_target_pairs: who sends to whom.
        channel_id: see Collective.
        inplace: a request to use the operand's memory, without effect.

    Raises:
        ShapeError, AttributeValueError: see CollectivePermute.
    """
    attributes = {"channel_id": channel_id, "inplace": inplace}
    operation = CollectivePermute.instance
    return bind(operation, operand, source_target_pairs=source_target_pairs, **attributes)


def collective_broadcast(
    operand: Any, replica_groups: Groups = (), channel_id: int | None = None
) -> Any:
    """The operand of the first of this process's group; zeros where it is in none.

    Args:
        operand: an array.
        replica_groups: who takes part; see Collective.
        channel_id: see Collective.

    Raises:
        ShapeError, AttributeValueError: see CollectiveBroadcast.
    """
    groups = {"replica_groups": replica_groups, "channel_id": channel_id}
    return bind(CollectiveBroadcast.instance, operand, **groups)
