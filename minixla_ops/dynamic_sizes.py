"""Dimensions whose size is known only at run time: GetDimensionSize, SetDimensionSize and
DynamicReshape.

A dynamic dimension has a bound, which is its size in the shape: `f32[<=10]`. In the reference an
array has its true sizes. Reductions, element-wise operations and those that move whole dimensions
know what to do with one; others refuse it. It cannot leave a compiled program: reduce it, or set
its size back to the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integer, Integers
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import AttributeValueError, TransformError, explain
from minixla.core.linear import with_sizes_of
from minixla.core.operation import Operation, register
from minixla.core.roles import fill_role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.batching import move_dimension
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import lt
from minixla_ops.creation import iota
from minixla_ops.movement import reshape
from minixla_ops.rules import array_shape, zeros_like
from minixla_ops.selection import select

__all__ = [
    "dynamic_reshape",
    "get_dimension_size",
    "in_common_sizes",
    "on_bounds",
    "set_dimension_size",
    "static",
    "with_sizes",
]

SIZE = Shape("s32")


class _OfDimension(Operation):
    """Base class of operations on one dimension's size.

    Checks:
        (C1) dimension is one of the operand's.
    """

    dynamic_operands = (0,)

    def checked(self, operand: Any, dimension: int) -> Shape:
        """The operand's shape."""
        (operand,) = self.array_shapes([operand])
        if not 0 <= dimension < operand.rank:
            self.reject_attribute(
                "C1",
                f"the operand has no dimension {dimension}",
                [f"operand {operand}", f"dimension {dimension}"],
                f"dimension must be in [0, {operand.rank}).",
            )
        return operand

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        return {"dimensions": (attributes["dimension"],)}


@register
class GetDimensionSize(_OfDimension):
    """The size of a dimension as s32[]: of a dynamic one that at run time. XLA: GetDimensionSize.

    Attributes:
        dimension: which.

    Checks:
        (C1) see _OfDimension.
    """

    stablehlo_name = "get_dimension_size"
    operand_names = ("operand",)
    attributes = {"dimension": Integer()}
    zero_derivative = "a size does not depend on values"

    def shape(self, operand: Any, *, dimension: int) -> Shape:
        self.checked(operand, dimension)
        return SIZE

    def reference(self, operand: np.ndarray, *, dimension: int) -> np.ndarray:
        return np.array(operand.shape[dimension], np.int32)

    def batch(self, operands: Any, dimensions: Any, *, dimension: int) -> tuple[Any, None]:
        return get_dimension_size(operands[0], dimension + (dimension >= dimensions[0])), None


def get_dimension_size(operand: Any, dimension: int) -> Any:
    """The size of a dimension, as an s32 scalar; of a dynamic one its size at run time.

    Raises:
        AttributeValueError: the operand has no such dimension (C1).
    """
    return bind(GetDimensionSize.instance, operand, dimension=dimension)


@register
class SetDimensionSize(_OfDimension):
    """The operand with a dimension that has `val` elements at run time. XLA: SetDimensionSize.

    The dimension's size becomes its bound. Where it was dynamic and `val` is the bound, it is
    static again (`to_bound`); the elements that it gains are unspecified, in the reference zeros.
    A size outside [0, bound] is an error in the reference and unspecified elsewhere.

    Attributes:
        dimension: which.
        to_bound: whether the dimension is dynamic, and static in the result.

    Checks:
        (C1) see _OfDimension.
        (C2) val is s32[].
    """

    stablehlo_name = "set_dimension_size"
    operand_names = ("operand", "val")
    attributes = {"dimension": Integer(), "to_bound": Boolean(default=False)}
    linear_operands = (0,)

    def shape(self, operand: Any, val: Any, *, dimension: int, to_bound: bool) -> Shape:
        operand = self.checked(operand, dimension)
        if val is not SIZE:
            self.reject(
                "C2",
                "val is not a size",
                [f"operand {operand}", f"val {val}"],
                "val must be a scalar s32[]; convert with convert_element_type.",
            )
        flags = list(operand.dynamic)
        flags[dimension] = not to_bound
        return Shape(operand.element_type, operand.dimensions, flags)

    def reference(
        self, operand: np.ndarray, val: np.ndarray, *, dimension: int, to_bound: bool
    ) -> np.ndarray:
        size, present = int(val), operand.shape[dimension]
        if not 0 <= size <= present and not to_bound:
            raise explain(
                AttributeValueError,
                self.builder_name,
                f"size {size} is out of range",
                [f"dimension {dimension} has {present} elements"],
                f"It must be in [0, {present}].",
            )
        result = operand[(np.s_[:],) * dimension + (np.s_[:size],)]
        if size <= present:
            return result
        grown = np.zeros([*operand.shape[:dimension], size, *operand.shape[dimension + 1 :]])
        grown = grown.astype(operand.dtype)
        grown[(np.s_[:],) * dimension + (np.s_[:present],)] = operand
        return grown

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, *, dimension: int, to_bound: bool
    ) -> Sequence[str]:
        return emit.operation(
            "stablehlo.set_dimension_size", operands, shapes, results, dimension=dimension
        )

    def transpose(
        self, cotangents: Any, operands: Any, linear: Any, *, dimension: int, to_bound: bool
    ) -> Sequence[Any]:
        return with_sizes_of(static(cotangents, dimension), operands[0]), None

    def batch(
        self, operands: Any, dimensions: Any, *, dimension: int, to_bound: bool
    ) -> tuple[Any, int]:
        _refuse_ragged(self, dimensions[1:])
        at = dimensions[0]
        dimension += dimension >= at
        return bind(self, *operands, dimension=dimension, to_bound=to_bound), at


def _refuse_ragged(operation: Operation, dimensions: Sequence[int | None]) -> None:
    if any(each is not None for each in dimensions):
        raise explain(
            TransformError,
            operation.builder_name,
            "the size differs over the batch",
            advice="Members of a batch are equal in size: keep the static size, and mask with "
            "mx.numpy.where(index < size, x, 0).",
        )


def set_dimension_size(operand: Any, val: Any, dimension: int) -> Any:
    """`operand` with a dimension that has `val` elements at run time: the first ones.

    The result's dimension is dynamic, with the same bound. Where `val` is a Python or NumPy
    integer equal to the bound, it is static: a dynamic operand is filled up with zeros.

    Args:
        operand: an array.
        val: an s32 scalar in [0, bound].
        dimension: which.

    Raises:
        AttributeValueError: there is no such dimension (C1), or the integer is out of range.
        ShapeError: `val` is no s32 scalar (C2).
    """
    operation = SetDimensionSize.instance
    shape = operation.checked(shape_of(operand, operation.builder_name), dimension)
    bound = shape.dimensions[dimension]
    if isinstance(val, (int, np.integer)) and not isinstance(val, bool):
        if not 0 <= val <= bound:
            raise explain(
                AttributeValueError,
                operation.builder_name,
                f"size {val} is out of range",
                [f"operand {shape}", f"dimension {dimension}"],
                f"It must be in [0, {bound}].",
            )
        if val == bound:
            return static(operand, dimension)
        val = np.int32(val)
    return bind(operation, static(operand, dimension), val, dimension=dimension)


def static(value: Any, dimension: int) -> Any:
    """`value` with its bound as the size of a dimension, filled up with zeros."""
    shape = array_shape(value)
    if not shape.dynamic[dimension]:
        return value
    bound = np.int32(shape.dimensions[dimension])
    whole = bind(SetDimensionSize.instance, value, bound, dimension=dimension, to_bound=True)
    # Elsewhere than in the reference it holds anything there.
    position = iota(Shape(SIZE.element_type, shape.dimensions), dimension)
    size = broadcast_in_dim(get_dimension_size(value, dimension), shape.dimensions, ())
    return select(lt(position, size), whole, zeros_like(whole))


def with_sizes(value: Any, like: Any) -> Any:
    """`value` with dimensions dynamic where those of `like`, of equal bounds, are; and as large."""
    shape, wanted = array_shape(value), array_shape(like)
    for dimension, (has, wants) in enumerate(zip(shape.dynamic, wanted.dynamic, strict=True)):
        if has and not wants:
            value = static(value, dimension)
        elif wants and not has:
            size = get_dimension_size(like, dimension)
            value = set_dimension_size(value, size, dimension)
    return value


def in_common_sizes(values: Sequence[Any]) -> list[Any]:
    """The values, dynamic where one of the highest rank is; those of other dimensions unchanged."""
    values = list(values)
    shapes = list(map(array_shape, values))
    whole = max(shapes, key=lambda shape: shape.rank).dimensions
    for dimension in range(len(whole)):
        flags = [each.dimensions == whole and each.dynamic[dimension] for each in shapes]
        if any(flags):
            size = get_dimension_size(values[flags.index(True)], dimension)
            for index, (shape, flag) in enumerate(zip(shapes, flags, strict=True)):
                if shape.dimensions == whole and not flag:
                    values[index] = set_dimension_size(values[index], size, dimension)
    return values


def on_bounds(
    operation: Operation,
    operand: Any,
    attributes: dict[str, Any],
    dimensions: Sequence[int | None],
) -> Any:
    """An operation on the operand filled up to its bounds, and the sizes set again.

    Args:
        operation: of one operand, which moves or repeats whole dimensions.
        operand: an array, dynamic somewhere.
        attributes: the operation's.
        dimensions: which dimension of the result each of the operand's is; None: none.
    """
    shape, whole = array_shape(operand), operand
    listed = [index for index, flag in enumerate(shape.dynamic) if flag]
    for index in listed:
        whole = static(whole, index)
    result = bind(operation, whole, **attributes)
    for index in listed:
        at = dimensions[index]
        if at is not None and array_shape(result).dimensions[at] == shape.dimensions[index]:
            result = set_dimension_size(result, get_dimension_size(operand, index), at)
    return result


@register
class DynamicReshape(Operation):
    """Reshape to sizes known at run time, within bounds. XLA: DynamicReshape.

    The elements, in row-major order, fill dim_sizes[0] * dim_sizes[1] * ... positions. Other
    numbers of elements, and sizes beyond their bounds, are an error in the reference and
    unspecified elsewhere.

    Attributes:
        new_size_bounds: the bounds of the result's dimensions.
        dims_are_dynamic: which of them are dynamic; the size of the others is the bound.

    Checks:
        (C1) one size, one bound and one flag for each dimension.
        (C2) each size is s32[].
        (C3) the bounds hold as many elements as the operand's sizes or bounds do.
    """

    stablehlo_name = "dynamic_reshape"
    operand_names = ("operand", "dim_sizes...")
    attributes = {
        "new_size_bounds": Integers(minimum=0),
        "dims_are_dynamic": SequenceOf(Boolean()),
    }
    linear_operands = (0,)
    dynamic_operands = (0,)

    def shape(
        self,
        operand: Any,
        *dim_sizes: Any,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> Shape:
        operand, *sizes = self.array_shapes([operand, *dim_sizes])
        given = [
            f"operand {operand}",
            f"dim_sizes ({', '.join(map(str, sizes))})",
            f"new_size_bounds {new_size_bounds}",
            f"dims_are_dynamic {dims_are_dynamic}",
        ]
        if not len(sizes) == len(new_size_bounds) == len(dims_are_dynamic):
            self.reject_attribute(
                "C1", "the lists differ in length", given, "Give one of each for each dimension."
            )
        if any(size is not SIZE for size in sizes):
            self.reject("C2", "a size is not s32[]", given, "Convert with convert_element_type.")
        if math.prod(new_size_bounds) != operand.size:
            self.reject(
                "C3",
                f"bounds of {math.prod(new_size_bounds)} elements for {operand.size}",
                given,
                "The product of the bounds must be that of the operand.",
            )
        return Shape(operand.element_type, new_size_bounds, dims_are_dynamic)

    def reference(
        self,
        operand: np.ndarray,
        *dim_sizes: np.ndarray,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> np.ndarray:
        sizes = [int(size) for size in dim_sizes]
        bounds = zip(sizes, new_size_bounds, dims_are_dynamic, strict=True)
        fits = all(0 <= size <= bound and (flag or size == bound) for size, bound, flag in bounds)
        if not fits or math.prod(sizes) != operand.size:
            raise explain(
                AttributeValueError,
                self.builder_name,
                f"sizes {sizes} do not fit",
                [f"operand of {operand.size} elements", f"new_size_bounds {new_size_bounds}"],
                "Sizes must be within their bounds and hold the operand's elements.",
            )
        return operand.reshape(sizes)

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, **attributes: Any
    ) -> Sequence[str]:
        one, sizes = Shape("s32", (1,)), Shape("s32", (len(operands) - 1,))
        listed = []
        for size in operands[1:]:
            listed += emit.operation("stablehlo.reshape", [size], [SIZE], [one])
        if listed:
            shape = emit.operation(
                "stablehlo.concatenate", listed, [one] * len(listed), [sizes], dimension=0
            )
            whole = [shapes[0], sizes]
            return emit.operation(
                "stablehlo.dynamic_reshape", [operands[0], *shape], whole, results
            )
        return emit.operation("stablehlo.reshape", operands, shapes, results)

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        return {}

    def transpose(
        self, cotangents: Any, operands: Any, linear: Any, **attributes: Any
    ) -> Sequence[Any]:
        operand = array_shape(operands[0])
        none = [None] * (len(operands) - 1)
        if not operand.is_dynamic:
            for dimension in range(array_shape(cotangents).rank):
                cotangents = static(cotangents, dimension)
            return reshape(cotangents, operand.dimensions), *none
        if operands[0] is operand:  # a tangent: its sizes are not known
            return with_sizes_of(zeros_like(operand), operand), *none
        sizes = [get_dimension_size(operands[0], each) for each in range(operand.rank)]
        return dynamic_reshape(cotangents, sizes, operand.dimensions, operand.dynamic), *none

    def batch(
        self,
        operands: Any,
        dimensions: Any,
        *,
        new_size_bounds: tuple[int, ...],
        dims_are_dynamic: tuple[bool, ...],
    ) -> tuple[Any, int]:
        _refuse_ragged(self, dimensions[1:])
        operand = move_dimension(operands[0], dimensions[0], 0)
        size = array_shape(operand).dimensions[0]
        sizes, flags = [np.int32(size), *operands[1:]], (False, *dims_are_dynamic)
        return dynamic_reshape(operand, sizes, (size, *new_size_bounds), flags), 0


def dynamic_reshape(
    operand: Any,
    dim_sizes: Sequence[Any],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> Any:
    """The elements of `operand`, in row-major order, in dimensions whose sizes are values.

    Args:
        operand: an array, of dynamic or static sizes.
        dim_sizes: N s32 scalars; Python integers become such.
        new_size_bounds: N upper bounds, whose product is that of the operand's sizes (bounds).
        dims_are_dynamic: which of the N dimensions are dynamic; the others have their bound.

    Raises:
        ShapeError, AttributeValueError: see DynamicReshape.
    """
    sizes = [np.int32(size) if isinstance(size, int) else size for size in dim_sizes]
    return bind(
        DynamicReshape.instance,
        operand,
        *sizes,
        new_size_bounds=tuple(new_size_bounds),
        dims_are_dynamic=tuple(dims_are_dynamic),
    )


fill_role("resize", with_sizes)
