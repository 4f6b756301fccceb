"""Functions that fold an array along axes; `averages` has means and variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import numeric_type
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy.logic import as_bool, isnan, where
from minixla.numpy.manipulation import broadcast_to, expand_dims
from minixla.numpy.operands import (
    axes_of,
    axis_of,
    default_int,
    lifted,
    operand_shape,
    refuse_out,
    requested_type,
    sum_type,
    widened,
)
from minixla_ops.elementwise.operators import convert
from minixla_ops.programs.computations import identity_of
from minixla_ops.vocabulary.shorthand import full_like, splat

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "min",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmin",
    "nanprod",
    "nansum",
    "prod",
    "ptp",
    "sum",
]

Axis = int | Sequence[int] | None

_COMPUTATIONS: dict[str, Callable[..., Any]] = {
    "add": ops.add,
    "mul": ops.mul,
    "max": ops.max,
    "min": ops.min,
    "and": ops.and_,
    "or": ops.or_,
}


def checked_mask(where: Any, subject: str) -> Any:
    """A mask of which elements count, or None.

    Raises:
        ShapeError: it is not of booleans.
    """
    if where is not None and operand_shape(where, subject).element_type.kind != "pred":
        raise explain(
            ShapeError,
            subject,
            "where is not an array of booleans",
            [f"where {operand_shape(where, subject)}"],
            "Give a comparison's result.",
        )
    return where


def _identity(monoid: str, kind: ElementType) -> Any:
    return splat(identity_of(monoid, kind.dtype)[()], Shape(kind))


def _folded(
    subject: str,
    monoid: str,
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any = None,
    mask: Any = None,
) -> Any:
    """`a` folded by a monoid; `a` has the type to fold in."""
    shape = operand_shape(a, subject)
    kind = shape.element_type
    axes = axes_of(axis, shape.rank, subject)
    mask = checked_mask(mask, subject)
    neutral = _identity(monoid, kind)
    if mask is not None:
        a = where(mask, a, neutral)
        shape = operand_shape(a, subject)
    computation = _COMPUTATIONS[monoid]
    result = ops.reduce(a, neutral, computation, axes) if axes else lifted(a)
    if initial is not None:
        start = convert(initial, kind)
        if operand_shape(start, subject).rank:
            raise explain(ShapeError, subject, "initial is not a scalar", advice="Give one number.")
        sizes = operand_shape(result, subject).dimensions
        result = computation(broadcast_to(start, sizes), result)
    return expand_dims(result, axes) if keepdims and axes else result


def _sum_or_product(
    subject: str,
    monoid: str,
    a: Any,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    mask: Any,
    promote_integers: bool,
) -> Any:
    own = numeric_type(operand_shape(a, subject).element_type)
    kind = sum_type(own) if promote_integers else own
    # f16 and bf16 are summed in f32, unless the user names a type.
    work = widened(kind)
    if dtype is not None:
        kind = work = requested_type(dtype, subject)
        monoid = {"add": "or", "mul": "and"}[monoid] if kind.kind == "pred" else monoid
    converted = as_bool(a, subject) if kind.kind == "pred" else convert(a, work)
    result = _folded(subject, monoid, converted, axis, keepdims, initial, mask)
    return lifted(convert(result, kind))


@one_program("a", "where")
def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over axes.

    Args:
        a: an array.
        axis: an axis or several; None for all.
        dtype: the type to sum in and return; default: that of `a`, integers at least the default.
        out: not supported.
        keepdims: whether the axes stay, with size 1.
        initial: a number to add.
        where: booleans that broadcast with `a`: which elements count.
        promote_integers: whether narrow integers widen.

    Raises:
        AttributeValueError: an axis is out of range or named twice.
    """
    refuse_out("sum", out)
    return _sum_or_product("sum", "add", a, axis, dtype, keepdims, initial, where, promote_integers)


@one_program("a", "where")
def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over axes; arguments as for `sum`."""
    refuse_out("prod", out)
    return _sum_or_product(
        "prod", "mul", a, axis, dtype, keepdims, initial, where, promote_integers
    )


def _extremum(
    subject: str, monoid: str, a: Any, axis: Axis, keepdims: bool, initial: Any, mask: Any
) -> Any:
    shape = operand_shape(a, subject)
    axes = axes_of(axis, shape.rank, subject)
    is_empty = 0 in [shape.dimensions[each] for each in axes]
    if initial is None and (is_empty or mask is not None):
        raise explain(
            AttributeValueError,
            subject,
            f"there may be no element to take the {subject} of",
            [f"the array has shape {shape.dimensions}", f"axis = {axis}"],
            "Give initial, the result where there is none.",
        )
    if shape.element_type.is_complex:
        return _complex_extremum(monoid, lifted(a), axes, keepdims, initial, mask)
    return _folded(subject, monoid, lifted(a), axes, keepdims, initial, mask)


def _complex_extremum(
    monoid: str, a: Any, axes: tuple[int, ...], keepdims: bool, initial: Any, mask: Any
) -> Any:
    """By real part first, which XLA's maximum of complex numbers does too."""
    extreme = math.inf if monoid == "min" else -math.inf
    neutral = splat(complex(extreme, extreme), Shape(operand_shape(a, monoid).element_type))
    a = a if mask is None else where(mask, a, neutral)
    computation = _COMPUTATIONS[monoid]
    result = ops.reduce(a, neutral, computation, axes)
    if initial is not None:
        start = convert(initial, operand_shape(a, monoid).element_type)
        result = computation(broadcast_to(start, result.shape), result)
    return expand_dims(result, axes) if keepdims and axes else result


@one_program("a", "where")
def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The greatest element over axes; NaN where there is one.

    Args:
        a: an array.
        axis: an axis or several; None for all.
        out: not supported.
        keepdims: whether the axes stay, with size 1.
        initial: a number that counts as an element.
        where: booleans that broadcast with `a`: which elements count; needs `initial`.

    Raises:
        AttributeValueError: there is no element, and no `initial`.
    """
    refuse_out("max", out)
    return _extremum("max", "max", a, axis, keepdims, initial, where)


@one_program("a", "where")
def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The least element over axes; arguments as for `max`."""
    refuse_out("min", out)
    return _extremum("min", "min", a, axis, keepdims, initial, where)


amax, amin = max, min


@one_program("a")
def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The greatest minus the least element over axes."""
    refuse_out("ptp", out)
    return ops.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


@one_program("a", "where")
def all(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether all elements over axes are not zero."""
    refuse_out("all", out)
    return _folded("all", "and", as_bool(a, "all"), axis, keepdims, None, where)


@one_program("a", "where")
def any(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether any element over axes is not zero."""
    refuse_out("any", out)
    return _folded("any", "or", as_bool(a, "any"), axis, keepdims, None, where)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero."""
    return sum(as_bool(a, "count_nonzero"), axis, default_int(), None, keepdims)


def _extreme_index(
    subject: str, monoid: str, a: Any, axis: int | None, keepdims: bool | None
) -> Any:
    """The first index of the extreme element, NaN being more extreme than all numbers.

    Two passes of vectorised reductions; XLA:CPU runs a Reduce of pairs element by element.
    """
    from minixla.transforms.custom_derivatives import stop_gradient

    shape = operand_shape(a, subject)
    x = stop_gradient(lifted(a))
    dropped = tuple(range(shape.rank))
    if axis is None:
        x, place = ops.reshape(x, (shape.size,)), 0
    else:
        place = axis_of(axis, shape.rank, subject)
        dropped = (place,)
    whole = operand_shape(x, subject)
    size = whole.dimensions[place]
    if size == 0:
        raise explain(
            AttributeValueError,
            subject,
            "there is no element",
            [f"the array has shape {shape.dimensions}"],
            "Check for size 0 first.",
        )
    best = _extremum(subject, monoid, x, place, True, None, None)
    is_best = ops.eq(x, broadcast_to(best, whole.dimensions))
    if whole.element_type.is_inexact:
        is_best = ops.or_(is_best, ops.ne(x, x))
    positions = ops.iota(Shape(default_int(), whole.dimensions), place)
    found = ops.select(is_best, positions, full_like(positions, size - 1))
    found = ops.reduce(found, _identity("min", default_int()), ops.min, [place])
    return expand_dims(found, dropped) if keepdims else found


@one_program("a")
def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first greatest element along an axis; of the first NaN where there is one.

    Args:
        a: an array.
        axis: the axis; None for the elements in row-major order.
        out: not supported.
        keepdims: whether the axis stays, with size 1.

    Raises:
        AttributeValueError: the axis has size 0.
    """
    refuse_out("argmax", out)
    return _extreme_index("argmax", "max", a, axis, keepdims)


@one_program("a")
def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first least element along an axis; arguments as for `argmax`."""
    refuse_out("argmin", out)
    return _extreme_index("argmin", "min", a, axis, keepdims)


# Without NaN.


def _without_nan(a: Any, subject: str, number: float) -> Any:
    kind = operand_shape(a, subject).element_type
    return where(isnan(a), convert(number, kind), a) if kind.is_inexact else lifted(a)


@one_program("a", "where")
def nansum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over axes of what is not NaN; arguments as for `sum`."""
    return sum(_without_nan(a, "nansum", 0), axis, dtype, out, keepdims, initial, where)


@one_program("a", "where")
def nanprod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product over axes of what is not NaN; arguments as for `sum`."""
    return prod(_without_nan(a, "nanprod", 1), axis, dtype, out, keepdims, initial, where)


def _nan_extremum(
    subject: str,
    function: Callable[..., Any],
    number: float,
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any,
    mask: Any,
) -> Any:
    found = function(_without_nan(a, subject, number), axis, None, keepdims, initial, mask)
    if initial is not None or not operand_shape(a, subject).element_type.is_inexact:
        return found
    return where(all(isnan(a), axis, None, keepdims), full_like(found, np.nan), found)


@one_program("a", "where")
def nanmax(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The greatest element over axes that is not NaN, else NaN; arguments as for `max`."""
    refuse_out("nanmax", out)
    return _nan_extremum("nanmax", max, -math.inf, a, axis, keepdims, initial, where)


@one_program("a", "where")
def nanmin(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The least element over axes that is not NaN, else NaN; arguments as for `max`."""
    refuse_out("nanmin", out)
    return _nan_extremum("nanmin", min, math.inf, a, axis, keepdims, initial, where)


def _nan_index(
    function: Callable[..., Any], number: float, a: Any, axis: Any, keepdims: Any
) -> Any:
    found = function(_without_nan(a, "nanargmax", number), axis, None, keepdims)
    if not operand_shape(a, "nanargmax").element_type.is_inexact:
        return found
    return where(all(isnan(a), axis, None, bool(keepdims)), full_like(found, -1), found)


def nanargmax(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The index of the first greatest element that is not NaN; -1 where all are NaN."""
    refuse_out("nanargmax", out)
    return _nan_index(argmax, -math.inf, a, axis, keepdims)


def nanargmin(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The index of the first least element that is not NaN; -1 where all are NaN."""
    refuse_out("nanargmin", out)
    return _nan_index(argmin, math.inf, a, axis, keepdims)
