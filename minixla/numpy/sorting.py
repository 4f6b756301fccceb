"""Functions that sort elements, and functions that search sorted vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands, sort_keys
from minixla.numpy.operands import convert, default_int, keep_weak, lifted, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike

_SORTING = """
Args:
    axis: the axis; None for the elements in row-major order.
    kind: must be None; sorting is always stable.
    order: must be None; elements have no fields.
    stable: whether equal elements must keep their order; they always do.
    descending: whether the largest elements come first, after NaN.
    kth: an index, or several; negative ones count from the end.

Raises:
    AttributeValueError: the axis or `kth` is out of range, or `kind` or `order` is given.
"""


def _ordered(
    subject: str, a: Any, axis: int | None, descending: bool = False, *unsupported: Any
) -> tuple[Any, Any, int]:
    """Return the array, the positions of its elements in order, and the axis."""
    if any(option is not None for option in unsupported):
        advice = "Omit kind and order: sorting is stable."
        raise operands.value_error(subject, "kind and order are not supported", advice)
    a, _, place = operands.along(a, axis, subject)
    keys = sort_keys.keys_of(a, subject)
    keys = [ops.not_(key) for key in keys] if descending else keys
    return a, sort_keys.order_of(keys, place), place


@documented(PARAMETERS, _SORTING)
@one_program("a")
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Sort elements along an axis in ascending order, NaN last.

    Complex numbers compare the real parts first.

    Returns:
        An array with the shape and element type of `a`; a vector if `axis` is None.

    Example:
        >>> np.sort(np.array([3.0, np.nan, 1.0]))
        Array([ 1.,  3., nan], dtype=float32)
    """
    values, indices, place = _ordered("sort", a, axis, descending, kind, order)
    return keep_weak(sort_keys.taken_along(lifted(values), indices, place), a)


@documented(PARAMETERS, _SORTING)
@one_program("a")
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return the indices along an axis that sort the elements; see `sort`.

    Args:
        dtype: the integer type of the result; default: the default one.

    Returns:
        Integers with the shape of `a`; a vector if `axis` is None.

    Example:
        >>> np.argsort(np.array([30, 10, 20]))
        Array([1, 2, 0], dtype=int32)
    """
    _, indices, _ = _ordered("argsort", a, axis, descending, kind, order)
    return lifted(convert(indices, operands.requested_type(dtype, "argsort", default_int())))


def _checked_kth(subject: str, a: Any, kth: Any, axis: int) -> None:
    sizes = operand_shape(a, subject).dimensions
    size = sizes[operands.axis_of(axis, len(sizes), subject)]
    for number in operands.listed(kth) or [None]:
        if not -size <= operands.static_int(number, subject, "kth") < size:
            advice = f"It must be in [{-size}, {size})."
            raise operands.value_error(subject, "kth is out of bounds", advice, kth=kth)


@documented(PARAMETERS, _SORTING)
@one_program("a")
def partition(a: ArrayLike, kth: int | Sequence[int], axis: int = -1) -> Array:
    """Arrange elements so that the kth is in its sorted position, with smaller ones before it.

    Returns:
        All elements in the order of `sort`, which is a valid partition.

    Example:
        >>> np.partition(np.array([3, 4, 1, 2]), 0)[0]
        Array(1, dtype=int32)
    """
    _checked_kth("partition", a, kth, axis)
    return sort(a, axis)


@documented(PARAMETERS, _SORTING)
@one_program("a")
def argpartition(a: ArrayLike, kth: int | Sequence[int], axis: int = -1) -> Array:
    """Return the indices along an axis of the result of `partition`.

    Example:
        >>> np.argpartition(np.array([3, 4, 1, 2]), 0)[0]
        Array(2, dtype=int32)
    """
    _checked_kth("argpartition", a, kth, axis)
    return argsort(a, axis)


@documented(PARAMETERS)
@one_program("keys")
def lexsort(keys: Sequence[Any], axis: int = -1) -> Array:
    """Return the indices along an axis that sort by several keys.

    Args:
        keys: arrays of one shape, or an array of them along its first axis; the last key is the
            most significant.
        axis: the axis.

    Returns:
        Integers with the shape of a key.

    Example:
        >>> np.lexsort((np.array([1, 0, 0]), np.array([5, 5, 4])))
        Array([2, 1, 0], dtype=int32)
    """
    return _keys_sorted(*operands.members(keys, "lexsort"), axis=axis)


@one_program()
def _keys_sorted(*arrays: Any, axis: int) -> Any:
    shapes = [operand_shape(array, "lexsort").dimensions for array in arrays]
    if len(set(shapes)) != 1:
        advice = "Pass one or more arrays of one shape."
        raise operands.shape_error("lexsort", "the keys differ in shape", advice, shapes=shapes)
    if not shapes[0]:
        return mnp.zeros((), default_int())
    place = operands.axis_of(axis, len(shapes[0]), "lexsort")
    keys = [key for array in reversed(arrays) for key in sort_keys.keys_of(array, "lexsort")]
    return lifted(convert(sort_keys.order_of(keys, place), default_int()))


# Positions in sorted vectors.

_METHODS = ("scan", "scan_unrolled", "sort", "compare_all")


@documented(PARAMETERS)
@one_program("a", "v", "sorter")
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Return the indices at which values would be inserted into a sorted vector.

    Args:
        a: a vector in ascending order, NaN last.
        side: "left" before equal elements, "right" after them.
        sorter: the indices that sort `a`, if it is not sorted.
        method: "compare_all" compares all pairs; "scan", "scan_unrolled" and "sort" use a binary
            search.

    Returns:
        Indices from 0 to the size of `a`, with the shape of `v`.

    Example:
        >>> np.searchsorted(np.array([1, 2, 4]), np.array([0, 2, 3]))
        Array([0, 1, 2], dtype=int32)
    """
    operands.refuse_others(side, ("left", "right"), "searchsorted", "side")
    operands.refuse_others(method, _METHODS, "searchsorted", "method")
    size = operands.shape_of_rank(a, (1,), "searchsorted", "Pass a vector.").size
    a = a if sorter is None else mnp.take(a, sorter)
    elements, values = operands.convert_all("searchsorted", [a, v])
    keys, others = (sort_keys.keys_of(operand, "searchsorted") for operand in (elements, values))
    if method != "compare_all":
        return sort_keys.places_of(keys, others, side == "right")
    sizes = (*operand_shape(v, "searchsorted").dimensions, size)
    keys = [mnp.broadcast_to(key, sizes) for key in keys]
    others = [mnp.broadcast_to(mnp.expand_dims(other, -1), sizes) for other in others]
    is_before = sort_keys.comes_before(keys, others, side == "right")
    return mnp.sum(is_before, -1, np.int32)


@documented(PARAMETERS)
@one_program("x", "bins")
def digitize(
    x: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] | str,
    right: bool = False,
    *,
    method: str | None = None,
) -> Array:
    """Return the index of the bin of each element; 0 before the first edge.

    Args:
        bins: the edges, a vector in ascending or descending order.
        right: whether a bin includes its right edge, not its left one.
        method: see `searchsorted`.

    Example:
        >>> np.digitize(np.array([0.5, 1.0, 9.0]), np.array([1.0, 2.0]))
        Array([0, 1, 2], dtype=int32)
    """
    size = operands.shape_of_rank(bins, (1,), "digitize", "Pass a vector of edges.").size
    if not size:
        return mnp.zeros(operand_shape(x, "digitize").dimensions, np.int32)
    edges = lifted(bins)
    is_ascending = edges[-1] >= edges[0]
    ascending = mnp.where(is_ascending, edges, mnp.flip(edges))
    indices = searchsorted(ascending, x, "left" if right else "right", method=method or "scan")
    return mnp.where(is_ascending, indices, size - indices)
