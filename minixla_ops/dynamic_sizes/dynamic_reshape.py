"""DynamicReshape: Reshape to sizes known only at run time."""

import math
import operator
from collections.abc import Sequence

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register
from minixla.core.attributes import Boolean, Integers, attribute
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.builders import builds
from minixla.core.errors import AttributeValueError, explain
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import SIZE, refuse_ragged, static
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import array_shape, operand_list


class _Flags(SequenceOf):
    of_result = operator.attrgetter("dynamic")


@register
class DynamicReshape(Operation):
    """Reshape an array, in row-major order, to sizes that are values. XLA: DynamicReshape.

    The result has dim_sizes[0] * dim_sizes[1] * ... elements. A different number of elements, or a
    size above its bound, raises in the reference evaluator and is unspecified elsewhere.

    Args:
        operand: an array with dynamic or static sizes.
        dim_sizes: N s32 scalars, or Python integers, which are converted.
        new_size_bounds: N upper bounds; their product is that of the operand's sizes (or bounds).
        dims_are_dynamic: whether each of the N dimensions is dynamic; others equal their bound.

    Returns:
        An array with these sizes.

    Checks:
        (C1) there is one size, one bound and one flag for each dimension.
        (C2) each size is s32[].
        (C3) the product of the bounds is that of the operand's sizes or bounds.

    Example:
        >>> reshaped = lambda x: ops.dynamic_reshape(x, [2, 2], [2, 2], [False, False])
        >>> mx.reference(reshaped)(np.int32([1, 2, 3, 4]))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """

    stablehlo_name = "dynamic_reshape"
    operands = "operand", "dim_sizes..."
    new_size_bounds: Sequence[int] = attribute(Integers(minimum=0), stablehlo=None, hlo=None)
    dims_are_dynamic: Sequence[bool] = attribute(_Flags(Boolean()), stablehlo=None, hlo=None)
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand, *sizes):
        bounds, flags = self.new_size_bounds, self.dims_are_dynamic
        if not len(sizes) == len(bounds) == len(flags):
            self.refuse_attribute("C1", "sizes, bounds and flags must have equal lengths")
        if any(size is not SIZE for size in sizes):
            self.refuse("C2", "sizes must be s32 scalars", "Convert with convert_element_type.")
        if math.prod(bounds) != operand.size:
            counts = f"got {math.prod(bounds)} and {operand.size}"
            self.refuse("C3", f"the bounds must hold as many elements as the operand; {counts}")
        return Shape(operand.element_type, bounds, flags)

    def reference(self, operand, *dim_sizes):
        sizes = [int(size) for size in dim_sizes]
        bounds = zip(sizes, self.new_size_bounds, self.dims_are_dynamic, strict=True)
        fits = all(0 <= size <= bound and (flag or size == bound) for size, bound, flag in bounds)
        if not fits or math.prod(sizes) != operand.size:
            problem, advice = f"sizes {sizes} do not fit", "Sizes must not exceed their bounds"
            advice = f"{advice}, and their product must be the number of elements of the operand."
            details = (
                f"operand of {operand.size} elements",
                f"new_size_bounds {self.new_size_bounds}",
            )
            raise explain(AttributeValueError, self.builder_name, problem, details, advice)
        return operand.reshape(sizes)

    def stablehlo(self, emit, operands, shapes, results):
        operand, *sizes = operands
        if not sizes:
            return emit.operation("stablehlo.reshape", operands, shapes, results)
        one, whole = Shape("s32", (1,)), Shape("s32", (len(sizes),))
        rows = [emit.operation("stablehlo.reshape", [size], [SIZE], [one])[0] for size in sizes]
        joined = rows, [one] * len(rows), [whole]
        (listed,) = emit.operation("stablehlo.concatenate", *joined, dimension=0)
        joined = [operand, listed], [shapes[0], whole], results
        return emit.operation("stablehlo.dynamic_reshape", *joined)

    def transpose(self, cotangents, operands, linear):
        operand = array_shape(operands[0])
        none = [None] * (len(operands) - 1)
        if not operand.is_dynamic:
            for dimension in range(array_shape(cotangents).rank):
                cotangents = static(cotangents, dimension)
            return ops.reshape(cotangents, operand.dimensions), *none
        sizes = [ops.get_dimension_size(operands[0], index) for index in range(operand.rank)]
        return ops.dynamic_reshape(cotangents, sizes, operand.dimensions, operand.dynamic), *none

    def batch(self, operands, dimensions):
        refuse_ragged(self, dimensions[1:])
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        size = array_shape(operand).dimensions[0]
        bounds, flags = (size, *self.new_size_bounds), (False, *self.dims_are_dynamic)
        return DynamicReshape(bounds, flags)(operand, np.int32(size), *operands[1:]), 0


@builds(DynamicReshape)
def dynamic_reshape(
    operand: ArrayLike,
    dim_sizes: Sequence[ArrayLike],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> Array:
    given = operand_list(dim_sizes, "dynamic_reshape", "dim_sizes")
    sizes = [np.int32(s) if isinstance(s, int) and abs(s) < 2**31 else s for s in given]
    return DynamicReshape(new_size_bounds, dims_are_dynamic)(operand, *sizes)
