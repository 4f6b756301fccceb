"""AllReduce (CrossReplicaSum) and ReduceScatter: combine the operands of a group."""

from collections.abc import Sequence
from functools import reduce as fold_left
from itertools import compress
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Graph, register, shape_of
from minixla.core.attributes import Dimension, Instance, Integer, attribute
from minixla.core.builders import builds
from minixla.core.linear import spread
from minixla.core.shapes import Shape, TupleValue
from minixla.typing import Array, ArrayLike
from minixla_ops.collectives import collective_groups
from minixla_ops.collectives.processes import current_process
from minixla_ops.elementwise.operators import convert
from minixla_ops.folds.fold_programs import fold_in_order
from minixla_ops.helpers.batch_dimensions import to_front
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple, splat
from minixla_ops.helpers.tuple_operations import tuple_leaves
from minixla_ops.programs import computations
from minixla_ops.programs.computations import Computation, monoid_of
from minixla_ops.programs.lowering import Lowered
from minixla_ops.programs.reference_evaluation import apply_elementwise


class _Reducing(collective_groups.Collective, Lowered):
    """Base class: combines the operands of a group, element by element and in the group's order.

    Sums are linear. The tangent of a maximum or minimum is the mean of the tangents of the members
    that attain it. Other computations are differentiated as a program that gathers the operands and
    combines them, which requires known group sizes.
    """

    operands = ("operands...",)
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")

    def spread(self, value: Array) -> Array:
        """Return a result as all members have it; ReduceScatter overrides it for its parts."""
        return value

    def own_part(self, whole: Array, size: int) -> Array:
        """Return this member's part of the combined result."""
        return whole

    def pulled(self, value: Array) -> Array:
        """Return an operand's cotangent from a result's, for sums."""
        return self.summed(value)

    def summed(self, operand: Array) -> Array:
        """Apply the operation with a sum to one operand."""
        return self(operand, computation=_computation(type(self), ops.add, operand))

    def check_operands(self, shapes: Sequence[Shape]) -> None:
        """Run checks C1 to C3."""
        if not shapes:
            self.refuse("C1", "at least one operand is required", "Pass one or more arrays.")
        scalar = Shape(shapes[0].element_type)
        if any(shape.element_type is not scalar.element_type for shape in shapes):
            advice = "Use a separate call for each element type."
            self.refuse("C2", "operands must have equal element types", advice)
        declared = "computation", self.computation, (scalar, scalar), (scalar,)
        computations.check_computation(self, "C3", *declared)

    def total(self, operands: Sequence[np.ndarray], **how: object) -> Sequence[np.ndarray]:
        """Combine each operand over the group, once for all members."""

        def combine(running: np.ndarray, value: np.ndarray) -> np.ndarray:
            return apply_elementwise(self.computation, [running, value])[0]

        def combined(columns: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
            return [fold_left(combine, column) for column in zip(*columns, strict=True)]

        members = self.members()
        return self.exchange(operands, members, combined, computation=self.computation, **how)

    def lowered(self, *operands):
        size = self.group_size()
        results = []
        for operand in operands:
            sizes = array_shape(operand).dimensions
            rows = ops.all_gather(ops.reshape(operand, (1, *sizes)), 0, size, **self.groups)
            parts = [ops.reshape(ops.slice_in_dim(rows, i, i + 1, 0), sizes) for i in range(size)]
            rest = [[row] for row in parts[1:]]
            (whole,) = fold_in_order(self.computation, rest, parts[:1], sizes)
            results.append(self.own_part(whole, size))
        return tuple(results)

    def is_linear_in(self, variables):
        # It is linear in its own tangents; `transpose` rejects other computations than sums.
        return True

    def jvp(self, primals, tangents, results):
        monoid = monoid_of(self.computation)
        if monoid not in ("add", "max", "min"):
            return super().jvp(primals, tangents, results)
        moving = [tangent is not None for tangent in tangents]
        if monoid == "add":
            pushed = as_tuple(self(*compress(tangents, moving)))
        else:
            rows = zip(primals, tangents, as_tuple(results), strict=True)
            pushed = [self._extreme_tangent(*row) for row in compress(rows, moving)]
        return as_results(spread(moving, pushed))

    def _extreme_tangent(self, primal: Array, tangent: Array, result: Array) -> Array:
        is_chosen = ops.eq(primal, self.spread(result))
        chosen = convert(is_chosen, array_shape(primal).element_type)
        return self.summed(tangent * chosen) / self.summed(chosen)

    def transpose(self, cotangents, operands, linear):
        if monoid_of(self.computation) != "add":
            raise self.not_linear(f"{self.computation.name}: only sums are linear")
        pairs = zip(as_tuple(cotangents), linear, strict=True)
        return [
            self.pulled(cotangent) if flag and cotangent is not None else None
            for cotangent, flag in pairs
        ]


@register
class AllReduce(_Reducing):
    """Combine the operands of a group, element by element. XLA: AllReduce.

    CrossReplicaSum is AllReduce with `add`.

    Args:
        operand: an array, or a tuple or list of arrays, which are reduced separately.
        computation: a Graph, or a function of two scalars, such as `add`.
        replica_groups, channel_id, use_global_device_ids: the groups; see Collective.
        shape_with_layout: a memory layout, which is ignored.

    Returns:
        An array, or a tuple of arrays.

    Checks:
        (C1) there is at least one operand.
        (C2) operands have equal element types.
        (C3) computation takes two scalars of this type and returns one.
        (G1) to (G4) see Collective; groups may differ in size.

    Example:
        >>> total = lambda x: ops.all_reduce(x, ops.add)
        >>> mx.simulate(total, [[(np.int32([1]),)], [(np.int32([2]),)]])
        [[array([3], dtype=int32)], [array([3], dtype=int32)]]
    """

    spec_names = ("AllReduce", "CrossReplicaSum")
    stablehlo_name = "all_reduce"
    gives_all_the_same = True
    replica_groups = collective_groups.GROUPS
    channel_id = collective_groups.CHANNEL
    shape_with_layout = collective_groups.LAYOUT
    use_global_device_ids = collective_groups.GLOBAL_IDS

    def shape(self, *operands):
        self.check_operands(operands)
        self.check_groups()
        return as_results(operands)

    def reference(self, *operands):
        return as_results(self.total(operands))


@register
class ReduceScatter(_Reducing):
    """Combine the operands of a group; member i gets block i of the result. XLA: ReduceScatter.

    Args:
        operand: an array, or a tuple or list of arrays, which are reduced separately.
        computation: a Graph, or a function of two scalars, such as `add`.
        scatter_dimension: the dimension to split into blocks.
        shard_count: the number of blocks, which is the size of each group.
        replica_groups, channel_id, use_global_device_ids: the groups; see Collective.
        layout: a memory layout, which is ignored.

    Returns:
        An array, or a tuple of arrays.

    Checks:
        (C1) to (C3) see AllReduce.
        (C4) scatter_dimension is a dimension of each operand.
        (C5) shard_count divides its size.
        (G1) to (G4) see Collective; the size is shard_count.

    Example:
        >>> part = lambda x: ops.reduce_scatter(x, ops.add, 0, 2)
        >>> mx.simulate(part, [[(np.int32([1, 2]),)], [(np.int32([3, 4]),)]])
        [[array([4], dtype=int32)], [array([6], dtype=int32)]]
    """

    stablehlo_name = "reduce_scatter"
    scatter_dimension: int = attribute(Dimension(), hlo="dimensions")
    shard_count: int = attribute(Integer(minimum=1), stablehlo=None, hlo=None)
    replica_groups = collective_groups.GROUPS
    channel_id = collective_groups.CHANNEL
    layout = collective_groups.LAYOUT
    use_global_device_ids = collective_groups.GLOBAL_IDS
    along = ("scatter_dimension",)
    counted_by = "shard_count"

    def shape(self, *operands):
        results = []
        self.check_operands(operands)
        for operand in operands:
            dimension = self.check_dimension("scatter_dimension", operand, "C4")
            results.append(self.block(operand, dimension, "C5"))
        self.check_groups()
        return as_results(results)

    def reference(self, *operands):
        at, index = self.scatter_dimension, self.members().index(current_process().id)
        totals = self.total(operands, dimension=at)
        return as_results([np.split(total, self.shard_count, at)[index] for total in totals])

    def stablehlo(self, emit, operands, shapes, results):
        # StableHLO's operation takes one operand.
        rows = zip(operands, shapes, results, strict=True)
        write = super().stablehlo
        return [write(emit, *([name] for name in row))[0] for row in rows]

    def spread(self, value):
        return ops.all_gather(value, self.scatter_dimension, self.shard_count, **self.groups)

    pulled = spread

    def own_part(self, whole, size):
        # All members pass the counts 0, 1, ...; member i receives i.
        counted = ops.iota(Shape("s32", (size,)), 0)
        index = ops.reduce_scatter(counted, ops.max, 0, size, **self.groups)
        at = self.scatter_dimension
        sizes = collective_groups.scaled(array_shape(whole), at, 1, size).dimensions
        starts: list[ArrayLike] = [0] * len(sizes)
        starts[at] = ops.reshape(index, ()) * splat(sizes[at], Shape("s32"))
        return ops.dynamic_slice(whole, starts, sizes)

    def batch(self, operands, dimensions):
        moved, _ = to_front(operands, dimensions)
        results = self(*moved, scatter_dimension=self.scatter_dimension + 1)
        return results, as_results([0] * len(moved))


def _computation(operation: type[_Reducing], computation: Computation, operand: object) -> Graph:
    subject = operation.builder_name
    (shape,) = operation.array_shapes([shape_of(operand, subject)])
    scalar = Shape(shape.element_type)
    return computations.computation_of(computation, (scalar, scalar), subject)


def _reduced(
    operation: type[_Reducing], operand: object, computation: Computation, *attributes: object
) -> Any:
    """Return what a builder returns: an array for an array, a tuple for a sequence or a tuple."""
    is_single = not isinstance(operand, (list, tuple, TupleValue))
    leaves = list(operand) if isinstance(operand, (list, tuple)) else tuple_leaves(operand)
    graph = _computation(operation, computation, leaves[0]) if leaves else Graph((), (), ())
    results = operation(graph, *attributes)(*leaves)
    return results if is_single or type(results) is tuple else (results,)


@builds(AllReduce)
def all_reduce(
    operand: ArrayLike | Sequence[ArrayLike],
    computation: Computation,
    replica_groups: collective_groups.Groups = (),
    channel_id: int | None = None,
    shape_with_layout: object = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    groups = replica_groups, channel_id, shape_with_layout, use_global_device_ids
    return _reduced(AllReduce, operand, computation, *groups)


def cross_replica_sum(
    operand: ArrayLike | Sequence[ArrayLike], replica_groups: collective_groups.Groups = ()
) -> Any:
    """Sum the operands of a group of replicas, as AllReduce with `add`. XLA: CrossReplicaSum.

    Args:
        operand: an array, or a tuple or list of arrays.
        replica_groups: lists of replicas; default: one group of all replicas.

    Returns:
        An array, or a tuple of arrays.

    Example:
        >>> mx.simulate(ops.cross_replica_sum, [[(np.int32(1),)], [(np.int32(2),)]])
        [[array(3, dtype=int32)], [array(3, dtype=int32)]]
    """
    return all_reduce(operand, ops.add, replica_groups)


@builds(ReduceScatter)
def reduce_scatter(
    operand: ArrayLike | Sequence[ArrayLike],
    computation: Computation,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: collective_groups.Groups = (),
    channel_id: int | None = None,
    layout: object = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    groups = replica_groups, channel_id, layout, use_global_device_ids
    return _reduced(ReduceScatter, operand, computation, scatter_dimension, shard_count, *groups)
