"""Sort: order the elements along one dimension."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Shape
from minixla.core.attributes import Dimension, Flag, Instance, attribute
from minixla.core.builders import builds
from minixla.core.graph import Graph, remembered
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.sharding_rule import NEED_REPLICATION
from minixla.core.tracing import closed_graph, evaluate_graph, shape_of
from minixla.typing import ArrayLike
from minixla_ops.folds.fold import as_sequence
from minixla_ops.helpers.batch_dimensions import align_batches
from minixla_ops.helpers.checks import check_dimensions, check_equal_dimensions
from minixla_ops.helpers.shorthand import array_shape, as_results, zeros
from minixla_ops.indexing import sort_orders
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers
from minixla_ops.programs import computations
from minixla_ops.programs.computations import Computation


@register
class Sort(Operation):
    """Sort the elements of N arrays along a dimension by a comparator. XLA: Sort.

    All arrays are permuted together, and each row along the dimension is sorted separately. For
    i < j in a result, either comparator(v[i], v[j]) holds, or neither this nor
    comparator(v[j], v[i]): `lt` sorts ascending. The comparator must be a strict weak order. With
    another comparator, such as `lt` on floats with a NaN, the result is some permutation.

    Args:
        operands: an array, or a list or tuple of N arrays with equal dimensions.
        comparator: a Graph or a function of 2 N scalars, two for each operand (left and right of
            the first, then of the second ...). It returns a pred: whether the left elements come
            first. `minixla_ops.lt` sorts one operand in ascending order.
        dimension: the dimension to sort along; -1 is the last.
        is_stable: whether elements that the comparator treats as equal keep their order.

    Returns:
        The sorted array; for N > 1 a tuple of N arrays, permuted together.

    Checks:
        (C1) there is at least one operand, and all have equal dimensions.
        (C2) dimension is a dimension of the operands.
        (C3) the comparator takes two scalars of each operand's element type and returns a pred.

    Derivatives are permuted like the values; the comparator sees only the values.

    Raises:
        TransformError: the comparator reads a traced value of the enclosing function.

    Example:
        >>> ops.sort(np.int32([3, 1, 2]), ops.lt)
        Array([1, 2, 3], dtype=int32)
        >>> ops.sort([np.int32([3, 1]), np.int32([10, 20])], lambda a, b, x, y: a < b)
        (Array([1, 3], dtype=int32), Array([20, 10], dtype=int32))
    """

    stablehlo_name = "sort"
    operands = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    comparator: Graph = attribute(Instance(Graph), hlo="to_apply")
    dimension: int = attribute(Dimension(), hlo="dimensions")
    is_stable: bool = attribute(Flag(), default=False)

    def shape(self, *shapes):
        if not shapes:
            self.refuse("C1", "at least one operand is required")
        check_equal_dimensions(self, "C1", "operands", shapes)
        check_dimensions(self, "C2", shapes[0], self.dimension, of="operands")
        declared = "comparator", self.comparator, _parameters(shapes), [Shape("pred")]
        computations.check_computation(self, "C3", *declared)
        return as_results(shapes)

    def reference(self, *operands):
        rows = [np.moveaxis(operand, self.dimension, -1) for operand in operands]
        order = sort_orders.order_by_key(rows, self.comparator)
        order = sort_orders.order_by_merging(rows, self.comparator) if order is None else order
        taken = [np.take_along_axis(row, order, -1) for row in rows]
        return as_results([np.moveaxis(row, -1, self.dimension) for row in taken])

    def forward(self, primals, tangents):
        # Sort the positions, too: they determine the permutation of tangents.
        shape = array_shape(primals[0])
        positions = ops.iota(Shape("s32", shape.dimensions), self.dimension)
        *results, order = self(*primals, positions, comparator=_with_positions(self.comparator))
        moved = [None if t is None else taken_along(t, order, self.dimension) for t in tangents]
        return as_results(results), as_results(moved)

    def batch(self, operands, dimensions):
        aligned, at = align_batches(operands, dimensions)
        results = self(*aligned, dimension=self.dimension + (at <= self.dimension))
        return results, as_results([at] * len(operands))

    def sharding_rule(self, *operands):
        sizes, kinds = operands[0].dimensions, {self.dimension: NEED_REPLICATION}
        others = [size for number, size in enumerate(sizes) if number != self.dimension]
        # Only another dimension can take over the axes of the sorted dimension.
        blocked = [self.dimension] if all(size == 1 for size in others) else []
        return self.sharding_factors(operands).pointwise(sizes, kinds, blocked).build()


@builds(Sort)
def sort(
    operands: ArrayLike | Sequence[ArrayLike],
    comparator: Computation,
    dimension: int = -1,
    is_stable: bool = False,
) -> Any:
    values = as_sequence(operands)
    shapes = Sort.array_shapes([shape_of(value, "sort") for value in values])
    graph = computations.computation_of(comparator, _parameters(shapes), "sort")
    if dimension == -1 and shapes:
        dimension = shapes[0].rank - 1
    return Sort(graph, dimension, is_stable)(*values)


def _parameters(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple([scalar for shape in shapes for scalar in [Shape(shape.element_type)] * 2])


@remembered
def _with_positions(comparator: Graph) -> Graph:
    """Extend the comparator by one ignored s32 operand, which is sorted along."""
    traced = (*comparator.input_shapes, *[Shape("s32")] * 2), "sort", comparator.name
    return closed_graph(lambda *scalars: evaluate_graph(comparator, scalars[:-2]), *traced)


def taken_along(operand: ArrayLike, indices: ArrayLike, dimension: int) -> ArrayLike:
    """Gather the elements of `operand` at `indices` along a dimension, row by row."""
    shape = array_shape(indices)
    if not array_shape(operand).size:
        return zeros(array_shape(operand).with_dimensions(shape.dimensions))
    others = [index for index in range(shape.rank) if index != dimension]
    numbers = GatherDimensionNumbers((), (dimension,), (dimension,), shape.rank, others, others)
    return ops.gather(operand, indices, numbers, [1] * shape.rank)
