"""Distinct elements and sets of them; the number of results depends on values.

Functions therefore take `size`, the number of results, which is required for traced arrays. More
results are cut off, and fewer are padded.
"""

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program, with_flags
from minixla.numpy import operands, sort_keys
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import convert, default_int, kind_of, lifted, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike

_SETS = """
Args:
    assume_unique: ignored.

Returns:
    A vector with the common element type of the arrays.

Raises:
    ConcretizationError: an array is traced and `size` is missing.
"""


_ADVICE = "Pass size, the number of results."


@one_program("rows")
def _runs(rows: Any, equal_nan: bool) -> tuple[Any, Any]:
    """Return the sorted order of rows, and whether each row differs from the one before it."""
    count, *sizes = rows.shape
    size, kind = math.prod(sizes), kind_of(rows)
    keys = sort_keys.keys_of(mnp.reshape(rows, (count, size)), "unique")
    columns = [getitem(key, (slice(None), at)) for at in range(size) for key in keys]
    positions = ops.iota(Shape("s32", (count,)), 0)
    order = sort_keys.order_of(columns, 0) if columns and count else positions
    ordered = getitem(rows, order)
    before = mnp.roll(ordered, 1, 0)
    differs = ops.ne(ordered, before)
    if equal_nan and kind.is_inexact:
        differs = differs & ~(mnp.isnan(ordered) & mnp.isnan(before))
    return order, mnp.any(differs, range(1, len(sizes) + 1)) | (positions == 0)


def _count(where: Any, size: Any, subject: str) -> int:
    """Return the number of results."""
    if size is not None:
        return operands.static_size(size, subject, "size")
    return int(operands.concrete(mnp.count_nonzero(where), subject, _ADVICE))


@overload
def unique(
    ar: ArrayLike,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Array: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any: ...
@documented(PARAMETERS)
@with_flags
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """Return the distinct elements in ascending order, NaN last.

    Args:
        ar: an array.
        return_index: whether to also return the first index of each.
        return_inverse: whether to also return, for each element of `ar`, its index in the result.
        return_counts: whether to also return how often each occurs.
        axis: the axis along which arrays are compared; None for elements.
        equal_nan: whether all NaN are equal.
        fill_value: the padding; default: the smallest element.
        sorted: whether the result must be in order; it always is.

    Returns:
        The elements, or a tuple of them and of the other requested results.

    Raises:
        ConcretizationError: `ar` is traced and `size` is missing.
        AttributeValueError: the array has no element to pad with.

    Example:
        >>> np.unique(np.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
        >>> np.unique(np.array([3, 1, 3]), return_counts=True)
        (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    shape = operand_shape(ar, "unique")
    place = 0 if axis is None else operands.axis_of(axis, shape.rank, "unique")
    rows = lifted(mnp.ravel(ar) if axis is None else mnp.moveaxis(ar, place, 0))
    order, begins = _runs(rows, equal_nan)
    count = _count(begins, size, "unique")
    if count and not rows.shape[0] and fill_value is None:
        problem = "an empty array has no element to pad with"
        raise operands.value_error("unique", problem, "Pass fill_value.", f"given {shape}")
    found = _distinct(rows, order, begins, fill_value, count)
    values, index, inverse, counts = found
    inverse = mnp.reshape(inverse, shape.dimensions) if axis is None else inverse
    wanted = (return_index, index), (return_inverse, inverse), (return_counts, counts)
    more = [result for is_wanted, result in wanted if is_wanted]
    values = mnp.moveaxis(values, 0, place)
    return (values, *more) if more else values


@one_program("rows", "order", "begins", "fill_value")
def _distinct(rows: Any, order: Any, begins: Any, fill_value: Any, size: int) -> tuple[Any, ...]:
    """Return the first rows of runs, their indices, the run of each row, and run lengths."""
    count, kind = rows.shape[0], default_int()
    (places,) = mnp.nonzero(begins, size=size + 1, fill_value=count)
    exists = getitem(places, slice(None, -1)) < count
    first = mnp.where(exists, getitem(places, slice(None, -1)), 0)
    index = convert(mnp.take(order, first, mode="clip") if count else first, kind)
    values = (
        mnp.take(rows, index, 0, mode="clip")
        if count
        else mnp.zeros((size, *rows.shape[1:]), kind_of(rows))
    )
    if fill_value is not None:
        exists = mnp.expand_dims(exists, range(1, values.ndim))
        values = mnp.where(exists, values, convert(fill_value, kind_of(rows)))
    runs = mnp.cumsum(begins, dtype=kind) - 1
    inverse = IndexUpdate(mnp.zeros((count,), kind), order).set(runs)
    return values, index, inverse, mnp.diff(places)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


_DISTINCT = """
Args:
    fill_value: the padding of the values; default: the smallest element.

Raises:
    ConcretizationError: `x` is traced and `size` is missing.
"""


def _unique_of(x: Any, size: int | None, fill_value: Any, *wanted: bool) -> Any:
    return unique(x, *wanted, equal_nan=False, size=size, fill_value=fill_value)


@documented(PARAMETERS, _DISTINCT)
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueAllResult:
    """Return the distinct values with their indices, inverse indices and counts.

    Every NaN is distinct. See `unique`.

    Returns:
        Vectors `values`, `indices` and `counts`, and `inverse_indices` of the shape of `x`.

    Example:
        >>> np.unique_all(np.array([3, 1, 3])).indices
        Array([1, 0], dtype=int32)
    """
    return _UniqueAllResult(*_unique_of(x, size, fill_value, True, True, True))


@documented(PARAMETERS, _DISTINCT)
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """Return the distinct values and their counts.

    Every NaN is distinct. See `unique`.

    Returns:
        Vectors `values` and `counts`.

    Example:
        >>> np.unique_counts(np.array([3, 1, 3])).counts
        Array([1, 2], dtype=int32)
    """
    return _UniqueCountsResult(*_unique_of(x, size, fill_value, False, False, True))


@documented(PARAMETERS, _DISTINCT)
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """Return the distinct values and the inverse indices.

    Every NaN is distinct. See `unique`.

    Returns:
        A vector `values`, and `inverse_indices` of the shape of `x`.

    Example:
        >>> np.unique_inverse(np.array([3, 1, 3])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    return _UniqueInverseResult(*_unique_of(x, size, fill_value, False, True))


@documented(PARAMETERS, _DISTINCT)
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct values.

    Every NaN is distinct. See `unique`.

    Example:
        >>> np.unique_values(np.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    return _unique_of(x, size, fill_value)


# Sets of two arrays: select runs of equal elements by the arrays that contain the elements.


class _Joined(NamedTuple):
    """The elements of two arrays in sorted order; each field has a value for every element."""

    values: Any
    order: Any  # Positions in the concatenation of both arrays.
    begins: Any  # True if a run of equal elements begins.
    runs: Any  # The index of the run.
    of_both: tuple[Any, Any]  # For each array, whether the run has elements of it.


@one_program("ar1", "ar2")
def _joined(ar1: Any, ar2: Any) -> _Joined:
    values = mnp.concatenate([ar1, ar2])
    is_complex = kind_of(values).is_complex  # their NaN are all equal
    order, begins = _runs(
        mnp.where(mnp.isnan(values), math.nan, values) if is_complex else values, True
    )
    values = getitem(values, order)
    is_second = order >= ar1.shape[0]
    if kind_of(values).is_inexact:  # NaN of different arrays are not equal
        begins = begins | (mnp.isnan(values) & (is_second != mnp.roll(is_second, 1)))
    runs = mnp.cumsum(begins, dtype=np.int32) - 1
    none = mnp.zeros(values.shape, bool)
    first, second = (IndexUpdate(none, runs).max(flags) for flags in (~is_second, is_second))
    return _Joined(values, order, begins, runs, (getitem(first, runs), getitem(second, runs)))


def _of_two(subject: str, ar1: Any, ar2: Any) -> list[Any]:
    return [lifted(mnp.ravel(operand)) for operand in operands.convert_all(subject, [ar1, ar2])]


def _filled(values: Any, where: Any, size: int, fill_value: Any, default: Any = None) -> Any:
    """Return the selected values, padded to `size`."""
    if not values.shape[0]:
        return mnp.full((size,), 0 if fill_value is None else fill_value, values.dtype)
    (places,) = mnp.nonzero(where, size=size, fill_value=values.shape[0])
    taken = mnp.take(values, places, mode="clip")
    exists = places < values.shape[0]
    if fill_value is None and size:
        fill_value = mnp.where(exists[0], taken[0], 0) if default is None else default
    return taken if not size else mnp.where(exists, taken, convert(fill_value, kind_of(values)))


@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: Literal[False] = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array: ...
@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any: ...
@documented(PARAMETERS, _SETS)
@with_flags
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the distinct elements that are in both arrays, in ascending order; never NaN.

    Args:
        return_indices: whether to also return the first index of each in both arrays.
        fill_value: the padding; default: the smallest element of the result. Indices are padded
            with the sizes of the arrays.

    Returns:
        A vector; with `return_indices` also two vectors of indices.

    Example:
        >>> np.intersect1d(np.array([1, 2, 3]), np.array([2, 3, 4]))
        Array([2, 3], dtype=int32)
    """
    first, second = _of_two("intersect1d", ar1, ar2)
    joined = _joined(first, second)
    chosen = joined.of_both[0] & joined.of_both[1]
    count = _count(joined.begins & chosen, size, "intersect1d")
    result = _filled(joined.values, joined.begins & chosen, count, fill_value)
    if not return_indices:
        return result
    is_second = joined.order >= first.shape[0]
    begins_second = is_second & ~mnp.roll(is_second, 1)
    order = convert(joined.order, default_int())
    one = _filled(order, chosen & joined.begins, count, None, first.shape[0])
    other = order - first.shape[0]
    return result, one, _filled(other, chosen & begins_second, count, None, second.shape[0])


@documented(PARAMETERS, _SETS)
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the distinct elements that are in exactly one of two arrays; see `intersect1d`.

    Example:
        >>> np.setxor1d(np.array([1, 2, 3]), np.array([2, 3, 4]))
        Array([1, 4], dtype=int32)
    """
    joined = _joined(*_of_two("setxor1d", ar1, ar2))
    chosen = joined.begins & (joined.of_both[0] != joined.of_both[1])
    return _filled(joined.values, chosen, _count(chosen, size, "setxor1d"), fill_value)


@documented(PARAMETERS, _SETS)
@with_flags
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the distinct elements of an array that are not in another, in ascending order.

    Args:
        assume_unique: whether elements are distinct in each array; the order is then that of `ar1`.
        fill_value: the padding; default 0.

    Example:
        >>> np.setdiff1d(np.array([1, 2, 3]), np.array([2]))
        Array([1, 3], dtype=int32)
    """
    if assume_unique:
        values = lifted(mnp.ravel(ar1))
        chosen = isin(values, ar2, invert=True)
    else:
        joined = _joined(*_of_two("setdiff1d", ar1, ar2))
        values = convert(joined.values, kind_of(ar1))
        chosen = joined.begins & joined.of_both[0] & ~joined.of_both[1]
    return _filled(values, chosen, _count(chosen, size, "setdiff1d"), fill_value, 0)


@documented(PARAMETERS, _SETS)
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements of two arrays, in ascending order; see `unique`.

    Example:
        >>> np.union1d(np.array([1, 2]), np.array([2, 3]))
        Array([1, 2, 3], dtype=int32)
    """
    return unique(mnp.concatenate(_of_two("union1d", ar1, ar2)), size=size, fill_value=fill_value)


@documented(PARAMETERS)
@one_program("element", "test_elements")
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Test whether each element is in another array; never for NaN.

    Args:
        element: an array.
        test_elements: an array.
        assume_unique: ignored.
        invert: whether to return the opposite.
        method: "compare_all" compares all pairs; "sort" and "binary_search" sort `test_elements`
            and search in it; "auto" searches for more than 256 elements.

    Example:
        >>> np.isin(np.array([[1, 2], [3, 4]]), np.array([2, 3]))
        Array([[False,  True],
               [ True, False]], dtype=bool)
    """
    operands.refuse_others(
        method, ("auto", "compare_all", "binary_search", "sort"), "isin", "method"
    )
    elements, others = map(mnp.asarray, (element, test_elements))
    others = mnp.ravel(others)
    if method == "compare_all" or (method == "auto" and others.size <= 256) or not others.size:
        is_member = mnp.any(mnp.expand_dims(elements, -1) == others, -1)
    else:
        ordered = mnp.sort(others)
        is_member = mnp.take(ordered, mnp.searchsorted(ordered, elements), mode="clip") == elements
    return ops.not_(is_member) if invert else is_member
