"""Means, variances and standard deviations."""

from __future__ import annotations

import functools
import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ElementType
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import inexact_type
from minixla.core.shapes import Shape
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, family, root
from minixla.numpy.operands import Axis, axes_of, checked_mask, kind_of, lifted, refuse_out, widened
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import convert
from minixla_ops.vocabulary import shorthand


def _present(a: Any, where: Any, subject: str, skips_nan: bool) -> Any:
    """Which elements count; None stands for all."""
    mask = checked_mask(where, subject)
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


@family("a", "where", dtype="the type to sum in and return; default: that of `a`, at least float.")
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
    refuse_out(name, out)
    kind = operands.requested_type(dtype, name, inexact_type(kind_of(a, name)))
    work = widened(kind) if dtype is None else kind
    mask = _present(a, where, name, filling is not None)
    count = _count(a, axis, keepdims, mask, work)
    total = mnp.sum(a, axis, work, None, keepdims, None, mask)
    return lifted(convert(operators.divide(total, count), kind))


mean = _mean("mean", "The mean over axes.")
nanmean = _mean("nanmean", "The mean over axes of what is not NaN.", None, 0)


def _computation_types(own: ElementType, dtype: Any, name: str) -> tuple[ElementType, ElementType]:
    """The type to compute a variance in, and its own."""
    if dtype is None:
        kind = inexact_type(own)
        return widened(kind), kind.real
    kind = operands.requested_type(dtype, name)
    if own.is_complex and not kind.is_complex:
        problem = "the dtype for complex numbers is real"
        advice = "Leave dtype out, or give a complex one; the result is real."
        raise explain(AttributeValueError, name, problem, [f"dtype = {dtype}"], advice)
    return widened(kind), kind


@family(
    "a",
    "where",
    "mean",
    dtype="the type to compute in; default: that of `a`, at least float.",
    ddof="a number to subtract from the count that the sum is divided by; where the count is not "
    "positive the result is NaN.",
    mean="the mean, with the axes kept, where it is known.",
    correction="another name of `ddof`.",
)
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
    refuse_out(name, out)
    axes_of(axis, operands.operand_shape(a, name).rank, name)  # its errors name this function
    mask = _present(a, where, name, filling is not None)
    work, kind = _computation_types(kind_of(a, name), dtype, name)
    # A number in place of NaN, so that no NaN comes back through the derivative.
    x = lifted(convert(operands.without_nan(a, name, filling), work))
    if mean is None:
        mean = mnp.mean(x, axis, work, None, True, mask)
    apart = operators.subtract(x, convert(mean, work))
    parts = [ops.real(apart), ops.imag(apart)] if work.is_complex else [apart]
    squares = functools.reduce(operators.add, [part * part for part in parts])
    if correction is not None and ddof:
        problem = "ddof and correction are both given"
        given = [f"ddof = {ddof}", f"correction = {correction}"]
        advice = "They are two names of one number."
        raise explain(AttributeValueError, name, problem, given, advice)
    less = ddof if correction is None else correction
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
        result = mean(operands.inexact_operand(a, "average"), axis, None, None, keepdims)
        kind = kind_of(result)
        total = lifted(shorthand.splat(_count(a, axis, keepdims, None, kind), Shape(kind)))
    else:
        both = operands.convert_all("average", [a, weights])
        a, weights = (operands.inexact_operand(x, "average") for x in both)
        weights = _aligned_weights(a, weights, axis)
        total = mnp.sum(weights, axis, None, None, keepdims)
        result = mnp.sum(a * weights, axis, None, None, keepdims) / total
    if not returned:
        return result
    return result, mnp.broadcast_to(total, operands.operand_shape(result, "average").dimensions)


def _aligned_weights(a: Any, weights: Any, axis: Axis) -> Any:
    sizes, given = a.shape, weights.shape
    if sizes == given:
        return weights
    axes = axes_of(axis, len(sizes), "average")
    if axis is None or given != tuple([sizes[each] for each in axes]):
        problem = "the weights do not fit the array"
        shapes = [f"a has shape {sizes}", f"weights have shape {given}", f"axis = {axis}"]
        advice = "Weights have the shape of a, or of the axes that are averaged."
        raise explain(ShapeError, "average", problem, shapes, advice)
    order = sorted(range(len(axes)), key=lambda at: axes[at])
    kept = [size if at in axes else 1 for at, size in enumerate(sizes)]
    return mnp.reshape(mnp.transpose(weights, order), kept)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None
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
    given = [m] if y is None else [m, y]
    kind = inexact_type(operands.common_type("cov", *given))
    rows = []
    for each in given:
        problem = f"the array has {operands.operand_shape(each, 'cov').rank} dimensions"
        shape = operands.shape_of_rank(each, range(3), "cov", "Give two or fewer.", problem)
        is_turned = not rowvar and shape.rank == 2 and shape.dimensions[0] != 1
        x = mnp.atleast_2d(convert(each, kind))
        rows.append(mnp.transpose(x) if is_turned else x)
    data = mnp.concatenate(rows, 0)
    correction = (0 if bias else 1) if ddof is None else ddof
    centered = data - mean(data, 1, None, None, True)
    product = mnp.matmul(centered, mnp.conjugate(mnp.transpose(centered)))
    return mnp.squeeze(product / (data.shape[1] - correction))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The matrix of correlation coefficients; arguments as for `cov`."""
    covariance = cov(x, y, rowvar)
    if covariance.ndim == 0:
        return covariance / covariance
    deviations = ops.sqrt(mnp.real(mnp.diagonal(covariance)))
    return covariance / mnp.expand_dims(deviations, 1) / mnp.expand_dims(deviations, 0)
