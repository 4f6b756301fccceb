"""Means and variances; differences, integrals and interpolation along an axis."""

import math
from typing import Any, Literal, overload

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import ElementType
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import refuse_complex, root
from minixla.numpy.indexing import getitem
from minixla.numpy.operands import Axis, axes_of, convert_all, inexact_operand, kind_of, lifted
from minixla.numpy.shared_sections import PARAMETERS, REDUCED
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import convert
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand

_OF_MEANS = """
Args:
    dtype: the type to compute in and return; default: that of `a`, or float for integers.

Returns:
    An array with the element type of `a`, or float for integers. Its shape is that of `a`
    without the axes, or with size 1 there if `keepdims`. The mean of no elements is NaN.
"""
_OF_VARIANCES = """
Args:
    dtype: the type to compute in; default: that of `a`, or float for integers.
    ddof: a scalar to subtract from the count in the divisor. The result is NaN if the divisor is
        not positive.
    mean: the mean, with the axes kept, if it is known.
    correction: another name of `ddof`.

Returns:
    A real array with the shape of `a` without the axes, or with size 1 there if `keepdims`.
"""


def _present(a: Any, where: Any, subject: str, skips_nan: bool) -> Any:
    """Return a mask of the elements that count; None stands for all."""
    mask = operands.checked_mask(where, subject)
    if not skips_nan or not kind_of(a, subject).is_inexact:
        return mask
    present = ops.not_(mnp.isnan(a))
    return present if mask is None else present & mask


def _count(a: Any, axis: Axis, keepdims: bool, mask: Any, kind: ElementType) -> Any:
    """Count the elements of a mean: a number, or an array if there is a mask."""
    shape = operands.operand_shape(a, "mean")
    if mask is not None:
        counted = mnp.broadcast_to(mask, shape.dimensions)
        return mnp.sum(counted, axis, kind, None, keepdims)
    return math.prod([shape.dimensions[number] for number in axes_of(axis, shape.rank, "mean")])


def _mean(
    name: str, skips_nan: bool, a: Any, axis: Axis, dtype: Any, keepdims: bool, where: Any
) -> Array:
    kind = operands.requested_type(dtype, name, inexact_type(kind_of(a, name)))
    work = operands.widened(kind) if dtype is None else kind
    mask = _present(a, where, name, skips_nan)
    count = _count(a, axis, keepdims, mask, work)
    total = mnp.sum(a, axis, work, None, keepdims, None, mask)
    return lifted(convert(operators.divide(total, count), kind))


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _OF_MEANS)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Take the mean over axes.

    Example:
        >>> np.mean(np.array([[1, 2], [3, 5]]), axis=0)
        Array([2. , 3.5], dtype=float32)
    """
    operands.refuse_out("mean", out)
    return _mean("mean", False, a, axis, dtype, keepdims, where)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _OF_MEANS)
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Take the mean over axes, ignoring NaN.

    Example:
        >>> np.nanmean(np.array([1.0, np.nan, 3.0]))
        Array(2., dtype=float32)
    """
    operands.refuse_out("nanmean", out)
    return _mean("nanmean", True, a, axis, dtype, keepdims, where)


def _variance(
    name: str,
    skips_nan: bool,
    a: Any,
    axis: Axis,
    dtype: Any,
    ddof: Any,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: Any,
) -> Array:
    axes_of(axis, operands.operand_shape(a, name).rank, name)  # so that errors name this function
    mask = _present(a, where, name, skips_nan)
    own = kind_of(a, name)
    wanted = operands.requested_type(dtype, name, inexact_type(own))
    work, kind = operands.widened(wanted), wanted.real if dtype is None else wanted
    if own.is_complex and not wanted.is_complex:
        problem = "dtype must be complex for complex numbers"
        advice = "Omit dtype, or pass a complex one; the result is real."
        raise operands.value_error(name, problem, advice, dtype=dtype)
    # Replace NaN by a number, so that the derivative contains no NaN.
    x = lifted(convert(operands.without_nan(a, name, 0 if skips_nan else None), work))
    if mean is None:
        mean = mnp.mean(x, axis, work, None, True, mask)
    apart = operators.subtract(x, convert(mean, work))
    squares = mnp.square(mnp.real(apart))
    if work.is_complex:
        squares = squares + mnp.square(mnp.imag(apart))
    if correction is not None and ddof:
        problem, advice = "ddof and correction are both given", "They are two names; give one."
        raise operands.value_error(name, problem, advice, ddof=ddof, correction=correction)
    less = ddof if correction is None else correction
    operands.operand_shape(less, name)  # raises an error unless it is a number
    count = _count(a, axis, keepdims, mask, work.real) - less
    total = mnp.sum(squares, axis, work.real, None, keepdims, None, mask)
    result = convert(operators.divide(total, count), kind)
    if (is_positive := count > 0) is not True:
        result = mnp.where(is_positive, result, shorthand.full_like(result, math.nan))
    return lifted(result)


@one_program("a", "where", "mean")
@documented(PARAMETERS, REDUCED, _OF_VARIANCES)
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Compute the variance over axes: the mean of |a - mean|**2.

    Example:
        >>> np.var(np.array([1.0, 3.0]), ddof=1)
        Array(2., dtype=float32)
    """
    operands.refuse_out("var", out)
    return _variance("var", False, a, axis, dtype, ddof, keepdims, where, mean, correction)


@one_program("a", "where", "mean")
@documented(PARAMETERS, REDUCED, _OF_VARIANCES)
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Compute the square root of `var`; its derivative at 0 is 0.

    Example:
        >>> np.std(np.array([1.0, 3.0]))
        Array(1., dtype=float32)
    """
    operands.refuse_out("std", out)
    return root(_variance("std", False, a, axis, dtype, ddof, keepdims, where, mean, correction))


@one_program("a", "where", "mean")
@documented(PARAMETERS, REDUCED, _OF_VARIANCES)
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Compute the variance over axes, ignoring NaN.

    Example:
        >>> np.nanvar(np.array([1.0, np.nan, 3.0]))
        Array(1., dtype=float32)
    """
    operands.refuse_out("nanvar", out)
    return _variance("nanvar", True, a, axis, dtype, ddof, keepdims, where, mean, correction)


@one_program("a", "where", "mean")
@documented(PARAMETERS, REDUCED, _OF_VARIANCES)
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Compute the square root of `nanvar`; its derivative at 0 is 0.

    Example:
        >>> np.nanstd(np.array([1.0, np.nan, 3.0]))
        Array(1., dtype=float32)
    """
    operands.refuse_out("nanstd", out)
    return root(_variance("nanstd", True, a, axis, dtype, ddof, keepdims, where, mean, correction))


@overload
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: Literal[False] = False,
    keepdims: bool = False,
) -> Array: ...
@overload
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any: ...
@documented(PARAMETERS)
@one_program("a", "weights")
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Take the weighted mean over axes.

    Args:
        weights: an array of the shape of `a`, or of its axes; default: ones.
        returned: whether to also return the sum of the weights.

    Returns:
        An array of a float type with the shape of `a` without the axes, or with size 1 there if
        `keepdims`; with `returned` a pair of it and the sums of the weights.

    Example:
        >>> np.average(np.array([1.0, 3.0]), weights=np.array([3, 1]))
        Array(1.5, dtype=float32)
    """
    if weights is None:
        result = mean(inexact_operand(a, "average"), axis, None, None, keepdims)
        kind = kind_of(result)
        total = mnp.full((), _count(a, axis, keepdims, None, kind), kind)
    else:
        both = convert_all("average", [a, weights])
        values, factors = (inexact_operand(x, "average") for x in both)
        factors = operands.weights_for("average", values, factors, axis)
        total = mnp.sum(factors, axis, None, None, keepdims)
        result = mnp.sum(values * factors, axis, None, None, keepdims) / total
    if not returned:
        return result
    return result, mnp.broadcast_to(total, operands.operand_shape(result, "average").dimensions)


def _span(a: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return getitem(a, (*[slice(None)] * axis, slice(start, stop)))


@documented(PARAMETERS)
@one_program("a", "prepend", "append")
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Subtract from each element the one before, `n` times; booleans are compared.

    Args:
        n: the number of repetitions.
        axis: the axis.
        prepend: an array to put before `a` first; a scalar is repeated.
        append: an array to put after it.

    Returns:
        An array with the element type of `a`, shorter by `n` along the axis.

    Example:
        >>> np.diff(np.array([1, 4, 9, 16]), n=2)
        Array([2, 2], dtype=int32)
    """
    shape = operands.operand_shape(a, "diff")
    times = operands.static_size(n, "diff", "n")
    place = operands.axis_of(axis, shape.rank, "diff")
    edge = operands.resized(shape.dimensions, place, 1)
    parts = [
        mnp.broadcast_to(part, edge) if operands.operand_shape(part, "diff").rank == 0 else part
        for part in (prepend, a, append)
        if part is not None
    ]
    result = mnp.concatenate(parts, place) if len(parts) > 1 else lifted(a)
    function = mnp.not_equal if kind_of(result).kind == "pred" else operators.subtract
    for _ in range(min(times, result.shape[place])):  # further differences are empty
        result = function(_span(result, place, 1, None), _span(result, place, None, -1))
    return result


@documented(PARAMETERS)
@one_program()
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int | None = None
) -> Any:
    """Compute central differences along axes, one-sided at the ends.

    Args:
        f: an array.
        *varargs: the spacing (default 1), or a vector of coordinates: one for all axes, or one for
            each.
        edge_order: 1 (default) or 2, the order of accuracy at the ends.

    Returns:
        An array like `f`, or a list with one for each axis.

    Example:
        >>> np.gradient(np.array([1.0, 4.0, 9.0]))
        Array([3., 4., 5.], dtype=float32)
    """
    together = convert_all("gradient", [f, *varargs])
    values, *spacings = (inexact_operand(x, "gradient") for x in together)
    axes = axes_of(axis, values.ndim, "gradient")
    distances = spacings * len(axes) if len(spacings) == 1 else spacings or [None] * len(axes)
    sizes = [values.shape[axis] for axis in axes]
    fits = [
        distance is None or distance.shape in ((), (size,))
        for distance, size in zip(distances, sizes, strict=False)
    ]
    order = edge_order or 1
    if (
        order not in (1, 2)
        or len(distances) != len(axes)
        or not all(fits)
        or min(sizes, default=9) <= order
    ):
        problem = "the arguments do not fit the array"
        details = {"axes": axes, "sizes": sizes, "varargs": varargs, "edge_order": edge_order}
        advice = "Axes need more elements than edge_order; give distances or coordinates."
        raise operands.value_error("gradient", problem, advice, **details)
    slopes = [_slopes(values, *pair, order) for pair in zip(axes, distances, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(values: Any, axis: int, distance: Any, order: int) -> Any:
    """Compute the derivative along an axis, from two or three values at the ends."""
    steps: Any = 1 if distance is None else distance
    if operands.operand_shape(steps, "gradient").rank:
        others = [at for at in range(values.ndim) if at != axis]
        steps = mnp.expand_dims(diff(steps), others)
    secants = diff(values, axis=axis) / steps
    # The relative position of each inner element between its neighbors.
    share: Any = 0.5
    has_places = bool(getattr(steps, "ndim", 0))
    if has_places:
        before, after = _span(steps, axis, None, -1), _span(steps, axis, 1, None)
        share = before / (before + after)
    left, right = _span(secants, axis, None, -1), _span(secants, axis, 1, None)
    if has_places:
        inside = left + (right - left) * share
    else:  # skip the elements between, which may be infinite
        apart = _span(values, axis, 2, None) - _span(values, axis, None, -2)
        inside = apart / steps * share
    first, last = _span(secants, axis, 0, 1), _span(secants, axis, -1, None)
    if order == 2:
        bend = right - left
        first = first - _end(bend, axis, 0) * _end(share, axis, 0)
        last = last + _end(bend, axis, -1) * (1 - _end(share, axis, -1))
    return mnp.concatenate([first, inside, last], axis)


def _end(x: Any, axis: int, at: int) -> Any:
    return _span(x, axis, at, at + 1 or None) if getattr(x, "ndim", 0) else x


@documented(PARAMETERS)
@one_program("x", "xp", "fp", "left", "right", "period")
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Interpolate linearly between points.

    Args:
        x: the coordinates at which to interpolate.
        xp: the coordinates of the points, an ascending vector.
        fp: the values at the points.
        left: the value before the first point, which is the default; "extrapolate" continues the
            line through the first two points.
        right: the same after the last point.
        period: the period of `x`, in place of left and right; then `xp` need not ascend.

    Example:
        >>> np.interp(np.array([0.5, 5.0]), np.array([0.0, 1.0]), np.array([10.0, 20.0]))
        Array([15., 20.], dtype=float32)
    """
    points = [operands.operand_shape(vector, "interp") for vector in (xp, fp)]
    if points[0].rank != 1 or points[0].dimensions != points[1].dimensions:
        problem, advice = "xp and fp must be vectors of equal size", "Pass a value for each point."
        details = [f"{name} {point}" for name, point in zip(("xp", "fp"), points, strict=True)]
        raise operands.shape_error("interp", problem, advice, *details)
    for operand in (x, xp):
        refuse_complex("interp", kind_of(operand))
    x, xp, fp = (
        inexact_operand(operand, "interp") for operand in (*convert_all("interp", [x, xp]), fp)
    )
    if period is not None:
        period = mnp.absolute(convert(period, kind_of(xp)))
        x, xp = x % period, xp % period
        order = mnp.argsort(xp)
        xp, fp = mnp.take(xp, order, mode="clip"), mnp.take(fp, order, mode="clip")
        xp = mnp.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = mnp.concatenate([fp[-1:], fp, fp[:1]])
    # One row for each interval, so that a vector has one gather by the result of the search.
    last = max(xp.shape[0] - 2, 0)
    interval = mnp.clip(mnp.searchsorted(xp, x, "right") - 1, 0, last)
    rows = (mnp.stack([vector[: last + 1], vector[-last - 1 :]], -1) for vector in (xp, fp))
    (x0, x1), (f0, f1) = (
        mnp.moveaxis(mnp.take(row, interval, 0, mode="clip"), -1, 0) for row in rows
    )
    width = x1 - x0
    is_point = width == 0
    slope = (f1 - f0) / mnp.where(is_point, 1, width)
    # At a sample point the result is that sample, even if a neighbor is infinite.
    is_last, is_open = ~is_point & (x == x1), ~mnp.isfinite(slope)
    near, distance = mnp.where(is_last, f1, f0), x - mnp.where(is_last, x1, x0)
    is_alone = is_point | is_open & (distance == 0)
    result = near + mnp.where(is_alone, 0, distance) * mnp.where(is_alone, 0, slope)
    before: Any = fp[0] if left is None else left
    after: Any = fp[-1] if right is None else right
    if left != "extrapolate":
        result = mnp.where(x < xp[0], before, result)
    return result if right == "extrapolate" else mnp.where(x > xp[-1], after, result)
