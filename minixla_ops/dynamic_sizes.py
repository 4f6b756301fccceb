"""Sizes known only at run time: GetDimensionSize and SetDimensionSize, and what uses them.

A dynamic dimension has a bound, which is its size in the shape: `f32[<=10]`. In the reference an
array has its true sizes. Reductions, element-wise operations and those that move whole dimensions
know what to do with one; others refuse it. It cannot leave a compiled program: reduce it, or set
its size back to the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integer
from minixla.core.errors import AttributeValueError, DerivativeError, TransformError, explain
from minixla.core.linear import with_sizes_of
from minixla.core.operation import Operation, register
from minixla.core.roles import fill_role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.binary import add
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import lt
from minixla_ops.creation import iota
from minixla_ops.dynamic_slicing import dynamic_slice
from minixla_ops.rules import array_shape, zeros_like
from minixla_ops.selection import select

__all__ = [
    "SIZE",
    "dynamic_parts",
    "get_dimension_size",
    "in_common_sizes",
    "on_bounds",
    "refuse_ragged",
    "set_dimension_size",
    "static",
    "with_sizes",
]

#: The shape of a size.
SIZE = Shape("s32")


class _OfDimension(Operation):
    """Base class of operations on one dimension's size.

    Checks:
        (C1) dimension is one of the operand's.
    """

    dynamic_operands = (0,)

    def checked(self, operand: Any, dimension: Any) -> Shape:
        """The operand's shape."""
        (operand,) = self.array_shapes([operand])
        dimension = self.canonical_attribute("dimension", dimension)
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
        DerivativeError: the operand is a Shape, as in the transpose of an operation on tangents,
            and dynamic there.
    """
    if isinstance(operand, Shape):
        GetDimensionSize.instance.checked(operand, dimension)
        if not operand.dynamic[dimension]:
            return np.int32(operand.dimensions[dimension])
        raise explain(
            DerivativeError,
            "transpose",
            "the size of a dynamic tangent is not known",
            [f"tangent {operand}"],
            "In a jvp rule set dynamic sizes back to their bounds with set_dimension_size, or give "
            "the function a rule with mx.custom_vjp.",
        )
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
        refuse_ragged(self, dimensions[1:])
        at = dimensions[0]
        dimension += dimension >= at
        return bind(self, *operands, dimension=dimension, to_bound=to_bound), at


def refuse_ragged(operation: Operation, dimensions: Sequence[int | None]) -> None:
    """Raises TransformError where a size is batched."""
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
    """The values, dynamic where one of the highest rank is; those of other dimensions unchanged.

    Tuples, which are for a shape rule to reject, leave all as they are.
    """
    values = list(values)
    given = list(map(shape_of, values))
    shapes = [shape for shape in given if isinstance(shape, Shape)]
    if len(shapes) < len(given):
        return values
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


def dynamic_parts(
    joined: Any, parts: Sequence[Any], wanted: Sequence[bool], dimension: int
) -> list[Any]:
    """What concat_in_dim joined from `parts`, some of them dynamic: each up to its bound."""
    whole, found = static(joined, dimension), []
    sizes = array_shape(whole).dimensions
    start: Any = np.int32(0)
    for part, flag in zip(parts, wanted, strict=True):
        bound = array_shape(part).dimensions[dimension]
        starts = [start if at == dimension else np.int32(0) for at in range(len(sizes))]
        kept = (*sizes[:dimension], bound, *sizes[dimension + 1 :])
        found.append(dynamic_slice(whole, starts, kept) if flag else None)
        start = add(start, get_dimension_size(part, dimension))
    return found


fill_role("resize", with_sizes)
