"""Base class of collectives: groups of processes in XLA's four modes; process ids."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from minixla.core import Operation, Shape, attributes, register
from minixla.core.attributes import Boolean, Integer, Integers, Literal, ShapeAttribute, attribute
from minixla.core.errors import TransformError, explain
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION
from minixla_ops.collectives.processes import Meeting, ProcessId, current_process
from minixla_ops.helpers.shorthand import as_results

Groups = Sequence[Sequence[int]]


class ProcessLists(attributes.Sequence):
    """Lists of process indices; in StableHLO a table whose short rows are padded with -1."""

    takes = "Sequence[Sequence[int]]"

    def __init__(self, width: int = 0) -> None:
        super().__init__(Integers(minimum=0))
        self._width = width  # the width of a table without rows

    def stablehlo(self, value: Groups) -> str:
        width = max(map(len, value), default=self._width)
        rows = [[*row, *[-1] * (width - len(row))] for row in value]
        return f"dense<{rows or ''}> : tensor<{len(rows)}x{width}xi64>"

    def read(self, written: object) -> Groups:
        if not isinstance(written, np.ndarray) or not written.ndim:
            raise ValueError(f"must be a dense array of numbers, not {written}")
        rows = written.reshape(-1, written.shape[-1]) if written.size else ()
        return [[number for number in row.tolist() if number >= 0] for row in rows]


class Channel(Integer):
    """A channel id; 0 means no channel."""

    def canonical(self, value: SupportsIndex) -> int | None:
        return super().canonical(value) or None

    def stablehlo(self, value: int, type: int = 1) -> str:
        """Write a channel handle in MLIR's notation; type 1 is from device to device."""
        return f"#stablehlo.channel_handle<handle = {value}, type = {type}>"

    def read(self, written: str) -> int:
        return attributes.written_fields(written)["handle"]


class _Unit(Boolean):
    """True, or not written."""

    def canonical(self, value: object) -> bool | None:
        return super().canonical(value) or None

    def stablehlo(self, value: bool) -> str:
        return "unit"  # its presence means true


class _WithoutEffect(attributes.Attribute):
    is_ambiguous = False

    def canonical(self, value: object) -> None:
        pass


#: Attributes that collectives share.
GROUPS = attribute(ProcessLists(), default=())
CHANNEL = attribute(Channel(minimum=0), default=None, stablehlo="channel_handle")
GLOBAL_IDS = attribute(_Unit(), default=None)
LAYOUT = attribute(_WithoutEffect(), default=None, stablehlo=None, hlo=None)
#: The attributes that HLO writes first.
_FIRST = ("channel_id", "replica_groups", "use_global_device_ids", "dimensions")


class Collective(Operation):
    """Base class of collectives: all processes of a group make the same call and exchange values.

    The numbers in `replica_groups` are
    - without a channel (or with channel 0): replicas, separately for each partition;
    - with a channel and `use_global_device_ids`: replica * partition count + partition;
    - with a channel and without `use_global_device_ids`: replicas, with all their partitions. If
    the operation lacks that attribute: partitions, separately for each replica.

    An empty list means one group of all processes, in order.

    Args:
        replica_groups: lists of these numbers.
        channel_id: distinguishes calls of the same kind; None or 0 for no channel.
        use_global_device_ids: see above.

    Checks:
        (G1) groups are not empty and numbers are not repeated.
        (G2) groups have the same size, which an attribute or a shape states.
        (G3) use_global_device_ids needs a channel.
        (G4) groups list only existing processes, and all of them, so that their numbers are 0,
            1, ... (CollectiveBroadcast and CollectivePermute may omit some).
    """

    operands = ("operand",)
    replica_groups: ClassVar[Groups]
    channel_id: ClassVar[int | None]
    #: True if groups must list every process.
    covers: ClassVar[bool] = True
    #: The attribute that states the size of a group.
    counted_by: ClassVar[str] = ""
    #: True if all members of a group have the same result.
    gives_all_the_same: ClassVar[bool] = False
    #: Attributes that are dimensions of the operand.
    along: ClassVar[tuple[str, ...]] = ()

    @property
    def mode(self) -> str:
        """The meaning of the numbers, by StableHLO's names."""
        if not self.channel_id:
            return "cross_replica"
        if "use_global_device_ids" not in self.fields:
            return "cross_partition"
        is_global = self.values["use_global_device_ids"]
        return "flattened_ids" if is_global else "cross_replica_and_partition"

    @property
    def spans_partitions(self) -> bool:
        """True if numbers are replicas, and all their partitions take part."""
        return self.mode == "cross_replica_and_partition"

    @property
    def groups(self) -> dict[str, Any]:
        """The attributes that define the groups, for another collective."""
        names = ("replica_groups", "channel_id", "use_global_device_ids")
        return {name: self.values[name] for name in names if name in self.fields}

    @property
    def count(self) -> int | None:
        """The size of every group, if an attribute states it."""
        return self.values.get(self.counted_by)

    def check_groups(self, size: int | None = None) -> None:
        """Run checks G1 to G4 as far as the program determines them; a shape may state `size`."""
        groups, size = self.replica_groups, self.count if size is None else size
        named = [number for group in groups for number in group]
        if len(set(named)) < len(named) or not all(groups):
            self.refuse_attribute(
                "G1", "replica_groups must not have empty groups or repeated numbers"
            )
        self._check_processes(max(named, default=-1) + 1)
        for members in map(len, groups):
            wanted = members if size is None else size
            if wanted % members if self.spans_partitions else wanted != members:
                problem = f"a group has {members} members; it must have {size}"
                self.refuse_attribute("G2", problem)
        if self.values.get("use_global_device_ids") and not self.channel_id:
            problem = "use_global_device_ids needs a channel"
            self.refuse_attribute("G3", problem, "Pass a positive channel_id.")

    def group_size(self) -> int:
        """Return the size of every group; raise TransformError if the program does not state it."""
        if self.count is not None:
            return self.count
        sizes = set(map(len, self.replica_groups))
        if len(sizes) == 1 and not self.spans_partitions:
            return sizes.pop()
        problem = "its lowering to other operations needs the size of the groups"
        details = [f"{name} {value}"[:200] for name, value in self.groups.items()]
        advice = "Pass groups of equal size; with a channel, set use_global_device_ids."
        raise explain(TransformError, self.builder_name, problem, details, advice)

    def members(self) -> tuple[ProcessId, ...]:
        """Return the group of the running process, in order; empty if it is in no group."""
        process = current_process()
        replicas, partitions = range(process.replica_count), range(process.partition_count)
        # The processes for each number.
        table: list[list[ProcessId]] = {
            "cross_replica": [[(replica, process.partition)] for replica in replicas],
            "cross_partition": [[(process.replica, partition)] for partition in partitions],
            "flattened_ids": [[pair] for pair in product(replicas, partitions)],
            "cross_replica_and_partition": [
                [(i, partition) for partition in partitions] for i in replicas
            ],
        }[self.mode]
        self._check_processes(len(table))
        groups = self.replica_groups or [range(len(table))]
        index = next(number for number, group in enumerate(table) if process.id in group)
        group = next((group for group in groups if index in group), ())
        rows = zip(*[table[number] for number in group], strict=True)
        found = tuple([member for row in rows for member in row])
        if self.count not in (None, len(found)):
            problem = f"{self.counted_by} is {self.count}, but the group has {len(found)} members"
            advice = "Without groups, it must be the number of participating processes."
            self.refuse_attribute("G2", problem, advice)
        return found

    def _check_processes(self, count: int) -> None:
        named = {number for group in self.replica_groups for number in group}
        extra = sorted(number for number in named if number >= count)
        numbers = range(count) if named and self.covers else ()
        left_out = next((number for number in numbers if number not in named), None)
        if extra:
            problem = f"replica_groups has process {extra[0]}, but there are {count} processes"
        elif left_out is not None:
            problem = f"replica_groups lacks process {left_out} of {count}"
        else:
            return
        advice = "List each process once; run the programs of all processes with mx.simulate."
        self.refuse_attribute("G4", problem, advice)

    def exchange(
        self,
        value: object,
        members: Sequence[ProcessId],
        combine: Callable[[list[Any]], object] = list,
        **equal: object,
    ) -> Any:
        """Apply `combine` to the members' values, in order; `equal` must agree for all members."""
        arrays = map(np.asarray, value if type(value) is tuple else (value,))
        signature = (*[f"{array.dtype}{list(array.shape)}" for array in arrays], *equal.items())
        call = self.builder_name, self.channel_id or 0, tuple(members), value, signature, combine
        return current_process().meet(Meeting(*call))

    def check_dimension(self, name: str, operand: Shape, label: str = "C1") -> int:
        """Return the attribute `name`, a dimension of the operand; raise for `label` otherwise."""
        dimension = self.values[name]
        if not 0 <= dimension < operand.rank:
            problem = f"{name} {dimension} is not a dimension of the operand"
            self.refuse_attribute(label, problem, f"It must be in [0, {operand.rank}).")
        return dimension

    def block(self, operand: Shape, dimension: int, label: str) -> Shape:
        """Return the shape of one member's block; raise for `label` if sizes do not divide."""
        count = self.count or 1
        if operand.dimensions[dimension] % count:
            problem = f"{self.counted_by} {count} must divide the size of dimension {dimension}"
            self.refuse_attribute(label, problem, "All blocks must have the same size.")
        return scaled(operand, dimension, 1, count)

    def stablehlo(self, emit, operands, shapes, results):
        if not any(shape.size for shape in results):  # StableHLO rejects empty results
            return [emit.constant(Literal.splat(0, shape)) for shape in results]
        # Write groups explicitly if their size is known. jaxlib's parser aborts on an all_to_all
        # without them, and other verifiers compare shapes with them.
        is_open = self.count and not self.replica_groups and not self.spans_partitions
        written = self.replace(replica_groups=[range(self.count or 0)]) if is_open else self
        return Operation.stablehlo(written, emit, operands, shapes, results)

    def batch(self, operands, dimensions):
        along = {name: self.values[name] for name in self.along}
        moved = {
            name: dimension + (dimensions[0] <= dimension) for name, dimension in along.items()
        }
        return self(*operands, **moved), as_results(dimensions)

    def sharding_rule(self, *operands):
        # Along these dimensions, a process gets values of other processes.
        rule = self.sharding_factors(operands)
        whole = dict.fromkeys(self.values[name] for name in self.along)
        for index, size in enumerate(rule.result_sizes[0]):
            if index not in whole:
                rule.same(index, size)
        for index in whole:
            present, absent = [index] * len(operands), [ABSENT] * len(operands)
            rule.add(present, absent, operands[0].dimensions[index], NEED_REPLICATION)
            rule.add(absent, present, rule.result_sizes[0][index], NEED_REPLICATION)
        return rule.build()

    def hlo_attributes(self, shapes):
        texts = super().hlo_attributes(shapes)
        return {**{name: texts[name] for name in _FIRST if name in texts}, **texts}


def scaled(operand: Shape, dimension: int, factor: int, divisor: int = 1) -> Shape:
    """Multiply the size of one dimension by `factor` / `divisor`."""
    size = operand.dimensions[dimension] * factor // divisor
    return operand.without_dimension(dimension).with_dimension(dimension, size)


_SCALAR = Shape("u32")


@register
class ReplicaId(Operation):
    """Return the replica that runs this program, u32[] in [0, replicas). XLA: ReplicaId.

    Returns:
        A u32 scalar.

    Example:
        >>> mx.simulate(ops.replica_id, [[()], [()]])
        [[array(0, dtype=uint32)], [array(1, dtype=uint32)]]
    """

    stablehlo_name = "replica_id"
    zero_derivative = "it has no operands"

    def shape(self):
        return _SCALAR

    def reference(self):
        return np.asarray(current_process().replica, np.uint32)


@register
class PartitionID(Operation):
    """Return the partition that runs this program, u32[] in [0, partitions). XLA: PartitionId.

    Args:
        shape: the result's shape.

    Returns:
        A u32 scalar.

    Checks:
        (C1) the shape is u32[].

    Example:
        >>> mx.simulate(ops.partition_id, [[(), ()]])
        [[array(0, dtype=uint32), array(1, dtype=uint32)]]
    """

    hlo_name = "partition-id"
    stablehlo_name = builder_name = "partition_id"
    output_shape: Shape = attribute(ShapeAttribute(), default=_SCALAR, stablehlo=None, hlo=None)
    zero_derivative = "it has no operands"

    def shape(self):
        if self.output_shape is not _SCALAR:
            self.refuse_attribute("C1", "the shape must be u32[]", "Convert the result.")
        return _SCALAR

    def reference(self):
        return np.asarray(current_process().partition, np.uint32)
