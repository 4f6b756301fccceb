"""Collectives: who takes part, in the four ways in which XLA reads groups; who a process is."""

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
    """Lists of numbers of processes; in StableHLO a table, short rows filled up with -1."""

    takes = "Sequence[Sequence[int]]"

    def __init__(self, width: int = 0) -> None:
        super().__init__(Integers(minimum=0))
        self._width = width  # of a table without rows

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
    """The number of a channel; 0 is none."""

    def canonical(self, value: SupportsIndex) -> int | None:
        return super().canonical(value) or None

    def stablehlo(self, value: int, type: int = 1) -> str:
        """A channel handle in MLIR's notation; type 1 is from device to device."""
        return f"#stablehlo.channel_handle<handle = {value}, type = {type}>"

    def read(self, written: str) -> int:
        return attributes.written_fields(written)["handle"]


class _Unit(Boolean):
    """True, or what is not written."""

    def canonical(self, value: object) -> bool | None:
        return super().canonical(value) or None

    def stablehlo(self, value: bool) -> str:
        return "unit"  # it says something by being there


class _WithoutEffect(attributes.Attribute):
    is_ambiguous = False

    def canonical(self, value: object) -> None:
        pass


#: Attributes that collectives share.
GROUPS = attribute(ProcessLists(), default=())
CHANNEL = attribute(Channel(minimum=0), default=None, stablehlo="channel_handle")
GLOBAL_IDS = attribute(_Unit(), default=None)
LAYOUT = attribute(_WithoutEffect(), default=None, stablehlo=None, hlo=None)
#: What HLO names first.
_FIRST = ("channel_id", "replica_groups", "use_global_device_ids", "dimensions")


class Collective(Operation):
    """Base class: all processes of a group make the same call and exchange values.

    The numbers in `replica_groups` are
    - replicas, for each partition apart, where there is no channel (or channel 0);
    - with a channel and `use_global_device_ids`: replica * partition count + partition;
    - with a channel and without `use_global_device_ids`, where the operation has that attribute:
      replicas, whose partitions all take part; where it has not: partitions, for each replica
      apart.

    No groups at all stand for one group of everybody, in order.

    Args:
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

    operands = ("operand",)
    replica_groups: ClassVar[Groups]
    channel_id: ClassVar[int | None]
    #: Whether groups name every process.
    covers: ClassVar[bool] = True
    #: The attribute that says how many members a group has.
    counted_by: ClassVar[str] = ""
    #: Whether all members of a group have the same afterwards.
    gives_all_the_same: ClassVar[bool] = False
    #: The attributes that are dimensions of the operand.
    along: ClassVar[tuple[str, ...]] = ()

    @property
    def mode(self) -> str:
        """How the numbers are read, by StableHLO's names."""
        if not self.channel_id:
            return "cross_replica"
        if "use_global_device_ids" not in self.fields:
            return "cross_partition"
        is_global = self.values["use_global_device_ids"]
        return "flattened_ids" if is_global else "cross_replica_and_partition"

    @property
    def spans_partitions(self) -> bool:
        """Whether numbers are replicas, all of whose partitions take part."""
        return self.mode == "cross_replica_and_partition"

    @property
    def groups(self) -> dict[str, Any]:
        """The attributes that say who takes part, for another collective."""
        names = ("replica_groups", "channel_id", "use_global_device_ids")
        return {name: self.values[name] for name in names if name in self.fields}

    @property
    def count(self) -> int | None:
        """The size of every group, where an attribute says it."""
        return self.values.get(self.counted_by)

    def check_groups(self, size: int | None = None) -> None:
        """Checks G1 to G4 as far as the program alone says it; `size` is what a shape says."""
        groups, size = self.replica_groups, self.count if size is None else size
        named = [number for group in groups for number in group]
        if len(set(named)) < len(named) or not all(groups):
            self.refuse_attribute("G1", "a group is empty, or a number comes twice")
        self._check_processes(max(named, default=-1) + 1)
        for members in map(len, groups):
            wanted = members if size is None else size
            if wanted % members if self.spans_partitions else wanted != members:
                problem = f"a group has {members} members where there should be {size}"
                self.refuse_attribute("G2", problem)
        if self.values.get("use_global_device_ids") and not self.channel_id:
            problem = "use_global_device_ids is set without a channel"
            self.refuse_attribute("G3", problem, "Give a channel_id that is positive.")

    def group_size(self) -> int:
        """The size of every group; TransformError where the program alone does not say it."""
        if self.count is not None:
            return self.count
        sizes = set(map(len, self.replica_groups))
        if len(sizes) == 1 and not self.spans_partitions:
            return sizes.pop()
        problem = "it is made of other operations here, which needs the size of the groups"
        details = [f"{name} {value}"[:200] for name, value in self.groups.items()]
        advice = "Give groups of equal size; with a channel, set use_global_device_ids."
        raise explain(TransformError, self.builder_name, problem, details, advice)

    def members(self) -> tuple[ProcessId, ...]:
        """The group of the process that runs, in order; empty where it is in none."""
        process = current_process()
        replicas, partitions = range(process.replica_count), range(process.partition_count)
        # The processes of each number.
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
            problem = f"{self.counted_by} is {self.count}, and the group has {len(found)} members"
            advice = "Without groups it is the number of processes that the call reaches."
            self.refuse_attribute("G2", problem, advice)
        return found

    def _check_processes(self, count: int) -> None:
        named = {number for group in self.replica_groups for number in group}
        extra = sorted(number for number in named if number >= count)
        numbers = range(count) if named and self.covers else ()
        left_out = next((number for number in numbers if number not in named), None)
        if extra:
            problem = f"the groups name process {extra[0]}, but there are only {count}"
        elif left_out is not None:
            problem = f"process {left_out} of {count} is in no group"
        else:
            return
        advice = "Name each process once; run the programs of all processes with mx.simulate."
        self.refuse_attribute("G4", problem, advice)

    def exchange(
        self,
        value: object,
        members: Sequence[ProcessId],
        combine: Callable[[list[Any]], object] = list,
        **equal: object,
    ) -> Any:
        """What `combine` makes of the members' values, in order; `equal` must be so for all."""
        arrays = map(np.asarray, value if type(value) is tuple else (value,))
        signature = (*[f"{array.dtype}{list(array.shape)}" for array in arrays], *equal.items())
        call = self.builder_name, self.channel_id or 0, tuple(members), value, signature, combine
        return current_process().meet(Meeting(*call))

    def check_dimension(self, name: str, operand: Shape, label: str = "C1") -> int:
        """The attribute `name`, a dimension of the operand; refuses others for check `label`."""
        dimension = self.values[name]
        if not 0 <= dimension < operand.rank:
            problem = f"{name} {dimension} is no dimension of the operand"
            self.refuse_attribute(label, problem, f"It must be in [0, {operand.rank}).")
        return dimension

    def block(self, operand: Shape, dimension: int, label: str) -> Shape:
        """The shape of the block of one member; refuses for `label` where they are not equal."""
        count = self.count or 1
        if operand.dimensions[dimension] % count:
            problem = f"{self.counted_by} {count} does not divide dimension {dimension}"
            self.refuse_attribute(label, problem, "All blocks must have one size.")
        return scaled(operand, dimension, 1, count)

    def stablehlo(self, emit, operands, shapes, results):
        if not any(shape.size for shape in results):  # StableHLO refuses that
            return [emit.constant(Literal.splat(0, shape)) for shape in results]
        # Groups are written out where their size is known: jaxlib's parser dies of an all_to_all
        # without, and the verifiers of others compare shapes with them.
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
        # Of the values of one process: what it gets along these dimensions has others' in it.
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
    """The shape with the size of one dimension times `factor` / `divisor`."""
    size = operand.dimensions[dimension] * factor // divisor
    return operand.without_dimension(dimension).with_dimension(dimension, size)


_SCALAR = Shape("u32")


@register
class ReplicaId(Operation):
    """The replica that runs this program, u32[] in [0, number of replicas). XLA: ReplicaId.

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
    """The partition that runs this program, u32[] in [0, number of partitions). XLA: PartitionId.

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
            self.refuse_attribute("C1", "the shape is not u32[]", "Convert the result.")
        return _SCALAR

    def reference(self):
        return np.asarray(current_process().partition, np.uint32)
