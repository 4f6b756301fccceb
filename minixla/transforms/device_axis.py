"""Collectives over an axis of devices: XLA's, between the partitions of one program."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape
from minixla.core.tracing import closed_graph
from minixla.transforms import axis_operations as operations
from minixla.transforms.named_axes import Groups
from minixla_ops.binary import add
from minixla_ops.binary import max as maximum
from minixla_ops.binary import min as minimum
from minixla_ops.collective_passing import collective_permute
from minixla_ops.collective_reductions import all_reduce, reduce_scatter
from minixla_ops.collectives import all_gather, all_to_all
from minixla_ops.composed import without_lines
from minixla_ops.conversion import convert_element_type
from minixla_ops.process_ids import partition_id
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape

__all__ = ["DeviceAxis", "collective_program"]


class DeviceAxis:
    """An axis whose members are partitions.

    Args:
        size: their number.
        partitions: which; several groups each of which is such an axis for itself; default: one,
            0 ... size - 1.
    """

    def __init__(self, size: int, partitions: Groups = None) -> None:
        self.size = size
        self._partitions = partitions or (tuple(range(size)),)
        self._channels = 0

    def index(self) -> Any:
        """The number of the member, an s32 scalar."""
        return convert_element_type(partition_id(), "s32")

    def apply(self, operation: Any, operand: Any, groups: Groups, **attributes: Any) -> Any:
        """XLA's collective that does what the operation says."""
        self._channels += 1
        channel = self._channels
        if operation is operations.PERMUTE:
            pairs = [(p[s], p[t]) for p in self._partitions for s, t in attributes["pairs"]]
            return collective_permute(operand, pairs, channel_id=channel)
        numbers = groups or (tuple(range(self.size)),)
        members = tuple([tuple([p[n] for n in each]) for p in self._partitions for each in numbers])
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


@lru_cache(maxsize=1024)
def collective_program(
    operation: Any, shape: AnyShape, partitions: Any, attributes: tuple[tuple[str, Any], ...]
) -> Graph:
    """What an operation of `axis_operations` is between partitions, as a program of its own."""
    given = dict(attributes)
    axis = DeviceAxis(len(partitions[0]), partitions)
    graph = closed_graph(
        lambda operand: axis.apply(operation, operand, **given),
        [shape],
        operation.builder_name,
        operation.builder_name,
    )
    return without_lines(graph)


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
        split, concat = operations.while_both_are_there(split, concat)
        operand = _with_dimension(operand, concat)
    result = all_to_all(operand, split, concat, count, groups, channel_id=channel)
    return result if tiled else _without_dimension(result, split)


def _with_dimension(operand: Any, at: int) -> Any:
    sizes = array_shape(operand).dimensions
    return reshape(operand, (*sizes[:at], 1, *sizes[at:]))


def _without_dimension(operand: Any, at: int) -> Any:
    sizes = array_shape(operand).dimensions
    return reshape(operand, sizes[:at] + sizes[at + 1 :])
