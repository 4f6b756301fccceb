"""Functions that reduce an array along axes; means are in `statistics`."""

import math
from collections.abc import Callable
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import Row, transforms
from minixla.numpy.operands import Axis, convert, kind_of, lifted, operand_shape, refuse_out
from minixla.numpy.shared_sections import PARAMETERS, REDUCED
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.promotion import numeric_type
from minixla_ops.folds import arg_reducers
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
    where: booleans that broadcast with `a`, true for elements that count; requires `initial`.

Raises:
    AttributeValueError: `initial` is missing although the array may be empty, or an axis is out
        of range.
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
ALONG_AXIS = """
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
COMPUTATIONS: dict[str, Callable[..., Any]] = {"and": ops.and_, "or": ops.or_}
COMPUTATIONS |= {"add": ops.add, "mul": ops.mul, "max": ops.max, "min": ops.min}


def _folded(
    row: Row, a: Any, axis: Axis, keepdims: Any, initial: Any = None, where: Any = None
) -> Any:
    """Fold `a` by a monoid; `a` has the type to compute in."""
    name, monoid, _ = row
    shape = operand_shape(a, name)
    kind = shape.element_type
    axes = operands.axes_of(axis, shape.rank, name)
    start = neutral_element(monoid, kind)
    if where is not None:
        a = mnp.where(operands.checked_mask(where, name), a, start)
    computation = COMPUTATIONS[monoid]
    result = ops.reduce(a, start, computation, axes) if axes else lifted(a)
    if initial is not None:
        first = convert(initial, kind)
        if operand_shape(first, name).rank:
            raise operands.shape_error(name, "initial is not a scalar", "Pass one number.")
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
    is_empty = 0 in [sizes[number] for number in operands.axes_of(axis, len(sizes), name)]
    if initial is None and (is_empty or where is not None):
        problem = "initial is required if no element may count"
        details, advice = f"the array has shape {sizes}", "Pass initial, the empty result."
        raise operands.value_error(name, problem, advice, details, axis=axis)
    x = lifted(operands.without_nan(a, name, filling))
    folded = _folded(row, x, axis, keepdims, initial, where)
    return folded if initial is not None else _or_missing(row, folded, math.nan, a, axis, keepdims)


def _or_missing(row: Row, folded: Any, missing: float, a: Any, axis: Axis, keepdims: Any) -> Any:
    """Return `folded`, or `missing` where all elements of `a` are NaN and NaN does not count."""
    if row.filling is None or not kind_of(a).is_inexact:
        return folded
    is_missing = all(mnp.isnan(a), axis, None, bool(keepdims))
    return mnp.where(is_missing, shorthand.full_like(folded, missing), folded)


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
        AttributeValueError: the array is empty, or an axis is out of range.
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


def _index(row: Row, a: Any, axis: int | None, keepdims: bool | None) -> Array:
    """Return the first index of the min or max; NaN wins over all numbers."""
    name, monoid, filling = row
    shape = operand_shape(a, name)
    x = operands.without_nan(a, name, filling)
    x, sizes, place = operands.along(transforms().stop_gradient(lifted(x)), axis, name)
    dropped = range(shape.rank) if axis is None else (place,)
    if sizes[place] == 0:
        details = f"the array has shape {shape.dimensions}"
        raise operands.value_error(name, "the array is empty", "Check for size 0 first.", details)
    positions = ops.iota(Shape(operands.default_int(), sizes), place)
    kind = shape.element_type
    # Complex numbers cannot be compared by `gt`; they and narrow types take two reductions.
    is_paired = kind.bits >= 16 and not kind.is_complex
    reduce = arg_reducers.pairs if is_paired else arg_reducers.in_two_passes
    indices = reduce(x, positions, COMPUTATIONS[monoid], place)[1]
    indices = mnp.expand_dims(indices, dropped) if keepdims else indices
    return _or_missing(row, indices, -1, a, axis, keepdims)


@one_program("a")
@documented(PARAMETERS, ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
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
@documented(PARAMETERS, ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
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
@documented(PARAMETERS, ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
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
@documented(PARAMETERS, ALONG_AXIS, _INTEGERS, _NOT_EMPTY)
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
