"""Cumulative sums, products, minima and maxima along an axis."""

from functools import partial
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, mended, transforms, with_rule
from minixla.numpy.operands import convert, kind_of, lifted, operand_shape, refuse_out
from minixla.numpy.reductions import ALONG_AXIS, COMPUTATIONS
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.programs.computations import neutral_element

_CUMULATIVE = """
Args:
    axis: the axis, which is optional for vectors.
    dtype: the type to compute in and return; default: that of `x`; sums widen integers to the
        default type.
    include_initial: whether the result starts with that of no elements (0, or 1 for products).

Returns:
    An array with the shape of `x`, longer by one along the axis if `include_initial`.

Raises:
    AttributeValueError: `axis` is missing for an array that is not a vector, or out of range.
"""


def _window(x: Any, axis: int, monoid: str) -> Any:
    """Compute running results of a monoid by one ReduceWindow, which XLA turns into a tree."""
    shape = operand_shape(x, "cumulative")
    size = shape.dimensions[axis]
    window = [size if at == axis else 1 for at in range(shape.rank)]
    padding = [(size - 1, 0) if at == axis else (0, 0) for at in range(shape.rank)]
    start = neutral_element(monoid, shape.element_type)
    return ops.reduce_window([x], [start], COMPUTATIONS[monoid], window, [1] * shape.rank, padding)


def _cumulative(row: Row, a: Any, axis: int | None, dtype: Any, widens: bool = False) -> Any:
    """Compute running results; `row.fold` computes them from an array and its axis."""
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
    if x.size <= 2000 or axis < x.ndim - 1:  # a branch would take longer
        return _window(_until_zero(x, axis), axis, "mul")
    result = _window(x, axis, "mul")
    return mended(result, mnp.isnan(result), lambda: _window(_until_zero(x, axis), axis, "mul"))


def _products_in_order(x: Any, axis: int) -> Any:
    """Compute running products in order, as XLA does within a window of up to 16."""
    first, *others = mnp.split(x, range(16, x.shape[axis], 16), axis)
    products = [_window(first, axis, "mul")]
    for other in others:
        last = ops.slice_in_dim(products[-1], 15, 16, axis)
        first, following = mnp.split(other, [1], axis)
        other = mnp.concatenate([last * first, following], axis)
        products.append(_window(other, axis, "mul"))
    return mnp.concatenate(products, axis)


def _until_zero(x: Any, axis: int) -> Any:
    """Return x times 0 from the first zero on, because products of later factors may overflow."""
    at = ops.iota(Shape(operands.default_int(), x.shape), axis)
    first = mnp.min(mnp.where(x == 0, at, x.shape[axis]), axis, keepdims=True)
    return mnp.where(at >= first, x * 0, x)


def _factors(x: Any, y: Any) -> Any:
    """Return the product of x and y; a factor that has overflowed counts as finite beside 0."""
    if kind_of(x).is_complex:
        return x * y
    most = float(mnp.finfo(kind_of(x).dtype).max)
    beside_y = ops.select(y == 0, mnp.clip(x, -most, most), x)
    return beside_y * ops.select(x == 0, mnp.clip(y, -most, most), y)


def _running(row: Row, a: Any, axis: int | None, dtype: Any) -> Array:
    return _cumulative(row, operands.without_nan(a, row.name, row.filling), axis, dtype)


@one_program("a")
@documented(PARAMETERS, ALONG_AXIS)
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
@documented(PARAMETERS, ALONG_AXIS)
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
@documented(PARAMETERS, ALONG_AXIS)
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
@documented(PARAMETERS, ALONG_AXIS)
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
    run = partial(transforms().associative_scan, COMPUTATIONS[row.fold])
    return _cumulative(Row(row.name, lambda x, axis: run(x, axis=axis)), a, axis, None)


@one_program("a")
@documented(PARAMETERS, ALONG_AXIS)
def cummax(a: ArrayLike, axis: int | None = None) -> Array:
    """Return the cumulative maximum along an axis.

    Example:
        >>> np.cummax(np.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
    return _running_extreme(Row("cummax", "max"), a, axis)


@one_program("a")
@documented(PARAMETERS, ALONG_AXIS)
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
        problem = f"axis is required for an array of {rank} dimensions"
        raise operands.value_error(name, problem, "Only a vector may omit it.")
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
