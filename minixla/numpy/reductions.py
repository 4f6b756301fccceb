"""Functions that fold an array along axes, or run along one; `averages` has means and variances."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import numeric_type
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import family, transforms
from minixla.numpy.operands import Axis, as_bool, kind_of, lifted, operand_shape, refuse_out
from minixla_ops.elementwise.operators import convert
from minixla_ops.vocabulary import shorthand

_COMPUTATIONS: dict[str, Callable[..., Any]] = {"and": ops.and_, "or": ops.or_}
_COMPUTATIONS |= {"add": ops.add, "mul": ops.mul, "max": ops.max, "min": ops.min}
#: Of functions that are rows: the monoid, and what stands in place of NaN, if anything.
Row = tuple[str, float | None]


def _folded(
    name: str,
    monoid: str,
    a: Any,
    axis: Axis,
    keepdims: Any,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`a` folded by a monoid; `a` has the type to fold in."""
    shape = operand_shape(a, name)
    kind = shape.element_type
    axes = operands.axes_of(axis, shape.rank, name)
    start = operands.neutral(monoid, kind)
    if where is not None:
        a = mnp.where(operands.checked_mask(where, name), a, start)
    computation = _COMPUTATIONS[monoid]
    result = ops.reduce(a, start, computation, axes) if axes else lifted(a)
    if initial is not None:
        first = convert(initial, kind)
        if operand_shape(first, name).rank:
            raise explain(ShapeError, name, "initial is not a scalar", advice="Give one number.")
        first = mnp.broadcast_to(first, operand_shape(result, name).dimensions)
        result = computation(first, result)
    return mnp.expand_dims(result, axes) if keepdims and axes else result


@family(
    "a",
    "where",
    raises="AttributeValueError: an axis is out of range or named twice.",
    dtype="the type to sum in and return; default: that of `a`, integers at least the default.",
    initial="a number to begin with.",
)
def _total(
    name: str,
    row: Row,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    monoid, in_place_of_nan = row
    refuse_out(name, out)
    own = numeric_type(kind_of(a, name))
    kind = operands.sum_type(own) if promote_integers else own
    # f16 and bf16 are summed in f32, unless the user names a type.
    work = operands.widened(kind)
    if dtype is not None:
        kind = work = operands.requested_type(dtype, name)
        monoid = {"add": "or", "mul": "and"}[monoid] if kind.kind == "pred" else monoid
    x = operands.without_nan(a, name, in_place_of_nan)
    converted = as_bool(x, name) if kind.kind == "pred" else convert(x, work)
    return lifted(convert(_folded(name, monoid, converted, axis, keepdims, initial, where), kind))


sum = _total("sum", ("add", None), "The sum over axes.")
prod = _total("prod", ("mul", None), "The product over axes.")
nansum = _total("nansum", ("add", 0), "The sum over axes of what is not NaN.")
nanprod = _total("nanprod", ("mul", 1), "The product over axes of what is not NaN.")


@family(
    "a",
    "where",
    raises="AttributeValueError: there is no element, and no `initial`.",
    where="booleans that broadcast with `a`: which elements count; needs `initial`.",
)
def _extreme(
    name: str,
    row: Row,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    monoid, in_place_of_nan = row
    refuse_out(name, out)
    sizes = operand_shape(a, name).dimensions
    is_empty = 0 in [sizes[each] for each in operands.axes_of(axis, len(sizes), name)]
    if initial is None and (is_empty or where is not None):
        problem = f"there may be no element to take the {name} of"
        given = [f"the array has shape {sizes}", f"axis = {axis}"]
        advice = "Give initial, the result where there is none."
        raise explain(AttributeValueError, name, problem, given, advice)
    x = lifted(operands.without_nan(a, name, in_place_of_nan))
    found = _folded(name, monoid, x, axis, keepdims, initial, where)
    if in_place_of_nan is None or initial is not None or not kind_of(a).is_inexact:
        return found
    is_missing = all(mnp.isnan(a), axis, None, keepdims)
    return mnp.where(is_missing, shorthand.full_like(found, math.nan), found)


max = amax = _extreme("max", ("max", None), "The greatest element over axes, or NaN.")
min = amin = _extreme("min", ("min", None), "The least element over axes, or NaN.")
nanmax = _extreme("nanmax", ("max", -math.inf), "The greatest number over axes, else NaN.")
nanmin = _extreme("nanmin", ("min", math.inf), "The least number over axes, else NaN.")


@one_program("a")
def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The greatest minus the least element over axes."""
    refuse_out("ptp", out)
    return ops.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


@family("a", "where")
def _truth(
    name: str,
    monoid: str,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    refuse_out(name, out)
    return _folded(name, monoid, as_bool(a, name), axis, keepdims, where=where)


all = _truth("all", "and", "Whether all elements over axes are not zero.")
any = _truth("any", "or", "Whether any element over axes is not zero.")


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero."""
    return sum(as_bool(a, "count_nonzero"), axis, operands.default_int(), None, keepdims)


@family(
    "a",
    raises="AttributeValueError: the axis has size 0.",
    axis="the axis; None for the elements in row-major order.",
    keepdims="whether the axis stays, with size 1.",
)
def _index(
    name: str,
    row: Row,
    a: Any,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Any:
    """The first index of the extreme element, NaN being more extreme than all numbers.

    Two passes of vectorised reductions; XLA:CPU runs a Reduce of pairs element by element.
    """
    monoid, in_place_of_nan = row
    refuse_out(name, out)
    shape = operand_shape(a, name)
    x = operands.without_nan(a, name, in_place_of_nan)
    x, sizes, place = operands.along(transforms().stop_gradient(lifted(x)), axis, name)
    dropped = range(shape.rank) if axis is None else (place,)
    if sizes[place] == 0:
        problem, given = "there is no element", [f"the array has shape {shape.dimensions}"]
        raise explain(AttributeValueError, name, problem, given, "Check for size 0 first.")
    best = _folded(name, monoid, x, place, True)
    is_best = ops.eq(x, mnp.broadcast_to(best, sizes))
    if shape.element_type.is_inexact:
        is_best = ops.or_(is_best, ops.ne(x, x))
    positions = ops.iota(Shape(operands.default_int(), sizes), place)
    found = ops.select(is_best, positions, shorthand.full_like(positions, sizes[place] - 1))
    found = ops.reduce(found, operands.neutral("min", operands.default_int()), ops.min, [place])
    found = mnp.expand_dims(found, dropped) if keepdims else found
    if in_place_of_nan is None or not shape.element_type.is_inexact:
        return found
    is_missing = all(mnp.isnan(a), axis, None, bool(keepdims))
    return mnp.where(is_missing, shorthand.full_like(found, -1), found)


argmax = _index("argmax", ("max", None), "The first index of the greatest element, or of NaN.")
argmin = _index("argmin", ("min", None), "The first index of the least element, or of NaN.")
nanargmax = _index(
    "nanargmax", ("max", -math.inf), "The first index of the greatest number; -1 if all are NaN."
)
nanargmin = _index(
    "nanargmin", ("min", math.inf), "The first index of the least number; -1 if all are NaN."
)


# Running along an axis.

#: Running results of an array along an axis.
Run = Callable[[Any, int], Any]


def _window(x: Any, axis: int, monoid: str) -> Any:
    """Running results of a monoid as one ReduceWindow, which XLA turns into a tree."""
    shape = operand_shape(x, "cumulative")
    size = shape.dimensions[axis]
    window = [size if at == axis else 1 for at in range(shape.rank)]
    padding = [(size - 1, 0) if at == axis else (0, 0) for at in range(shape.rank)]
    start = operands.neutral(monoid, shape.element_type)
    return ops.reduce_window([x], [start], _COMPUTATIONS[monoid], window, [1] * shape.rank, padding)


def _cumulative(
    name: str, a: Any, axis: int | None, dtype: Any, run: Run, promote_integers: bool = False
) -> Any:
    own = kind_of(a, name)
    a, sizes, place = operands.along(mnp.atleast_1d(a), axis, name)
    default = operands.sum_type(own) if promote_integers or own.kind == "pred" else own
    kind = work = operands.requested_type(dtype, name, default)
    if kind.kind == "pred":
        a, work = as_bool(a, name), operands.sum_type(kind)
    a = lifted(convert(a, work))
    result = a if 0 in sizes else run(a, place)
    return lifted(as_bool(result, name) if kind.kind == "pred" else convert(result, kind))


_sum = partial(_window, monoid="add")


def _product(x: Any, axis: int) -> Any:
    is_inexact = kind_of(x).is_inexact
    return _differentiable_product()(x, axis) if is_inexact else _window(x, axis, "mul")


@cache
def _differentiable_product() -> Any:
    def rule(axis: int, primals: Any, tangents: Any) -> Any:
        scan = partial(transforms().associative_scan, _factors, axis=axis)
        return _product(primals[0], axis), transforms().jvp(scan, primals, tangents)[1]

    custom = transforms().custom_jvp(_products, nondiff_argnums=(1,))
    custom.defjvp(rule)
    return custom


_NONE, _ZERO, _INFINITE = map(np.uint8, (0, 1, 2))


def _products(x: Any, axis: int) -> Any:
    result = _window(x, axis, "mul")
    # Products of later factors may overflow; 0 times them is 0 where no factor is infinite or NaN.
    is_finite = mnp.isfinite(x)
    flags = ops.or_(mnp.where(x == 0, _ZERO, _NONE), mnp.where(is_finite, _NONE, _INFINITE))
    is_zero = _window(flags, axis, "or") == _ZERO
    return mnp.where(is_zero & mnp.isnan(result), 0, result)


def _factors(x: Any, y: Any) -> Any:
    """The product of x and y; beside 0 one that has overflowed counts as finite."""
    if kind_of(x).is_complex:
        return x * y
    most = float(ml_dtypes.finfo(kind_of(x).dtype).max)
    beside_y = ops.select(y == 0, mnp.clip(x, -most, most), x)
    return beside_y * ops.select(x == 0, mnp.clip(y, -most, most), y)


_RUNNING = {
    "axis": "the axis; None for the elements in row-major order.",
    "dtype": "the type to compute in and return; default: that of `a`.",
}


@family("a", **_RUNNING)
def _running(
    name: str,
    row: tuple[Run, int | None],
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: None = None,
) -> Any:
    refuse_out(name, out)
    run, in_place_of_nan = row
    return _cumulative(name, operands.without_nan(a, name, in_place_of_nan), axis, dtype, run)


cumsum = _running("cumsum", (_sum, None), "The running sum along an axis.")
cumprod = _running("cumprod", (_product, None), "The running product along an axis.")
nancumsum = _running("nancumsum", (_sum, 0), "The running sum of what is not NaN.")
nancumprod = _running("nancumprod", (_product, 1), "The running product of what is not NaN.")


@family("a", **_RUNNING)
def _running_extreme(name: str, monoid: str, a: Any, axis: int | None = None) -> Any:
    run = partial(transforms().associative_scan, _COMPUTATIONS[monoid])
    return _cumulative(name, a, axis, None, lambda x, axis: run(x, axis=axis))


cummax = _running_extreme("cummax", "max", "The greatest element so far along an axis.")
cummin = _running_extreme("cummin", "min", "The least element so far along an axis.")


@family(
    "x",
    x="an array.",
    axis="the axis, which only of a vector may be left out.",
    dtype="the type to compute in and return; default: that of `x`; of sums of integers at least "
    "the default one.",
    include_initial="whether the result of nothing comes first.",
)
def _running_from(
    name: str,
    row: tuple[Run, int],
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    run, initial = row
    rank = operand_shape(x, name).rank
    if rank == 0 or (axis is None and rank > 1):
        problem = f"axis is not given for an array of {rank} dimensions"
        advice = "Only for a vector may it be left out."
        raise explain(AttributeValueError, name, problem, advice=advice)
    result = _cumulative(name, x, axis, dtype, run, promote_integers=initial == 0)
    if include_initial:
        _, sizes, place = operands.along(result, axis, name)
        first = mnp.full(operands.resized(sizes, place, 1), initial, result.dtype)
        result = mnp.concatenate([first, result], place)
    return result


cumulative_sum = _running_from("cumulative_sum", (_sum, 0), "The array API's name of cumsum.")
cumulative_prod = _running_from("cumulative_prod", (_product, 1), "The array API's cumprod.")
