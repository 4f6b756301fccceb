"""Collectives: who takes part, in the four ways in which XLA reads replica groups and channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from minixla.core.attributes import Boolean, Integer, Integers, Literal, Optional
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.errors import AttributeValueError, TransformError, explain
from minixla.core.operation import Operation
from minixla.core.processes import ProcessId, current_process
from minixla.core.shapes import Shape
from minixla_ops.casting import emit_widened

__all__ = ["CHANNEL", "GLOBAL_IDS", "GROUPS", "Collective", "Groups", "channel_text", "groups_text"]
__all__ += ["check_count", "check_dimension", "group_attributes", "scaled"]

#: The attributes that collectives share.
GROUPS = SequenceAttribute(Integers(minimum=0), ())
CHANNEL = Optional(Integer(minimum=0))
GLOBAL_IDS = Boolean(False)

Groups = Sequence[Sequence[int]]


class Collective(Operation):
    """Base class: all processes of a group make the same call and exchange values.

    The numbers in `replica_groups` are
    - replicas, for each partition apart, where there is no channel (or channel 0);
    - with a channel and `use_global_device_ids`: replica * partition count + partition;
    - with a channel and without `use_global_device_ids`, where the operation has that attribute:
      replicas, whose partitions all take part; where it has not: partitions, for each replica
      apart.

    No groups at all stand for one group of everybody, in order.

    Attributes:
        replica_groups: lists of such numbers.
        channel_id: what tells calls of one kind apart; None or 0 for none.
        use_global_device_ids: see above.

    Checks:
        (G1) no group is empty and no number comes twice.
        (G2) groups are of equal size: that which an attribute or a shape says.
        (G3) use_global_device_ids needs a channel.
        (G4) groups name only processes that exist, and each of them, so that their numbers are 0,
            1, ... (CollectiveBroadcast and CollectivePermute may leave some out).
    """

    operand_names = ("operand",)
    #: Whether groups name every process.
    covers: ClassVar[bool] = True

    def check_groups(
        self,
        replica_groups: Groups,
        channel_id: int | None,
        use_global_device_ids: bool = False,
        size: int | None = None,
    ) -> None:
        """Checks G1 to G4 as far as the program alone says it; G2 only where `size` is given."""
        given = [f"replica_groups {_listed(replica_groups)}"]
        named = [number for group in replica_groups for number in group]
        if len(set(named)) < len(named) or not all(replica_groups):
            problem = "a group is empty, or a number comes twice"
            self.reject_attribute("G1", problem, given, "Each process belongs to one group.")
        spans = bool(channel_id) and self.reads_replicas(use_global_device_ids)
        self._check_processes(replica_groups, max(named, default=-1) + 1)
        wrong = [
            group
            for group in replica_groups
            if size is not None and (size % len(group) if spans else size != len(group))
        ]
        if wrong:
            problem = f"a group has {len(wrong[0])} members where there should be {size}"
            advice = "All groups must have the size that the count says."
            self.reject_attribute("G2", problem, given, advice)
        if use_global_device_ids and not channel_id:
            problem = "use_global_device_ids is set without a channel"
            self.reject_attribute("G3", problem, given, "Give a channel_id that is positive.")

    def reads_replicas(self, use_global_device_ids: bool) -> bool:
        """Whether, with a channel, numbers are replicas all of whose partitions take part."""
        return "use_global_device_ids" in self.attributes and not use_global_device_ids

    def group_size(
        self, replica_groups: Groups, channel_id: int | None, use_global_device_ids: bool
    ) -> int:
        """The size of every group, where the program alone says it.

        Raises:
            TransformError: it does not.
        """
        sizes = {len(group) for group in replica_groups}
        if len(sizes) == 1 and not (channel_id and not use_global_device_ids):
            return sizes.pop()
        raise explain(
            TransformError,
            self.builder_name,
            "it is made of other operations here, which needs the size of the groups",
            [f"replica_groups {_listed(replica_groups)}", f"channel_id {channel_id}"],
            "Give groups of equal size; with a channel, set use_global_device_ids.",
        )

    def members(
        self,
        replica_groups: Groups,
        channel_id: int | None,
        use_global_device_ids: bool = False,
    ) -> tuple[ProcessId, ...] | None:
        """The group of the process that runs, in order; None where it is in none.

        Raises:
            AttributeValueError: the groups do not fit the processes (G4).
        """
        process = current_process()
        replicas, partitions = process.replica_count, process.partition_count
        if channel_id and use_global_device_ids:
            own, count = process.replica * partitions + process.partition, replicas * partitions
        elif channel_id and "use_global_device_ids" not in self.attributes:
            own, count = process.partition, partitions
        else:
            own, count = process.replica, replicas
        self._check_processes(replica_groups, count)
        groups = replica_groups or [range(count)]
        group = next((each for each in groups if own in each), None)
        if group is None:
            return None
        if not channel_id:
            return tuple([(number, process.partition) for number in group])
        if use_global_device_ids:
            return tuple([divmod(number, partitions) for number in group])
        if "use_global_device_ids" not in self.attributes:
            return tuple([(process.replica, number) for number in group])
        return tuple([(number, each) for each in range(partitions) for number in group])

    def _check_processes(self, replica_groups: Groups, count: int) -> None:
        named = {number for group in replica_groups for number in group}
        extra = sorted(number for number in named if number >= count)
        numbers = range(count) if named and self.covers else ()
        left_out = next((number for number in numbers if number not in named), None)
        if extra:
            problem = f"the groups name process {extra[0]}, but there are only {count}"
        elif left_out is not None:
            problem = f"process {left_out} of {count} is in no group"
        else:
            return
        raise explain(
            AttributeValueError,
            self.builder_name,
            f"(G4) {problem}",
            [f"replica_groups {_listed(replica_groups)}"],
            "Name each process once; run the programs of all processes with mx.simulate.",
        )

    def exchange(
        self,
        value: Any,
        members: Sequence[ProcessId],
        channel_id: int | None,
        combine: Callable[[list[Any]], Any] = list,
        **attributes: Any,
    ) -> Any:
        """What `combine` makes of the members' values, in their order.

        Element types, sizes and `attributes` must be equal for all.
        """
        arrays = map(np.asarray, value if type(value) is tuple else (value,))
        shapes = [f"{each.dtype}{list(each.shape)}" for each in arrays]
        signature = (*shapes, *attributes.items())
        subject, channel = self.builder_name, channel_id or 0
        return current_process().meet(subject, channel, members, value, signature, combine)

    def emit_collective(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[Any],
        results: Sequence[Any],
        regions: Sequence[str] = (),
        **attributes: Any,
    ) -> Sequence[str]:
        """Writes the operation; nothing is exchanged where results are empty."""
        if not any(shape.size for shape in results):  # StableHLO and XLA:CPU refuse that
            empty = [Literal(np.zeros(shape.dimensions, shape.dtype), shape) for shape in results]
            return [emit.constant(literal) for literal in empty]
        name, kind = f"stablehlo.{self.stablehlo_name}", shapes[0].element_type
        if emit.platform != "cpu" or kind.bits != 2:
            return emit.operation(name, operands, shapes, results, regions, **attributes)
        # XLA:CPU loses all but the first of the 2-bit integers that share a byte.
        write = partial(self.emit_collective, emit, regions=regions, **attributes)
        return emit_widened(emit, write, operands, shapes, results)

    def group_text(
        self,
        replica_groups: Groups,
        channel_id: int | None,
        use_global_device_ids: bool = False,
        size: int | None = None,
    ) -> dict[str, Any]:
        """The attributes in StableHLO's notation.

        Groups are written out where their size is known: jaxlib's parser dies of an all_to_all
        without, and the verifiers of others compare shapes with them.
        """
        spans = channel_id and self.reads_replicas(use_global_device_ids)
        if not replica_groups and size is not None and not spans:
            replica_groups = [range(size)]
        return {
            "replica_groups": groups_text(replica_groups),
            "channel_handle": channel_text(channel_id),
            "use_global_device_ids": "unit" if use_global_device_ids else None,
        }

    def hlo_groups(
        self,
        replica_groups: Groups,
        channel_id: int | None,
        use_global_device_ids: bool = False,
    ) -> dict[str, Any]:
        """The attributes in HLO's notation."""
        return {
            "channel_id": channel_id or None,
            "replica_groups": replica_groups,
            "use_global_device_ids": use_global_device_ids or None,
        }


def channel_text(channel_id: int | None, type: int = 1) -> str | None:
    """A channel handle in MLIR's notation; type 1 is from device to device."""
    if not channel_id:
        return None
    return f"#stablehlo.channel_handle<handle = {channel_id}, type = {type}>"


def groups_text(groups: Groups) -> str:
    """Groups as dense elements, short ones filled up with -1."""
    width = max(map(len, groups), default=0)
    rows = [[*group, *[-1] * (width - len(group))] for group in groups]
    kind = f"tensor<{len(rows)}x{width}xi64>"
    return f"dense<{rows}> : {kind}" if rows else f"dense<> : {kind}"


def _listed(groups: Groups) -> str:
    text = str([list(group) for group in groups])
    return text if len(text) <= 200 else f"{text[:197]}..."


def check_dimension(
    operation: Collective, name: str, operand: Shape, dimension: int, label: str = "C1"
) -> None:
    """Rejects, for check `label`, what is no dimension of the operand."""
    if not 0 <= dimension < operand.rank:
        operation.reject_attribute(
            label,
            f"{name} {dimension} is no dimension of the operand",
            [f"operand {operand}"],
            f"It must be in [0, {operand.rank}).",
        )


def check_count(operation: Collective, name: str, given: int, size: int) -> None:
    """Rejects, when it runs, a count (attribute `name`) that is not the size of the group."""
    if given != size:
        operation.reject_attribute(
            "G2",
            f"{name} is {given}, and the group has {size} members",
            [],
            "Without groups it is the number of processes that the call reaches.",
        )


def scaled(operand: Shape, dimension: int, factor: int, divisor: int = 1) -> Shape:
    """The shape with the size of one dimension times `factor` / `divisor`."""
    sizes = list(operand.dimensions)
    sizes[dimension] = sizes[dimension] * factor // divisor
    return Shape(operand.element_type, sizes, operand.dynamic)


def group_attributes(
    replica_groups: Groups, channel_id: int | None, use_global_device_ids: bool | None
) -> dict[str, Any]:
    """A builder's arguments as attributes."""
    return {
        "replica_groups": replica_groups,
        "channel_id": channel_id,
        "use_global_device_ids": bool(use_global_device_ids),
    }
