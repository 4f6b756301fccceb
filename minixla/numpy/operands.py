"""What every function does with its arguments: checks, element types, axes, values of the trace."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import (
    F32,
    F64,
    S64,
    U64,
    ElementType,
    canonical_element_type,
    element_type,
)
from minixla.core.errors import AttributeValueError, ConcretizationError, ShapeError, explain
from minixla.core.promotion import inexact_type, numeric_type, result_type
from minixla.core.tracing import Tracer, current_trace, weak_type_of
from minixla_ops.elementwise.operators import (
    broadcast_shapes,
    broadcast_to,
    convert,
    operand_shape,
    promote,
    weakly_typed,
)
from minixla_ops.vocabulary.shorthand import array_shape

__all__ = [
    "axes_of",
    "axis_of",
    "broadcast_all",
    "common_type",
    "concrete",
    "convert_all",
    "default_float",
    "default_int",
    "inexact_operand",
    "keep_weak",
    "lifted",
    "listed",
    "marked",
    "operand_shape",
    "promote_any",
    "promote_inexact",
    "promote_numeric",
    "refuse_out",
    "requested_type",
    "static_int",
    "static_size",
    "static_sizes",
    "sum_type",
    "widened",
]


def lifted(value: Any) -> Any:
    """`value` as an array of the current trace: a tracer, or an array of the engine."""
    return value if isinstance(value, Tracer) else current_trace().lift(value)


def keep_weak(result: Any, source: Any) -> Any:
    """`result`, marked weakly typed where `source` is."""
    return marked(result, weak_type_of(source))


def marked(result: Any, weak: bool) -> Any:
    """`result`, which nobody else knows yet, weakly typed where `weak` says so."""
    return weakly_typed(result) if weak else result


# Element types.


def default_float() -> ElementType:
    """f32, or f64 in 64-bit mode."""
    return canonical_element_type(F64)


def default_int() -> ElementType:
    """s32, or s64 in 64-bit mode."""
    return canonical_element_type(S64)


def sum_type(kind: ElementType) -> ElementType:
    """What sums of `kind` are: integers narrower than the default ones widen to those."""
    if kind.kind not in ("pred", "signed", "unsigned"):
        return kind
    wide = canonical_element_type(U64) if kind.kind == "unsigned" else default_int()
    return wide if kind.bits < wide.bits else kind


def widened(kind: ElementType) -> ElementType:
    """The type that long sums of `kind` are computed in: f32 for f16 and bf16."""
    return F32 if kind.name in ("f16", "bf16") else kind


def requested_type(dtype: Any, subject: str) -> ElementType:
    """The element type of arrays of a dtype that a user asked for; warns where it narrows.

    Raises:
        ShapeError: XLA has no such type.
    """
    try:
        declared = element_type(np.dtype(dtype) if hasattr(dtype, "dtype") else dtype)
    except TypeError as error:
        raise explain(
            ShapeError,
            subject,
            "dtype is not an element type",
            [f"dtype = {dtype!r}"],
            "Give a dtype such as mx.numpy.float32.",
        ) from error
    kind = canonical_element_type(declared)
    if kind is not declared:
        warnings.warn(
            f"{subject}: dtype {declared.dtype} was asked for and becomes {kind.dtype}; "
            "set jax_enable_x64 for 64-bit types.",
            stacklevel=3,
        )
    return kind


# Promotion.


def promote_inexact(subject: str, *operands: Any) -> tuple[list[Any], ElementType, bool]:
    """Operands broadcast to one shape and converted to one float or complex type.

    Returns:
        The operands, their element type, and whether all were weakly typed.

    Raises:
        ShapeError: they do not broadcast, or have no common type.
    """
    return _promoted(subject, operands, inexact_type)


def promote_numeric(subject: str, *operands: Any) -> tuple[list[Any], ElementType, bool]:
    """Like `promote_inexact`, but integers stay integers; pred becomes the default integer."""
    return _promoted(subject, operands, numeric_type)


def promote_any(subject: str, *operands: Any) -> tuple[list[Any], ElementType, bool]:
    """Like `promote_inexact`, but their common type stays as it is."""
    return _promoted(subject, operands, None)


def _promoted(
    subject: str, operands: Sequence[Any], adjust: Any
) -> tuple[list[Any], ElementType, bool]:
    promoted, weak = promote(subject, *operands, adjust=adjust)
    return [lifted(each) for each in promoted], array_shape(promoted[0]).element_type, weak


def common_type(subject: str, *operands: Any) -> ElementType:
    """The element type that operands have in common."""
    # A set: lists of many numbers have few types.
    types = {(operand_shape(each, subject).element_type, weak_type_of(each)) for each in operands}
    return result_type(sorted(types, key=str))[0]


def inexact_operand(x: Any, subject: str) -> Any:
    """`x` as an array of a float or complex type."""
    shape = operand_shape(x, subject)
    if shape.element_type.is_inexact:
        return lifted(x)
    return lifted(convert(x, inexact_type(shape.element_type)))


def convert_all(subject: str, operands: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Operands converted to `dtype`, or to their common type; their shapes stay."""
    if dtype is not None:
        kind = requested_type(dtype, subject)
        for each in operands:
            operand_shape(each, subject)
    else:
        kind = common_type(subject, *operands)
    return [convert(each, kind) for each in operands]


def broadcast_all(subject: str, *operands: Any) -> list[Any]:
    """Operands broadcast to one shape, each of its own element type."""
    sizes = broadcast_shapes(
        [operand_shape(each, subject).dimensions for each in operands], subject
    )
    return [broadcast_to(each, sizes) for each in operands]


# Axes and other static arguments.


def listed(value: Any) -> list[Any]:
    """A sequence's members; a single value, such as one axis or size, as the only one."""
    if getattr(value, "ndim", 1) == 0 or not isinstance(value, Iterable):
        return [value]
    return list(value)


def axis_of(axis: Any, rank: int, subject: str) -> int:
    """An axis counted from the front.

    Raises:
        AttributeValueError: it is not an integer in [-rank, rank).
    """
    number = axis if type(axis) is int else static_int(axis, subject, "axis")
    if not -rank <= number < rank:
        raise explain(
            AttributeValueError,
            subject,
            f"axis {number} is out of bounds for an array of {rank} dimensions",
            advice=f"It must be in [{-rank}, {rank})." if rank else "A scalar has no axes.",
        )
    return number % rank


def axes_of(axis: Any, rank: int, subject: str) -> tuple[int, ...]:
    """Axes counted from the front; None stands for all.

    Raises:
        AttributeValueError: one is out of range or named twice.
    """
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int:
        return (axis_of(axis, rank, subject),)
    found = tuple([axis_of(each, rank, subject) for each in listed(axis)])
    if len(set(found)) != len(found):
        raise explain(
            AttributeValueError,
            subject,
            "an axis is named twice",
            [f"axis = {axis}", f"the array has {rank} dimensions"],
            "Name each axis once; negative ones count from the end.",
        )
    return found


def static_int(value: Any, subject: str, name: str) -> int:
    """A Python integer that must be known when the program is traced.

    Raises:
        ConcretizationError: it is a staged value.
        AttributeValueError: it is no integer.
    """
    try:
        return operator.index(value)
    except ConcretizationError:
        raise explain(
            ConcretizationError,
            subject,
            f"{name} must be known when the function is traced",
            [f"{name} = {value!r}"],
            "It decides about shapes: give a Python integer, or mark the argument static "
            "(static_argnums).",
        ) from None
    except TypeError:
        raise explain(
            AttributeValueError,
            subject,
            f"{name} is not an integer",
            [f"{name} = {value!r}"],
            "Give a Python integer.",
        ) from None


def static_size(value: Any, subject: str, name: str) -> int:
    """A `static_int` that is not negative.

    Raises:
        AttributeValueError: it is.
    """
    size = static_int(value, subject, name)
    if size < 0:
        raise explain(
            AttributeValueError,
            subject,
            f"{name} is negative",
            [f"{name} = {size}"],
            "Give 0 or more.",
        )
    return size


def static_sizes(shape: Any, subject: str) -> tuple[int, ...]:
    """The sizes in a shape, which may be one size.

    Raises:
        AttributeValueError: one is negative or no integer.
    """
    sizes = tuple([static_int(each, subject, "shape") for each in listed(shape)])
    if any(size < 0 for size in sizes):
        raise explain(
            AttributeValueError,
            subject,
            "a size is negative",
            [f"shape = {sizes}"],
            "Sizes must be >= 0.",
        )
    return sizes


def concrete(value: Any, subject: str, advice: str) -> np.ndarray:
    """The elements of a value that must be known when the program is traced.

    Raises:
        ConcretizationError: they are not.
    """
    try:
        return np.asarray(value)
    except TypeError as error:
        if isinstance(value, Tracer) or hasattr(value, "aval"):
            raise explain(
                ConcretizationError,
                subject,
                "its result's shape depends on values that are not known when it is traced",
                [f"given {operand_shape(value, subject)}"],
                advice,
            ) from error
        raise


def refuse_out(subject: str, out: Any) -> None:
    """Raises AttributeValueError where a place for the result was given."""
    if out is not None:
        raise explain(
            AttributeValueError,
            subject,
            "out is not supported",
            advice="Arrays do not change: use the function's result.",
        )
