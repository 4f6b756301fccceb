"""Differences, integrals and interpolation along an axis, and polynomials."""

from __future__ import annotations

import math
from typing import Any

import minixla.numpy as mnp
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.numpy import operands
from minixla.numpy.indexing import getitem
from minixla.numpy.operands import Axis, convert_all, inexact_operand, lifted, operand_shape
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import convert
from minixla_ops.vocabulary import shorthand


def _span(a: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return getitem(a, (*[slice(None)] * axis, slice(start, stop)))


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
    shape = operand_shape(a, "diff")
    times = operands.static_size(n, "diff", "n")
    place = operands.axis_of(axis, shape.rank, "diff")
    edge = operands.resized(shape.dimensions, place, 1)
    parts = [
        mnp.broadcast_to(part, edge) if operand_shape(part, "diff").rank == 0 else part
        for part in (prepend, a, append)
        if part is not None
    ]
    result = mnp.concatenate(parts, place) if len(parts) > 1 else lifted(a)
    function = mnp.not_equal if operands.kind_of(result).kind == "pred" else operators.subtract
    for _ in range(min(times, result.shape[place])):  # of no elements there are no differences
        result = function(_span(result, place, 1, None), _span(result, place, None, -1))
    return result


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in row-major order, between two given ends of their type."""
    middle = diff(mnp.ravel(ary))
    given = [mnp.ravel(part) for part in (to_begin, middle, to_end) if part is not None]
    parts = [convert(part, operands.kind_of(middle)) for part in given]
    return mnp.concatenate(parts) if len(parts) > 1 else middle


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: the values.
        x: where they are: a vector, or an array like `y`; default: `dx` apart.
        dx: the distance.
        axis: the axis.
    """
    if x is not None:
        y, x = (inexact_operand(each, "trapezoid") for each in convert_all("trapezoid", [y, x]))
    values = mnp.moveaxis(inexact_operand(y, "trapezoid"), axis, -1)
    widths = dx if x is None else diff(mnp.moveaxis(x, axis if x.ndim > 1 else -1, -1))
    pairs = getitem(values, (..., slice(1, None))) + getitem(values, (..., slice(None, -1)))
    return mnp.sum(widths * pairs, -1) * 0.5


def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """Central differences along axes, one-sided at the ends.

    Args:
        f: an array.
        varargs: the distance of neighbours: none (1), one number, or one for each axis.
        axis: an axis or several; None for all.
        edge_order: only 1.

    Returns:
        An array like `f`, or a list of one for each axis.

    Raises:
        AttributeValueError: an axis has fewer than two elements, or the distances are not numbers.
    """
    values = inexact_operand(convert_all("gradient", [f, *varargs])[0], "gradient")
    axes = operands.axes_of(axis, values.ndim, "gradient")
    distances = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    sizes = [values.shape[each] for each in axes]
    is_scalar = all(operand_shape(each, "gradient").rank == 0 for each in distances)
    if edge_order != 1 or len(distances) != len(axes) or not is_scalar or min(sizes, default=2) < 2:
        problem = "the arguments do not fit the array"
        given = [f"axes {axes} of sizes {sizes}", f"{len(varargs)} distances"]
        given += [f"edge_order {edge_order}"]
        advice = "Axes need two elements or more; give one distance, or one for each axis."
        raise explain(AttributeValueError, "gradient", problem, given, advice)
    found = []
    for each, distance in zip(axes, distances, strict=True):
        steps = diff(values, axis=each)
        first, last = _span(steps, each, 0, 1), _span(steps, each, -1, None)
        inside = (_span(values, each, 2, None) - _span(values, each, None, -2)) * 0.5
        found.append(mnp.concatenate([first, inside, last], each) / distance)
    return found[0] if len(found) == 1 else found


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Linear interpolation between points.

    Args:
        x: where values are wanted.
        xp: the points' places, an ascending vector.
        fp: the points' values.
        left: the value before the first point; default: the point's.
        right: the value after the last point; default: the point's.
        period: not supported.

    Raises:
        ShapeError: `xp` and `fp` are not vectors of one size.
        AttributeValueError: `period` is given.
    """
    points = [operand_shape(each, "interp") for each in (xp, fp)]
    if points[0].rank != 1 or points[0].dimensions != points[1].dimensions:
        problem = "xp and fp are not vectors of one size"
        advice = "Give a value for each place."
        raise explain(ShapeError, "interp", problem, [f"xp {points[0]}", f"fp {points[1]}"], advice)
    if period is not None:
        advice = "Take x modulo the period, and repeat a point at each end."
        raise explain(AttributeValueError, "interp", "period is not supported", advice=advice)
    x, xp, fp = (inexact_operand(each, "interp") for each in (*convert_all("interp", [x, xp]), fp))
    upper = mnp.clip(mnp.searchsorted(xp, x, "right"), 1, points[0].size - 1)
    x0, x1, f0, f1 = (
        mnp.take(each, at, 0, mode="clip") for each in (xp, fp) for at in (upper - 1, upper)
    )
    width = x1 - x0
    is_point = width == 0
    slope = (f1 - f0) / mnp.where(is_point, 1, width)
    result = mnp.where(is_point, f0, f0 + (x - x0) * slope)
    result = mnp.where(x < xp[0], fp[0] if left is None else left, result)
    return mnp.where(x > xp[-1], fp[-1] if right is None else right, result)


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """Angles with multiples of the period added so that neighbours are less than half apart.

    Integers with a whole period stay integers.
    """
    angles, period = map(lifted, convert_all("unwrap", [p, period]))
    place = operands.axis_of(axis, angles.ndim, "unwrap")
    step = diff(angles, axis=place)
    half = period / 2 if operands.kind_of(angles).is_inexact else period // 2
    small = mnp.mod(step + half, period) - half
    small = mnp.where((small == -half) & (step > 0), half, small)
    near = mnp.absolute(step) < (period / 2 if discont is None else discont)
    change = mnp.where(near, 0, small - step)
    first = _span(angles, place, 0, 1)
    rest = _span(angles, place, 1, None) + mnp.cumsum(change, place)
    return mnp.concatenate([first, rest], place)


def polyval(p: Any, x: Any) -> Any:
    """The value at `x` of the polynomial with coefficients `p`, the highest power first."""
    first, *rest = mnp.unstack(p) or [0]
    result = first + operands.keep_weak(shorthand.zeros(operand_shape(x, "polyval")), x)
    for each in rest:
        result = result * x + each
    return result
