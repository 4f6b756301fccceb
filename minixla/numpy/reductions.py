"""Functions that fold an array along axes, or run along one; means are in `statistics`."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, family, mended, transforms, with_rule
from minixla.numpy.operands import Axis, convert, kind_of, lifted, operand_shape, refuse_out
from minixla_ops.elementwise.promotion import numeric_type
from minixla_ops.helpers import shorthand
from minixla_ops.programs.computations import neutral_element

_COMPUTATIONS: dict[str, Callable[..., Any]] = {"and": ops.and_, "or": ops.or_}
_COMPUTATIONS |= {"add": ops.add, "mul": ops.mul, "max": ops.max, "min": ops.min}


def _folded(
    row: Row, a: Any, axis: Axis, keepdims: Any, initial: Any = None, where: Any = None
) -> Any:
    """`a` folded by a monoid; `a` has the type to fold in."""
    name, monoid, _ = row
    shape = operand_shape(a, name)
    kind = shape.element_type
    axes = operands.axes_of(axis, shape.rank, name)
    start = neutral_element(monoid, kind)
    if where is not None:
        a = mnp.where(operands.checked_mask(where, name), a, start)
    computation = _COMPUTATIONS[monoid]
    result = ops.reduce(a, start, computation, axes) if axes else lifted(a)
    if initial is not None:
        first = convert(initial, kind)
        if operand_shape(first, name).rank:
            raise operands.shape_error(name, "initial is not a scalar", "Give one number.")
        first = mnp.broadcast_to(first, operand_shape(result, name).dimensions)
        result = computation(first, result)
    return mnp.expand_dims(result, axes) if keepdims and axes else result


@family("a", "where")
def _total(
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
    name, monoid, filling = row
    refuse_out(name, out)
    own = numeric_type(kind_of(a, name))
    kind = operands.sum_type(own) if promote_integers else own
    # f16 and bf16 are summed in f32, unless the user names a type.
    work = operands.widened(kind)
    if dtype is not None:
        kind = work = operands.requested_type(dtype, name)
        monoid = {"add": "or", "mul": "and"}[monoid] if kind.kind == "pred" else monoid
    x = operands.without_nan(a, name, filling)
    x = operands.as_bool(x, name) if kind.kind == "pred" else convert(x, work)
    return lifted(convert(_folded(Row(name, monoid), x, axis, keepdims, initial, where), kind))


sum = _total("sum", "The sum over axes.", "add")
prod = _total("prod", "The product over axes.", "mul")
nansum = _total("nansum", "The sum over axes of what is not NaN.", "add", 0)
nanprod = _total("nanprod", "The product over axes of what is not NaN.", "mul", 1)


@family("a", "where")
def _extreme(
    row: Row,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    name, _, filling = row
    refuse_out(name, out)
    sizes = operand_shape(a, name).dimensions
    is_empty = 0 in [sizes[each] for each in operands.axes_of(axis, len(sizes), name)]
    if initial is None and (is_empty or where is not None):
        problem = f"there may be no element to take the {name} of"
        given, advice = f"the array has shape {sizes}", "Give initial, the result of none."
        raise operands.value_error(name, problem, advice, given, axis=axis)
    x = lifted(operands.without_nan(a, name, filling))
    found = _folded(row, x, axis, keepdims, initial, where)
    return found if initial is not None else _or_missing(row, found, math.nan, a, axis, keepdims)


def _or_missing(row: Row, found: Any, missing: float, a: Any, axis: Axis, keepdims: Any) -> Any:
    """What was found, but `missing` where all of `a` is NaN, which does not count."""
    if row.filling is None or not kind_of(a).is_inexact:
        return found
    is_missing = all(mnp.isnan(a), axis, None, bool(keepdims))
    return mnp.where(is_missing, shorthand.full_like(found, missing), found)


max = amax = _extreme("max", "The greatest element over axes, or NaN.", "max")
min = amin = _extreme("min", "The least element over axes, or NaN.", "min")
nanmax = _extreme("nanmax", "The greatest number over axes, else NaN.", "max", -math.inf)
nanmin = _extreme("nanmin", "The least number over axes, else NaN.", "min", math.inf)


@one_program("a")
def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The greatest minus the least element over axes."""
    refuse_out("ptp", out)
    return ops.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


@family("a", "where")
def _truth(
    row: Row,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    refuse_out(row.name, out)
    return _folded(row, operands.as_bool(a, row.name), axis, keepdims, where=where)


all = _truth("all", "Whether all elements over axes are not zero.", "and")
any = _truth("any", "Whether any element over axes is not zero.", "or")


@one_program("a")
def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero."""
    return sum(operands.as_bool(a, "count_nonzero"), axis, operands.default_int(), None, keepdims)


@family("a")
def _index(
    row: Row, a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The first index of the extreme element, NaN being more extreme than all numbers.

    Two passes of vectorised reductions: XLA:CPU runs a Reduce of pairs element by element, but of
    a few pairs, which it writes out.
    """
    name, monoid, filling = row
    refuse_out(name, out)
    shape = operand_shape(a, name)
    x = operands.without_nan(a, name, filling)
    x, sizes, place = operands.along(transforms().stop_gradient(lifted(x)), axis, name)
    dropped = range(shape.rank) if axis is None else (place,)
    if sizes[place] == 0:
        given = f"the array has shape {shape.dimensions}"
        raise operands.value_error(name, "there is no element", "Check for size 0 first.", given)
    positions = ops.iota(Shape(operands.default_int(), sizes), place)
    kind = shape.element_type
    if sizes[place] <= _FEW and kind.bits >= 16 and not kind.is_complex:
        starts = neutral_element(monoid, kind), positions.dtype.type(0)
        computation = _first_greatest if monoid == "max" else _first_least
        found = ops.reduce([x, positions], starts, computation, [place])[1]
    else:
        best = _folded(row, x, place, True)
        is_best = ops.eq(x, mnp.broadcast_to(best, sizes))
        if kind.is_inexact:
            is_best = ops.or_(is_best, ops.ne(x, x))
        found = ops.select(is_best, positions, shorthand.full_like(positions, sizes[place] - 1))
        found = ops.reduce(found, neutral_element("min", operands.default_int()), ops.min, [place])
    found = mnp.expand_dims(found, dropped) if keepdims else found
    return _or_missing(row, found, -1, a, axis, keepdims)


# As many elements are reduced in pairs at most.
_FEW = 16


def _first(is_before: Any, x: Any, at: Any, y: Any, place: Any) -> tuple[Any, Any]:
    """The pair whose number comes first: NaN, else one `is_before` the other, else by position."""
    is_earlier, is_nan = ops.lt(at, place), ops.ne(x, x)
    is_first = ops.or_(is_before(x, y), ops.or_(is_nan, ops.and_(ops.eq(x, y), is_earlier)))
    is_first = ops.select(ops.ne(y, y), ops.and_(is_nan, is_earlier), is_first)
    return ops.select(is_first, x, y), ops.select(is_first, at, place)


_first_least, _first_greatest = partial(_first, ops.lt), partial(_first, ops.gt)


argmax = _index("argmax", "The first index of the greatest element, or of NaN.", "max")
argmin = _index("argmin", "The first index of the least element, or of NaN.", "min")
nanargmax = _index("nanargmax", "The first index of the greatest number, or -1.", "max", -math.inf)
nanargmin = _index("nanargmin", "The first index of the least number, or -1.", "min", math.inf)


# Running along an axis.


def _window(x: Any, axis: int, monoid: str) -> Any:
    """Running results of a monoid as one ReduceWindow, which XLA turns into a tree."""
    shape = operand_shape(x, "cumulative")
    size = shape.dimensions[axis]
    window = [size if at == axis else 1 for at in range(shape.rank)]
    padding = [(size - 1, 0) if at == axis else (0, 0) for at in range(shape.rank)]
    start = neutral_element(monoid, shape.element_type)
    return ops.reduce_window([x], [start], _COMPUTATIONS[monoid], window, [1] * shape.rank, padding)


def _cumulative(row: Row, a: Any, axis: int | None, dtype: Any, widens: bool = False) -> Any:
    """Running results; `row.fold` makes them of an array and its axis."""
    name, run, _ = row
    own = kind_of(a, name)
    a, sizes, place = operands.along(mnp.atleast_1d(a), axis, name)
    default = operands.sum_type(own) if widens or own.kind == "pred" else own
    kind = operands.requested_type(dtype, name, default)
    if kind.kind == "pred":
        counted = _cumulative(row, operands.as_bool(a, name), place, None)
        return operands.as_bool(counted, name)
    a = lifted(convert(a, kind))
    return a if 0 in sizes else run(a, place)


_sum = partial(_window, monoid="add")


def _product(x: Any, axis: int) -> Any:
    if not kind_of(x).is_inexact:
        return _window(x, axis, "mul")
    return with_rule(_products, _rule_of_products, (1,))(x, axis)


def _rule_of_products(axis: int, primals: Any, tangents: Any) -> Any:
    scan = partial(transforms().associative_scan, _factors, axis=axis)
    return _product(primals[0], axis), transforms().jvp(scan, primals, tangents)[1]


def _products(x: Any, axis: int) -> Any:
    if x.shape[axis] <= 64:
        return _products_in_order(x, axis)
    if x.size <= 2000 or axis < x.ndim - 1:  # a branch takes longer
        return _window(_until_zero(x, axis), axis, "mul")
    result = _window(x, axis, "mul")
    return mended(result, mnp.isnan(result), lambda: _window(_until_zero(x, axis), axis, "mul"))


def _products_in_order(x: Any, axis: int) -> Any:
    """Running products one by one, as XLA multiplies in a window of up to 16."""
    first, *others = mnp.split(x, range(16, x.shape[axis], 16), axis)
    found = [_window(first, axis, "mul")]
    for each in others:
        last = ops.slice_in_dim(found[-1], 15, 16, axis)
        first, following = mnp.split(each, [1], axis)
        each = mnp.concatenate([last * first, following], axis)
        found.append(_window(each, axis, "mul"))
    return mnp.concatenate(found, axis)


def _until_zero(x: Any, axis: int) -> Any:
    """x, but 0 times what follows a zero: products of later factors alone may overflow."""
    at = ops.iota(Shape(operands.default_int(), x.shape), axis)
    first = mnp.min(mnp.where(x == 0, at, x.shape[axis]), axis, keepdims=True)
    return mnp.where(at >= first, x * 0, x)


def _factors(x: Any, y: Any) -> Any:
    """The product of x and y; beside 0 one that has overflowed counts as finite."""
    if kind_of(x).is_complex:
        return x * y
    most = float(mnp.finfo(kind_of(x).dtype).max)
    beside_y = ops.select(y == 0, mnp.clip(x, -most, most), x)
    return beside_y * ops.select(x == 0, mnp.clip(y, -most, most), y)


@family("a")
def _running(row: Row, a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    refuse_out(row.name, out)
    return _cumulative(row, operands.without_nan(a, row.name, row.filling), axis, dtype)


cumsum = _running("cumsum", "The running sum along an axis.", _sum)
cumprod = _running("cumprod", "The running product along an axis.", _product)
nancumsum = _running("nancumsum", "The running sum of what is not NaN.", _sum, 0)
nancumprod = _running("nancumprod", "The running product of what is not NaN.", _product, 1)


@family("a")
def _running_extreme(row: Row, a: Any, axis: int | None = None) -> Any:
    run = partial(transforms().associative_scan, _COMPUTATIONS[row.fold])
    return _cumulative(Row(row.name, lambda x, axis: run(x, axis=axis)), a, axis, None)


cummax = _running_extreme("cummax", "The greatest element so far along an axis.", "max")
cummin = _running_extreme("cummin", "The least element so far along an axis.", "min")


@family("x")
def _running_from(
    row: Row,
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    name, _, initial = row
    rank = operand_shape(x, name).rank
    if rank == 0 or (axis is None and rank > 1):
        problem = f"axis is not given for an array of {rank} dimensions"
        raise operands.value_error(name, problem, "Only for a vector may it be left out.")
    result = _cumulative(row, x, axis, dtype, initial == 0)
    if include_initial:
        _, sizes, place = operands.along(result, axis, name)
        first = mnp.full(operands.resized(sizes, place, 1), initial, result.dtype)
        result = mnp.concatenate([first, result], place)
    return result


cumulative_sum = _running_from("cumulative_sum", "The array API's name of cumsum.", _sum, 0)
cumulative_prod = _running_from("cumulative_prod", "The array API's cumprod.", _product, 1)
