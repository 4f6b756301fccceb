"""TopK: the largest or smallest elements of the last dimension."""

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, element_type, register
from minixla.core.attributes import Boolean, Integer, attribute
from minixla.core.sharding_rule import NEED_REPLICATION
from minixla_ops.elementwise.comparisons import total_order
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.indexing.sorting import sort, taken_along
from minixla_ops.movement.slicing import slice_in_dim
from minixla_ops.programs.lowering import Lowered


@register
class TopK(Lowered):
    """Find the k largest or smallest elements of the last dimension and their indices. XLA: TopK.

    Equal elements are ordered by index. Floats are compared in the total order: -NaN is the least,
    +NaN the largest, and -0 is less than +0.

    Args:
        operand: an array with at least one dimension, not complex.
        k: the number of elements, at most the size of the last dimension.
        largest: whether to return the largest, in descending order, or the smallest, in ascending
            order.

    Returns:
        Values and s32 indices, both with k elements in the last dimension.

    Checks:
        (C1) operand has a last dimension with at least k elements.
        (C2) its element type has an order, so it is not complex.

    Example:
        >>> ops.top_k(np.int32([3, 1, 2]), 2)
        (Array([3, 2], dtype=int32), Array([0, 2], dtype=int32))
    """

    hlo_name = "topk"
    operands = ("operand",)
    k: int = attribute(Integer(minimum=0))
    largest: bool = attribute(Boolean(), default=True)

    def shape(self, operand):
        if not operand.rank or self.k > operand.dimensions[-1]:
            self.refuse("C1", f"the last dimension must have at least {self.k} elements")
        if operand.element_type.is_complex:
            advice = "Take the real parts, or sort by a comparator."
            self.refuse("C2", "complex numbers have no order", advice)
        sizes = (*operand.dimensions[:-1], self.k)
        return operand.with_dimensions(sizes), Shape("s32", sizes)

    def reference(self, operand):
        kind = element_type(operand.dtype)
        ranks = total_order(operand, kind) if kind.is_float else cast(operand, widened(kind))
        ranks = ~ranks if self.largest else ranks
        indices = np.argsort(ranks, axis=-1, kind="stable")[..., : self.k]
        return np.take_along_axis(operand, indices, -1), indices.astype(np.int32)

    def lowered(self, operand):
        # XLA recognizes this form, and does not sort the whole array.
        shape = array_shape(operand)
        last = shape.rank - 1
        positions = ops.iota(Shape("s32", shape.dimensions), last)
        comes_first = ops.gt_total_order if self.largest else ops.lt_total_order
        both = [operand, positions]
        ordered = sort(both, lambda x, y, i, j: comes_first(x, y), last, True)
        return tuple([slice_in_dim(array, 0, self.k, last) for array in ordered])

    def jvp(self, primals, tangents, results):
        indices = results[1]
        return taken_along(tangents[0], indices, array_shape(indices).rank - 1), None

    def sharding_rule(self, operand):
        return self.sharding_factors((operand,)).resized(NEED_REPLICATION, blocked=True).build()
