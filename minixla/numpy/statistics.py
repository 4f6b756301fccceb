"""Means and variances; differences, integrals and interpolation along an axis."""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, family, refuse_complex, root
from minixla.numpy.indexing import getitem
from minixla.numpy.operands import Axis, axes_of, convert_all, inexact_operand, kind_of, lifted
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import convert
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand


def _present(a: Any, where: Any, subject: str, skips_nan: bool) -> Any:
    """Which elements count; None stands for all."""
    mask = operands.checked_mask(where, subject)
    if not skips_nan or not kind_of(a, subject).is_inexact:
        return mask
    present = ops.not_(mnp.isnan(a))
    return present if mask is None else present & mask


def _count(a: Any, axis: Axis, keepdims: bool, mask: Any, kind: ElementType) -> Any:
    """How many elements a mean is over: a number, or where there is a mask an array."""
    shape = operands.operand_shape(a, "mean")
    if mask is not None:
        counted = mnp.broadcast_to(mask, shape.dimensions)
        return mnp.sum(counted, axis, kind, None, keepdims)
    return math.prod([shape.dimensions[each] for each in axes_of(axis, shape.rank, "mean")])


@family("a", "where")
def _mean(
    row: Row,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    name, _, filling = row
    operands.refuse_out(name, out)
    kind = operands.requested_type(dtype, name, inexact_type(kind_of(a, name)))
    work = operands.widened(kind) if dtype is None else kind
    mask = _present(a, where, name, filling is not None)
    count = _count(a, axis, keepdims, mask, work)
    total = mnp.sum(a, axis, work, None, keepdims, None, mask)
    return lifted(convert(operators.divide(total, count), kind))


mean = _mean("mean", "The mean over axes.")
nanmean = _mean("nanmean", "The mean over axes of what is not NaN.", None, 0)


@family("a", "where", "mean")
def _spread(
    row: Row,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Any:
    name, finish, filling = row
    operands.refuse_out(name, out)
    axes_of(axis, operands.operand_shape(a, name).rank, name)  # its errors name this function
    mask = _present(a, where, name, filling is not None)
    own = kind_of(a, name)
    wanted = operands.requested_type(dtype, name, inexact_type(own))
    work, kind = operands.widened(wanted), wanted.real if dtype is None else wanted
    if own.is_complex and not wanted.is_complex:
        problem = "the dtype for complex numbers is real"
        advice = "Leave dtype out, or give a complex one; the result is real."
        raise operands.value_error(name, problem, advice, dtype=dtype)
    # A number in place of NaN, so that no NaN comes back through the derivative.
    x = lifted(convert(operands.without_nan(a, name, filling), work))
    if mean is None:
        mean = mnp.mean(x, axis, work, None, True, mask)
    apart = operators.subtract(x, convert(mean, work))
    squares = mnp.square(mnp.real(apart))
    if work.is_complex:
        squares = squares + mnp.square(mnp.imag(apart))
    if correction is not None and ddof:
        problem, advice = "ddof and correction are both given", "They are names of one number."
        raise operands.value_error(name, problem, advice, ddof=ddof, correction=correction)
    less = ddof if correction is None else correction
    operands.operand_shape(less, name)  # refuses what is no number
    count = _count(a, axis, keepdims, mask, work.real) - less
    total = mnp.sum(squares, axis, work.real, None, keepdims, None, mask)
    result = convert(operators.divide(total, count), kind)
    if (is_positive := count > 0) is not True:
        result = mnp.where(is_positive, result, shorthand.full_like(result, math.nan))
    return finish(lifted(result))


var = _spread("var", "The mean over axes of |a - mean|**2, a real number.", lifted)
std = _spread("std", "The square root of `var`; its derivative at 0 is 0.", root)
nanvar = _spread("nanvar", "The variance over axes of what is not NaN.", lifted, 0)
nanstd = _spread("nanstd", "The square root of `nanvar`; its derivative at 0 is 0.", root, 0)


@one_program("a", "weights")
def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
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
        kind = kind_of(result)
        total = mnp.full((), _count(a, axis, keepdims, None, kind), kind)
    else:
        both = convert_all("average", [a, weights])
        a, weights = (inexact_operand(x, "average") for x in both)
        weights = operands.weights_for("average", a, weights, axis)
        total = mnp.sum(weights, axis, None, None, keepdims)
        result = mnp.sum(a * weights, axis, None, None, keepdims) / total
    if not returned:
        return result
    return result, mnp.broadcast_to(total, operands.operand_shape(result, "average").dimensions)


def _span(a: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return getitem(a, (*[slice(None)] * axis, slice(start, stop)))


@one_program("a", "prepend", "append")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The difference of each element and the one before, `n` times; of booleans if they differ.

    Args:
        a: an array.
        n: how often.
        axis: along which axis.
        prepend: what to put before `a` first; a scalar is repeated.
        append: what to put after it.

    Raises:
        AttributeValueError: `n` is negative.
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
    for _ in range(min(times, result.shape[place])):  # of no elements there are no differences
        result = function(_span(result, place, 1, None), _span(result, place, None, -1))
    return result


@one_program()
def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int | None = None) -> Any:
    """Central differences along axes, one-sided at the ends.

    Args:
        f: an array.
        varargs: nothing (1); or the distance of neighbours, or a vector of their places: one for
            all axes, or one for each.
        axis: an axis or several; None for all.
        edge_order: 1 (the default) or 2, the power of the distance that the error at the ends
            grows by.

    Returns:
        An array like `f`, or a list of one for each axis.

    Raises:
        AttributeValueError: an axis has no more elements than `edge_order`, or the distances do
            not fit.
    """
    together = convert_all("gradient", [f, *varargs])
    values, *given = (inexact_operand(x, "gradient") for x in together)
    axes = axes_of(axis, values.ndim, "gradient")
    distances = given * len(axes) if len(given) == 1 else given or [None] * len(axes)
    sizes = [values.shape[each] for each in axes]
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
        shown = {"axes": axes, "sizes": sizes, "varargs": varargs, "edge_order": edge_order}
        advice = "Axes need more elements than edge_order; give distances, or places of elements."
        raise operands.value_error("gradient", problem, advice, **shown)
    found = [_slopes(values, *each, order) for each in zip(axes, distances, strict=True)]
    return found[0] if len(found) == 1 else found


def _slopes(values: Any, axis: int, distance: Any, order: int) -> Any:
    """The derivative along an axis, at the ends by two values or by three."""
    steps: Any = 1 if distance is None else distance
    if operands.operand_shape(steps, "gradient").rank:
        others = [at for at in range(values.ndim) if at != axis]
        steps = mnp.expand_dims(diff(steps), others)
    secants = diff(values, axis=axis) / steps
    # How far each inner element is on the way between its neighbours.
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


@one_program("x", "xp", "fp", "left", "right", "period")
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Linear interpolation between points.

    Args:
        x: where values are wanted.
        xp: the points' places, an ascending vector.
        fp: the points' values.
        left: the value before the first point; default: the point's; "extrapolate" goes on with
            the line through the first two.
        right: the same after the last point.
        period: the period of `x`, in which `xp` need not ascend; it takes the place of left and
            right.

    Raises:
        ShapeError: `xp` and `fp` are not vectors of one size.
    """
    points = [operands.operand_shape(each, "interp") for each in (xp, fp)]
    if points[0].rank != 1 or points[0].dimensions != points[1].dimensions:
        problem, advice = "xp and fp are not vectors of one size", "Give a value for each place."
        given = [f"{name} {each}" for name, each in zip(("xp", "fp"), points, strict=True)]
        raise operands.shape_error("interp", problem, advice, *given)
    for each in (x, xp):
        refuse_complex("interp", kind_of(each))
    x, xp, fp = (inexact_operand(each, "interp") for each in (*convert_all("interp", [x, xp]), fp))
    if period is not None:
        period = mnp.absolute(convert(period, kind_of(xp)))
        x, xp = x % period, xp % period
        order = mnp.argsort(xp)
        xp, fp = mnp.take(xp, order, mode="clip"), mnp.take(fp, order, mode="clip")
        xp = mnp.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = mnp.concatenate([fp[-1:], fp, fp[:1]])
    upper = mnp.clip(mnp.searchsorted(xp, x, "right"), 1, xp.shape[0] - 1)
    x0, f0 = (mnp.take(each, upper - 1, 0, mode="clip") for each in (xp, fp))
    x1, f1 = (mnp.take(each, upper, 0, mode="clip") for each in (xp, fp))
    width = x1 - x0
    is_point = width == 0
    slope = (f1 - f0) / mnp.where(is_point, 1, width)
    # At a sample point the result is that sample, even if a neighbor is infinite.
    is_last, is_open = ~is_point & (x == x1), ~mnp.isfinite(slope)
    near, distance = mnp.where(is_last, f1, f0), x - mnp.where(is_last, x1, x0)
    is_alone = is_point | is_open & (distance == 0)
    result = near + mnp.where(is_alone, 0, distance) * mnp.where(is_alone, 0, slope)
    if left != "extrapolate":
        result = mnp.where(x < xp[0], fp[0] if left is None else left, result)
    if right == "extrapolate":
        return result
    return mnp.where(x > xp[-1], fp[-1] if right is None else right, result)
