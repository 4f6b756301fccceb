"""Collectives over an axis of pmap: XLA's, between the partitions of one program."""

from __future__ import annotations

from typing import Any

from minixla.transforms import axis_operations as operations
from minixla.transforms.named_axes import Groups
from minixla_ops.binary import add
from minixla_ops.binary import max as maximum
from minixla_ops.binary import min as minimum
from minixla_ops.collective_passing import collective_permute
from minixla_ops.collective_reductions import all_reduce, reduce_scatter
from minixla_ops.collectives import all_gather, all_to_all
from minixla_ops.conversion import convert_element_type
from minixla_ops.process_ids import partition_id
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape

__all__ = ["DeviceAxis"]


class DeviceAxis:
    """An axis whose members are the partitions 0 ... size - 1."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._channels = 0

    def index(self) -> Any:
        """The number of the member, an s32 scalar."""
        return convert_element_type(partition_id(), "s32")

    def apply(self, operation: Any, operand: Any, groups: Groups, **attributes: Any) -> Any:
        """XLA's collective that does what the operation says."""
        self._channels += 1
        channel = self._channels
        if operation is operations.PERMUTE:
            return collective_permute(operand, attributes["pairs"], channel_id=channel)
        members = groups or (tuple(range(self.size)),)
        everywhere = {
            "replica_groups": members,
            "channel_id": channel,
            "use_global_device_ids": True,
        }
        if operation is operations.SUM:
            return all_reduce(operand, add, **everywhere)
        if operation is operations.EXTREME:
            extreme = maximum if attributes["kind"] == "max" else minimum
            return all_reduce(operand, extreme, **everywhere)
        count, tiled = len(members[0]), attributes.pop("tiled")
        if operation is operations.ALL_TO_ALL:
            return _exchanged(operand, count, tiled, members, channel, **attributes)
        axis = attributes["axis"]
        if operation is operations.ALL_GATHER:
            given = operand if tiled else _with_dimension(operand, axis)
            return all_gather(given, axis, count, **everywhere)
        part = reduce_scatter(operand, add, axis, count, **everywhere)
        return part if tiled else _without_dimension(part, axis)


def _exchanged(
    operand: Any,
    count: int,
    tiled: bool,
    groups: Any,
    channel: int,
    *,
    split_axis: int,
    concat_axis: int,
) -> Any:
    split, concat = split_axis, concat_axis
    if not tiled:
        # The new dimension stands beside that which is cut until the latter is gone.
        before = concat <= split
        split, concat = (split + 1, concat) if before else (split, concat + 1)
        operand = _with_dimension(operand, concat)
    result = all_to_all(operand, split, concat, count, groups, channel_id=channel)
    return result if tiled else _without_dimension(result, split)


def _with_dimension(operand: Any, at: int) -> Any:
    sizes = array_shape(operand).dimensions
    return reshape(operand, (*sizes[:at], 1, *sizes[at:]))


def _without_dimension(operand: Any, at: int) -> Any:
    sizes = array_shape(operand).dimensions
    return reshape(operand, sizes[:at] + sizes[at + 1 :])
