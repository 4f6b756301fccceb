"""GetDimensionSize and SetDimensionSize, and helpers for sizes known only at run time.

A dynamic dimension has a bound, which is its size in the shape: `f32[<=10]`. In the reference
evaluator an array has its true sizes. Reductions, element-wise operations and operations that move
whole dimensions support dynamic dimensions; other operations reject them. A compiled program cannot
return one: reduce it, or set its size back to the bound.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register, shape_of
from minixla.core.attributes import Boolean, Dimension, attribute
from minixla.core.builders import builds
from minixla.core.errors import AttributeValueError, DerivativeError, TransformError, explain
from minixla.core.linear import with_sizes_of
from minixla.core.registry import fill_role
from minixla.core.tracer import is_dynamic
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers.checks import check_dimensions
from minixla_ops.helpers.shorthand import array_shape, zeros_like

#: The shape of a size.
SIZE = Shape("s32")


class _OfDimension(Operation):
    """Base class of operations on the size of one dimension.

    Checks:
        (C1) dimension is a dimension of the operand.
    """

    dimension: int = attribute(Dimension(), hlo="dimensions")
    dynamic_operands = (0,)


@register
class GetDimensionSize(_OfDimension):
    """Return the size of a dimension as s32[]. XLA: GetDimensionSize.

    The size of a dynamic dimension is known only at run time.

    Args:
        operand: an array, or a Shape.
        dimension: the dimension whose size is returned.

    Returns:
        An s32 scalar.

    Raises:
        AttributeValueError: the operand has no such dimension (C1).
        DerivativeError: the operand is a Shape with that dimension dynamic, as in the transpose
            of an operation on tangents.

    Example:
        >>> ops.get_dimension_size(np.float32([[1, 2, 3]]), 1)
        Array(3, dtype=int32)
    """

    stablehlo_name = "get_dimension_size"
    operands = ("operand",)
    zero_derivative = "a size does not depend on values"

    def shape(self, operand):
        check_dimensions(self, "C1", operand, self.dimension)
        return SIZE

    def reference(self, operand):
        return np.array(operand.shape[self.dimension], np.int32)

    def batch(self, operands, dimensions):
        return self(*operands, dimension=self.dimension + (self.dimension >= dimensions[0])), None


@builds(GetDimensionSize)
def get_dimension_size(operand: ArrayLike | Shape, dimension: int) -> Any:
    operation = GetDimensionSize(dimension)
    if not isinstance(operand, Shape):
        return operation(operand)
    operation.infer((operand,))
    if not operand.dynamic[dimension]:
        return np.int32(operand.dimensions[dimension])
    problem = "the size of a dynamic dimension of a tangent is unknown"
    advice = "In the jvp rule, set dynamic sizes back to their bounds with set_dimension_size"
    advice = f"{advice}, or give the function a rule with mx.custom_vjp."
    raise explain(DerivativeError, "transpose", problem, [f"tangent {operand}"], advice)


@register
class SetDimensionSize(_OfDimension):
    """Keep the first `val` elements of a dimension. XLA: SetDimensionSize.

    The dimension of the result is dynamic, and its bound is its previous size. If `val` is a Python
    or NumPy integer equal to the bound, the dimension is static, and a dynamic operand is padded
    with zeros. A size outside [0, bound] raises in the reference evaluator and is unspecified
    elsewhere. With `to_bound` the dimension becomes static and its new elements are unspecified.

    Args:
        operand: an array.
        val: an s32 scalar in [0, bound].
        dimension: the dimension to change.

    Returns:
        An array with the operand's shape, except that this dimension is dynamic or static.

    Checks:
        (C1) dimension is a dimension of the operand.
        (C2) val is s32[].

    Raises:
        AttributeValueError: the dimension does not exist (C1), or the integer is out of range.
        ShapeError: `val` is not an s32 scalar (C2).

    Example:
        >>> shortened = lambda x: ops.set_dimension_size(x, np.int32(2), 0)
        >>> mx.reference(shortened)(np.int32([1, 2, 3]))
        array([1, 2], dtype=int32)
    """

    stablehlo_name = "set_dimension_size"
    operands = "operand", "val"
    to_bound: bool = attribute(Boolean(), default=False, stablehlo=None, hlo=None)
    linear_operands = (0,)

    def shape(self, operand, val):
        check_dimensions(self, "C1", operand, self.dimension)
        if val is not SIZE:
            advice = "Pass an s32[]; convert with convert_element_type."
            self.refuse("C2", "val must be an s32 scalar", advice)
        flags = list(operand.dynamic)
        flags[self.dimension] = not self.to_bound
        return Shape(operand.element_type, operand.dimensions, flags)

    def reference(self, operand, val):
        at, size = self.dimension, int(val)
        present = operand.shape[at]
        if not 0 <= size <= present and not self.to_bound:
            raise self._out_of_range(size, present, f"dimension {at} has {present} elements")
        whole = np.zeros([*operand.shape[:at], max(size - present, 0), *operand.shape[at + 1 :]])
        result = operand[(np.s_[:],) * at + (np.s_[:size],)]
        return np.concatenate([result, whole.astype(operand.dtype)], at)

    def _out_of_range(self, size: object, bound: int, *details: str) -> AttributeValueError:
        problem, advice = f"size {size} is out of range", f"It must be in [0, {bound}]."
        return explain(AttributeValueError, self.builder_name, problem, details, advice)

    def transpose(self, cotangents, operands, linear):
        return with_sizes_of(static(cotangents, self.dimension), operands[0]), None

    def batch(self, operands, dimensions):
        refuse_ragged(self, dimensions[1:])
        at = dimensions[0]
        return self(*operands, dimension=self.dimension + (self.dimension >= at)), at


@builds(SetDimensionSize)
def set_dimension_size(operand: ArrayLike, val: ArrayLike, dimension: int) -> Array:
    operation = SetDimensionSize(dimension)
    shape: Any = shape_of(operand, operation.builder_name)
    operation.infer((shape, SIZE))
    bound = shape.dimensions[dimension]
    if isinstance(val, (int, np.integer)) and not isinstance(val, bool):
        if not 0 <= val <= bound:
            details = f"operand {shape}", f"dimension {dimension}"
            raise operation._out_of_range(val, bound, *details)
        if val == bound:
            return static(operand, dimension)
        val = np.int32(val)
    return operation(static(operand, dimension), val)


def refuse_ragged(operation: Operation, dimensions: Sequence[int | None]) -> None:
    """Raise TransformError if a size is batched."""
    if any(dimension is not None for dimension in dimensions):
        problem = "a dynamic size cannot differ between batch elements"
        advice = "Keep the static size and mask with mx.numpy.where(index < size, x, 0)."
        advice = f"All batch elements have equal sizes. {advice}"
        raise explain(TransformError, operation.builder_name, problem, (), advice)


def static(value: ArrayLike, dimension: int) -> Any:
    """Pad `value` with zeros to the bound of a dynamic dimension."""
    shape = array_shape(value)
    if not shape.dynamic[dimension]:
        return value
    bound = np.int32(shape.dimensions[dimension])
    whole = SetDimensionSize(dimension, to_bound=True)(value, bound)
    # Outside the reference evaluator, elements beyond the size are unspecified: mask them.
    position = ops.iota(Shape(SIZE.element_type, shape.dimensions), dimension)
    size = ops.broadcast_in_dim(ops.get_dimension_size(value, dimension), shape.dimensions, ())
    return ops.select(ops.lt(position, size), whole, zeros_like(whole))


def with_sizes(value: Array, like: Array) -> Array:
    """Give `value` the dynamic dimensions and sizes of `like`, which has equal bounds."""
    shape, wanted = array_shape(value), array_shape(like)
    for dimension, (has, wants) in enumerate(zip(shape.dynamic, wanted.dynamic, strict=True)):
        if has and not wants:
            value = static(value, dimension)
        elif wants and not has:
            size = ops.get_dimension_size(like, dimension)
            value = ops.set_dimension_size(value, size, dimension)
    return value


def common_sizes(*values: ArrayLike) -> Sequence[Any]:
    """Make dimensions dynamic in all values of the highest rank if one of them is dynamic there."""
    if not any(map(is_dynamic, values)):
        return values
    sized = list(values)
    shapes = [shape for shape in map(shape_of, values) if isinstance(shape, Shape)]
    if len(shapes) < len(sized) or len({*shapes}) == 1:
        return values  # tuples are for a shape rule to reject
    whole = max(shapes, key=lambda shape: shape.rank).dimensions
    for dimension in range(len(whole)):
        flags = [shape.dimensions == whole and shape.dynamic[dimension] for shape in shapes]
        if any(flags):
            size = ops.get_dimension_size(sized[flags.index(True)], dimension)
            for index, (shape, flag) in enumerate(zip(shapes, flags, strict=True)):
                if shape.dimensions == whole and not flag:
                    sized[index] = ops.set_dimension_size(sized[index], size, dimension)
    return sized


def on_bounds(operation: Operation, operand: ArrayLike, dimensions: Sequence[int | None]) -> Array:
    """Apply an operation that moves or repeats whole dimensions to an operand padded with zeros."""
    shape, whole = array_shape(operand), operand
    for index in range(shape.rank):
        whole = static(whole, index)
    result = operation(whole)
    # Set the sizes again, in those `dimensions` of the result that come from the operand.
    for index, (at, flag) in enumerate(zip(dimensions, shape.dynamic, strict=True)):
        size = shape.dimensions[index]
        if flag and at is not None and array_shape(result).dimensions[at] == size:
            result = ops.set_dimension_size(result, ops.get_dimension_size(operand, index), at)
    return result


def dynamic_parts(
    joined: Array, parts: Sequence[Array], wanted: Sequence[bool], dimension: int
) -> list[Array]:
    """Split the result of concat_in_dim into its `parts`, each padded to its bound."""
    whole, found = static(joined, dimension), []
    sizes = array_shape(whole).dimensions
    start: ArrayLike = np.int32(0)
    for part, flag in zip(parts, wanted, strict=True):
        bound = array_shape(part).dimensions[dimension]
        starts = [start if at == dimension else np.int32(0) for at in range(len(sizes))]
        kept = (*sizes[:dimension], bound, *sizes[dimension + 1 :])
        found.append(ops.dynamic_slice(whole, starts, kept) if flag else None)
        start = ops.add(start, ops.get_dimension_size(part, dimension))
    return found


fill_role("resize", with_sizes)
