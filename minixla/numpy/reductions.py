"""Functions that fold an array along axes, or run along one; means are in `statistics`."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, mended, transforms, with_rule
from minixla.numpy.operands import Axis, convert, kind_of, lifted, operand_shape, refuse_out
from minixla.numpy.shared_sections import PARAMETERS, REDUCED
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.promotion import numeric_type
from minixla_ops.helpers import shorthand
from minixla_ops.programs.computations import neutral_element

_TOTAL = """
Args:
    dtype: the type to compute in and return; default: that of `a`, widened to the default integer
        type.
    initial: a scalar to start with.
"""
_EXTREME = """
Args:
    where: booleans that broadcast with `a`: which elements count; requires `initial`.

Raises:
    AttributeValueError: there may be no elements and `initial` is missing, or an axis is out of
        range.
"""
_BOOLEANS = """
Returns:
    Booleans with the shape of `a` without the axes, or with size 1 there if `keepdims`.
"""
_INTEGERS = """
Returns:
    Integers of the default type, with the shape of `a` without the axes, or with size 1 there if
    `keepdims`.
"""
_ALONG_AXIS = """
Args:
    axis: the axis; None for the elements in row-major order.
    dtype: the type to compute in and return; default: that of `a`.
    keepdims: whether the axis stays, with size 1.

Returns:
    An array with the shape of `a`, or a vector if `axis` is None.

Raises:
    AttributeValueError: the axis is out of range.
"""
_NOT_EMPTY = """
Raises:
    AttributeValueError: the axis is out of range or has size 0.
"""
_CUMULATIVE = """
Args:
    axis: the axis, which is optional for vectors.
    dtype: the type to compute in and return; default: that of `x`; sums widen integers to the
        default type.
    include_initial: whether the result of no elements comes first.

Returns:
    An array with the shape of `x`, longer by one along the axis if `include_initial`.

Raises:
    AttributeValueError: `axis` is missing for an array that is not a vector, or out of range.
"""
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


def _total(
    row: Row,
    a: Any,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Array:
    name, monoid, filling = row
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


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _TOTAL)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum elements over axes.

    Example:
        >>> np.sum(np.array([[1, 2], [3, 4]]), axis=0)
        Array([4, 6], dtype=int32)
    """
    refuse_out("sum", out)
    return _total(Row("sum", "add"), a, axis, dtype, keepdims, initial, where, promote_integers)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _TOTAL)
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Multiply elements over axes.

    Example:
        >>> np.prod(np.array([1.5, 4.0]))
        Array(6., dtype=float32)
    """
    refuse_out("prod", out)
    return _total(Row("prod", "mul"), a, axis, dtype, keepdims, initial, where, promote_integers)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _TOTAL)
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum elements over axes, ignoring NaN.

    Example:
        >>> np.nansum(np.array([1.0, np.nan, 2.0]))
        Array(3., dtype=float32)
    """
    refuse_out("nansum", out)
    return _total(
        Row("nansum", "add", 0), a, axis, dtype, keepdims, initial, where, promote_integers
    )


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _TOTAL)
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Multiply elements over axes, ignoring NaN.

    Example:
        >>> np.nanprod(np.array([3.0, np.nan, 2.0]))
        Array(6., dtype=float32)
    """
    refuse_out("nanprod", out)
    return _total(
        Row("nanprod", "mul", 1), a, axis, dtype, keepdims, initial, where, promote_integers
    )


def _extreme(row: Row, a: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Array:
    name, _, filling = row
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


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _EXTREME)
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over axes; NaN if an element is NaN.

    Example:
        >>> np.max(np.array([[1, 5], [7, 2]]), axis=1)
        Array([5, 7], dtype=int32)
    """
    refuse_out("max", out)
    return _extreme(Row("max", "max"), a, axis, keepdims, initial, where)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _EXTREME)
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the minimum over axes; NaN if an element is NaN.

    Example:
        >>> np.min(np.array([[1, 5], [7, 2]]), axis=1, keepdims=True)
        Array([[1],
               [2]], dtype=int32)
    """
    refuse_out("min", out)
    return _extreme(Row("min", "min"), a, axis, keepdims, initial, where)


amax, amin = max, min


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _EXTREME)
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over axes, ignoring NaN; NaN if all elements are NaN.

    Example:
        >>> np.nanmax(np.array([1.0, np.nan]))
        Array(1., dtype=float32)
    """
    refuse_out("nanmax", out)
    return _extreme(Row("nanmax", "max", -math.inf), a, axis, keepdims, initial, where)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _EXTREME)
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the minimum over axes, ignoring NaN; NaN if all elements are NaN.

    Example:
        >>> np.nanmin(np.array([1.0, np.nan]))
        Array(1., dtype=float32)
    """
    refuse_out("nanmin", out)
    return _extreme(Row("nanmin", "min", math.inf), a, axis, keepdims, initial, where)


@one_program("a")
@documented(PARAMETERS, REDUCED)
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the maximum minus the minimum over axes.

    Raises:
        AttributeValueError: there are no elements, or an axis is out of range.
        ShapeError: `a` contains booleans.

    Example:
        >>> np.ptp(np.array([3, 1, 7]))
        Array(6, dtype=int32)
    """
    refuse_out("ptp", out)
    return ops.sub(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


def _truth(row: Row, a: Any, axis: Axis, keepdims: bool, where: Any) -> Array:
    return _folded(row, operands.as_bool(a, row.name), axis, keepdims, where=where)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _BOOLEANS)
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Test whether all elements along axes are nonzero.

    Example:
        >>> np.all(np.array([[1, 0], [2, 3]]), axis=1)
        Array([False,  True], dtype=bool)
    """
    refuse_out("all", out)
    return _truth(Row("all", "and"), a, axis, keepdims, where)


@one_program("a", "where")
@documented(PARAMETERS, REDUCED, _BOOLEANS)
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Test whether any element along axes is nonzero.

    Example:
        >>> np.any(np.array([0, 0, 4]))
        Array(True, dtype=bool)
    """
    refuse_out("any", out)
    return _truth(Row("any", "or"), a, axis, keepdims, where)


@one_program("a")
@documented(PARAMETERS, REDUCED, _INTEGERS)
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count nonzero elements along axes.

    Example:
        >>> np.count_nonzero(np.array([0.0, 1.0, np.nan]))
        Array(2, dtype=int32)
    """
    return sum(operands.as_bool(a, "count_nonzero"), axis, operands.default_int(), None, keepdims)


def _index(row: Row, a: Any, axis: int | None, keepdims: bool | None) -> Array:
    """Return the first index of the min or max; NaN wins over all numbers.

    Two passes of vectorised reductions: XLA:CPU runs a Reduce of pairs element by element, but of
    a few pairs, which it writes out.
    """
    name, monoid, filling = row
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


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the first index of the maximum, or of NaN.

    Example:
        >>> np.argmax(np.array([1, 7, 7]))
        Array(1, dtype=int32)
    """
    refuse_out("argmax", out)
    return _index(Row("argmax", "max"), a, axis, keepdims)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the first index of the minimum, or of NaN.

    Example:
        >>> np.argmin(np.array([[3, 1], [0, 2]]), axis=1)
        Array([1, 0], dtype=int32)
    """
    refuse_out("argmin", out)
    return _index(Row("argmin", "min"), a, axis, keepdims)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the first index of the maximum, ignoring NaN; -1 if all are NaN.

    Example:
        >>> np.nanargmax(np.array([1.0, np.nan, 2.0]))
        Array(2, dtype=int32)
    """
    refuse_out("nanargmax", out)
    return _index(Row("nanargmax", "max", -math.inf), a, axis, keepdims)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the first index of the minimum, ignoring NaN; -1 if all are NaN.

    Example:
        >>> np.nanargmin(np.array([np.nan, 1.0, 2.0]))
        Array(1, dtype=int32)
    """
    refuse_out("nanargmin", out)
    return _index(Row("nanargmin", "min", math.inf), a, axis, keepdims)


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


def _running(row: Row, a: Any, axis: int | None, dtype: Any) -> Array:
    return _cumulative(row, operands.without_nan(a, row.name, row.filling), axis, dtype)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative sum along an axis.

    Example:
        >>> np.cumsum(np.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
    """
    refuse_out("cumsum", out)
    return _running(Row("cumsum", _sum), a, axis, dtype)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative product along an axis.

    Example:
        >>> np.cumprod(np.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    refuse_out("cumprod", out)
    return _running(Row("cumprod", _product), a, axis, dtype)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative sum along an axis, ignoring NaN.

    Example:
        >>> np.nancumsum(np.array([1.0, np.nan, 3.0]))
        Array([1., 1., 4.], dtype=float32)
    """
    refuse_out("nancumsum", out)
    return _running(Row("nancumsum", _sum, 0), a, axis, dtype)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative product along an axis, ignoring NaN.

    Example:
        >>> np.nancumprod(np.array([2.0, np.nan, 3.0]))
        Array([2., 2., 6.], dtype=float32)
    """
    refuse_out("nancumprod", out)
    return _running(Row("nancumprod", _product, 1), a, axis, dtype)


def _running_extreme(row: Row, a: Any, axis: int | None) -> Array:
    run = partial(transforms().associative_scan, _COMPUTATIONS[row.fold])
    return _cumulative(Row(row.name, lambda x, axis: run(x, axis=axis)), a, axis, None)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def cummax(a: ArrayLike, axis: int | None = None) -> Array:
    """Return the cumulative maximum along an axis.

    Example:
        >>> np.cummax(np.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
    return _running_extreme(Row("cummax", "max"), a, axis)


@one_program("a")
@documented(PARAMETERS, _ALONG_AXIS)
def cummin(a: ArrayLike, axis: int | None = None) -> Array:
    """Return the cumulative minimum along an axis.

    Example:
        >>> np.cummin(np.array([3, 1, 2]))
        Array([3, 1, 1], dtype=int32)
    """
    return _running_extreme(Row("cummin", "min"), a, axis)


def _running_from(row: Row, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Array:
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


@one_program("x")
@documented(PARAMETERS, _CUMULATIVE)
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Return the cumulative sum along an axis, as in the array API.

    Example:
        >>> np.cumulative_sum(np.array([1, 2, 3]), include_initial=True)
        Array([0, 1, 3, 6], dtype=int32)
    """
    return _running_from(Row("cumulative_sum", _sum, 0), x, axis, dtype, include_initial)


@one_program("x")
@documented(PARAMETERS, _CUMULATIVE)
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Return the cumulative product along an axis, as in the array API.

    Example:
        >>> np.cumulative_prod(np.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    return _running_from(Row("cumulative_prod", _product, 1), x, axis, dtype, include_initial)
