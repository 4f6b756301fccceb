"""Means, variances and standard deviations."""

from __future__ import annotations

import math
from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import inexact_type
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy.logic import isnan, where
from minixla.numpy.manipulation import broadcast_to, reshape, transpose
from minixla.numpy.operands import (
    axes_of,
    convert_all,
    inexact_operand,
    lifted,
    operand_shape,
    promote_inexact,
    refuse_out,
    requested_type,
    widened,
)
from minixla.numpy.own_derivatives import root
from minixla.numpy.reductions import Axis, checked_mask, nansum
from minixla.numpy.reductions import sum as total_of
from minixla_ops.elementwise.operators import convert, divide, subtract
from minixla_ops.vocabulary.shorthand import full_like, splat

__all__ = ["average", "corrcoef", "cov", "mean", "nanmean", "nanstd", "nanvar", "std", "var"]


def _count(a: Any, axis: Axis, keepdims: bool, mask: Any, kind: ElementType) -> Any:
    """How many elements a mean is over: a number, or where there is a mask an array."""
    shape = operand_shape(a, "mean")
    if mask is not None:
        counted = broadcast_to(mask, shape.dimensions)
        return total_of(counted, axis, kind, None, keepdims)
    return math.prod([shape.dimensions[each] for each in axes_of(axis, shape.rank, "mean")])


@one_program("a", "where")
def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The mean over axes.

    Args:
        a: an array.
        axis: an axis or several; None for all.
        dtype: the type to sum in and return; default: that of `a`, at least float.
        out: not supported.
        keepdims: whether the axes stay, with size 1.
        where: booleans that broadcast with `a`: which elements count.
    """
    refuse_out("mean", out)
    mask = checked_mask(where, "mean")
    own = operand_shape(a, "mean").element_type
    kind = inexact_type(own) if dtype is None else requested_type(dtype, "mean")
    work = widened(kind) if dtype is None else kind
    count = _count(a, axis, keepdims, mask, work)
    total = total_of(a, axis, work, None, keepdims, None, mask)
    return lifted(convert(divide(total, count), kind))


def _computation_types(
    own: ElementType, dtype: Any, subject: str
) -> tuple[ElementType, ElementType]:
    """The type to compute a variance in, and its own."""
    if dtype is None:
        kind = inexact_type(own)
        return widened(kind), kind.real
    kind = requested_type(dtype, subject)
    if own.is_complex and not kind.is_complex:
        raise explain(
            AttributeValueError,
            subject,
            "the dtype for complex numbers is real",
            [f"dtype = {dtype}"],
            "Leave dtype out, or give a complex one; the result is real.",
        )
    return widened(kind), kind


def _correction(ddof: Any, correction: Any, subject: str) -> Any:
    if correction is None:
        return ddof
    if ddof:
        raise explain(
            AttributeValueError,
            subject,
            "ddof and correction are both given",
            [f"ddof = {ddof}", f"correction = {correction}"],
            "They are two names of one number.",
        )
    return correction


@one_program("a", "where", "mean")
def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Any:
    """The mean over axes of the squared distance from the mean; real, of complex numbers too.

    Args:
        a: an array.
        axis: an axis or several; None for all.
        dtype: the type to compute in; default: that of `a`, at least float.
        out: not supported.
        ddof: a number to subtract from the count that the sum is divided by.
        correction: another name of `ddof`.
        keepdims: whether the axes stay, with size 1.
        where: booleans that broadcast with `a`: which elements count.
        mean: the mean, with the axes kept, where it is known.

    Returns:
        An array; NaN where the count is not positive.
    """
    refuse_out("var", out)
    mask = checked_mask(where, "var")
    correction = _correction(ddof, correction, "var")
    work, kind = _computation_types(operand_shape(a, "var").element_type, dtype, "var")
    x = lifted(convert(a, work))
    center = _mean(x, axis, work, True, where=mask) if mean is None else convert(mean, work)
    squares = _squared(subtract(x, center))
    work = work.real
    count = _count(a, axis, keepdims, mask, work) - correction
    total = total_of(squares, axis, work, None, keepdims, None, mask)
    return _where_positive(count, total, kind)


def _mean(x: Any, axis: Axis, kind: ElementType, keepdims: bool, **options: Any) -> Any:
    return mean(x, axis, kind, None, keepdims, **options)


def _squared(x: Any) -> Any:
    if operand_shape(x, "var").element_type.is_complex:
        parts = ops.real(x), ops.imag(x)
        return parts[0] * parts[0] + parts[1] * parts[1]
    return x * x


def _where_positive(count: Any, total: Any, kind: ElementType) -> Any:
    """`total` divided by the count, NaN where that is not positive."""
    if isinstance(count, (int, float)):
        result = divide(total, count) if count > 0 else full_like(total, math.nan)
        return lifted(convert(result, kind))
    result = convert(divide(total, count), kind)
    return where(count > 0, result, full_like(result, math.nan))


@one_program("a", "where", "mean")
def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Any:
    """The square root of the variance; arguments as for `var`.

    Its derivative where the variance is 0 is 0.
    """
    refuse_out("std", out)
    options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
    return root(var(a, axis, dtype, None, ddof, keepdims, **options))


def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean over axes, each element counted with a weight.

    Args:
        a: an array.
        axis: an axis or several; None for all.
        weights: of the shape of `a`, or of its axes; default: ones.
        returned: whether to return the sum of weights too.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ShapeError: the weights have another shape.
    """
    if weights is None:
        result = mean(inexact_operand(a, "average"), axis, None, None, keepdims)
        kind = operand_shape(result, "average").element_type
        total = lifted(splat(_count(a, axis, keepdims, None, kind), Shape(kind)))
    else:
        a, weights = (inexact_operand(x, "average") for x in convert_all("average", [a, weights]))
        weights = _aligned_weights(a, weights, axis)
        total = total_of(weights, axis, None, None, keepdims)
        weighted = a * weights
        result = total_of(weighted, axis, None, None, keepdims) / total
    if not returned:
        return result
    return result, broadcast_to(total, operand_shape(result, "average").dimensions)


def _aligned_weights(a: Any, weights: Any, axis: Axis) -> Any:
    sizes, given = a.shape, weights.shape
    if sizes == given:
        return weights
    axes = axes_of(axis, len(sizes), "average")
    if axis is None or given != tuple([sizes[each] for each in axes]):
        raise explain(
            ShapeError,
            "average",
            "the weights do not fit the array",
            [f"a has shape {sizes}", f"weights have shape {given}", f"axis = {axis}"],
            "Weights have the shape of a, or of the axes that are averaged.",
        )
    weights = transpose(weights, sorted(range(len(axes)), key=lambda at: axes[at]))
    return reshape(weights, [size if at in axes else 1 for at, size in enumerate(sizes)])


# Without NaN.


@one_program("a", "where")
def nanmean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The mean over axes of what is not NaN; arguments as for `mean`."""
    refuse_out("nanmean", out)
    own = operand_shape(a, "nanmean").element_type
    if not own.is_inexact:
        return mean(a, axis, dtype, None, keepdims, where=where)
    kind = own if dtype is None else requested_type(dtype, "nanmean")
    work = widened(kind)
    count = total_of(ops.not_(isnan(a)), axis, work, None, keepdims, None, where)
    return lifted(convert(nansum(a, axis, work, None, keepdims, None, where) / count, kind))


@one_program("a", "where", "mean")
def nanvar(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The variance over axes of what is not NaN; arguments as for `var`."""
    refuse_out("nanvar", out)
    x = inexact_operand(a, "nanvar")
    missing = isnan(x)
    present = ops.not_(missing) if where is None else ops.not_(missing) & where
    # A number in place of NaN, so that no NaN comes back through the derivative.
    x = _select(missing, full_like(x, 0), x)
    return var(x, axis, dtype, None, ddof, keepdims, where=present, mean=mean)


def _select(mask: Any, x: Any, y: Any) -> Any:
    return where(mask, x, y)


@one_program("a", "where", "mean")
def nanstd(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The standard deviation over axes of what is not NaN; arguments as for `var`."""
    return root(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


# Covariance.


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Any:
    """The covariance matrix of variables.

    Args:
        m: a matrix whose rows are variables and whose columns are observations; or a vector.
        y: more variables, in the same form.
        rowvar: False where variables are columns.
        bias: whether to divide by the number of observations instead of one less.
        ddof: the number to subtract from it, whatever `bias` says.

    Raises:
        ShapeError: an array has more than two dimensions.
    """
    from minixla.numpy.elementwise import conjugate
    from minixla.numpy.joining import concatenate
    from minixla.numpy.linear_algebra import matmul
    from minixla.numpy.manipulation import atleast_2d, squeeze

    (x,) = convert_all("cov", [m]) if y is None else (m,)
    rows = [_variables(each, rowvar) for each in ((x,) if y is None else promote_pair(m, y))]
    data = concatenate([atleast_2d(each) for each in rows], 0)
    count = data.shape[1]
    correction = (0 if bias else 1) if ddof is None else ddof
    centered = data - mean(data, 1, None, None, True)
    product = matmul(centered, conjugate(transpose(centered)))
    return squeeze(product / (count - correction))


def promote_pair(m: Any, y: Any) -> tuple[Any, Any]:
    """Two arrays of one float or complex type."""
    kind = promote_inexact("cov", splat(0, _scalar(m)), splat(0, _scalar(y)))[1]
    return lifted(convert(m, kind)), lifted(convert(y, kind))


def _scalar(x: Any) -> Shape:
    return Shape(operand_shape(x, "cov").element_type)


def _variables(x: Any, rowvar: bool) -> Any:
    x = inexact_operand(x, "cov")
    if x.ndim > 2:
        raise explain(
            ShapeError, "cov", f"the array has {x.ndim} dimensions", advice="Give two or fewer."
        )
    return x if rowvar or x.ndim < 2 or x.shape[0] == 1 else transpose(x)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The matrix of correlation coefficients; arguments as for `cov`."""
    from minixla.numpy.elementwise import real
    from minixla.numpy.manipulation import expand_dims
    from minixla.numpy.matrices import diagonal

    covariance = cov(x, y, rowvar)
    if covariance.ndim == 0:
        return covariance / covariance
    deviations = ops.sqrt(real(diagonal(covariance)))
    return covariance / expand_dims(deviations, 1) / expand_dims(deviations, 0)
