"""Functions that put elements into order, and that find places in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.tracing import one_program
from minixla.numpy import operands, sort_keys
from minixla.numpy.operands import convert, default_int, keep_weak, lifted, operand_shape


def _ordered(
    subject: str, a: Any, axis: int | None, descending: bool = False, *unsupported: Any
) -> tuple[Any, Any, int]:
    """The array, where its elements are in order, and the axis."""
    if any(each is not None for each in unsupported):
        advice = "Leave kind and order out: sorting is stable."
        raise operands.value_error(subject, "kind and order are not supported", advice)
    a, _, place = operands.along(a, axis, subject)
    keys = sort_keys.keys_of(a, subject)
    keys = [ops.not_(key) for key in keys] if descending else keys
    return a, sort_keys.order_of(keys, place), place


@one_program("a")
def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """The elements along an axis in ascending order, NaN last; complex by real part first."""
    values, found, place = _ordered("sort", a, axis, descending, kind, order)
    return keep_weak(sort_keys.taken_along(lifted(values), found, place), a)


@one_program("a")
def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices along an axis that put the elements into order, equal ones as they are.

    Arguments and errors are those of `sort`; `dtype` is the integer type of the result, by default
    the default one.
    """
    _, found, _ = _ordered("argsort", a, axis, descending, kind, order)
    return lifted(convert(found, operands.requested_type(dtype, "argsort", default_int())))


def _checked_kth(subject: str, a: Any, kth: Any, axis: int) -> None:
    sizes = operand_shape(a, subject).dimensions
    size = sizes[operands.axis_of(axis, len(sizes), subject)]
    for each in operands.listed(kth) or [None]:
        if not -size <= operands.static_int(each, subject, "kth") < size:
            advice = f"It must be in [{-size}, {size})."
            raise operands.value_error(subject, "kth is out of bounds", advice, kth=kth)


@one_program("a")
def partition(a: Any, kth: int | Sequence[int], axis: int = -1) -> Any:
    """The elements along an axis, the kth where it is in order, less ones before it.

    Returns:
        All in order, as `sort` gives them, which is one of the ways to part them.

    Raises:
        AttributeValueError: `kth` or the axis is out of bounds.
    """
    _checked_kth("partition", a, kth, axis)
    return sort(a, axis)


@one_program("a")
def argpartition(a: Any, kth: int | Sequence[int], axis: int = -1) -> Any:
    """The indices along an axis of the elements that `partition` gives; see there."""
    _checked_kth("argpartition", a, kth, axis)
    return argsort(a, axis)


@one_program("keys")
def lexsort(keys: Sequence[Any], axis: int = -1) -> Any:
    """The indices along an axis that put elements into the order of several keys.

    Args:
        keys: arrays of one shape, or an array of them along its first axis; the last is the most
            significant.
        axis: the axis.

    Raises:
        ShapeError: there is no key, or their shapes differ.
    """
    return _keys_sorted(*operands.members(keys, "lexsort"), axis=axis)


@one_program()
def _keys_sorted(*given: Any, axis: int) -> Any:
    shapes = [operand_shape(each, "lexsort").dimensions for each in given]
    if len(set(shapes)) != 1:
        advice = "Give one or more arrays of one shape."
        raise operands.shape_error("lexsort", "the keys have not one shape", advice, shapes=shapes)
    if not shapes[0]:
        return mnp.zeros((), default_int())
    place = operands.axis_of(axis, len(shapes[0]), "lexsort")
    found = [key for each in reversed(given) for key in sort_keys.keys_of(each, "lexsort")]
    return lifted(convert(sort_keys.order_of(found, place), default_int()))


# Where elements are in an order.

_METHODS = ("scan", "scan_unrolled", "sort", "compare_all")


@one_program("a", "v", "sorter")
def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where in the ascending vector `a` the values `v` would be put in.

    Args:
        a: a vector in ascending order, NaN last.
        v: an array.
        side: "left" before equal elements, "right" after them.
        sorter: the indices that put `a` into order, where it is not in order.
        method: "compare_all" compares all pairs; "scan", "scan_unrolled" and "sort" are one binary
            search.

    Returns:
        Indices from 0 to the size of `a`, of the shape of `v`.

    Raises:
        ShapeError: `a` is no vector.
        AttributeValueError: `side` or `method` is something else.
    """
    operands.refuse_others(side, ("left", "right"), "searchsorted", "side")
    operands.refuse_others(method, _METHODS, "searchsorted", "method")
    size = operands.shape_of_rank(a, (1,), "searchsorted", "Give a vector.").size
    a = a if sorter is None else mnp.take(a, sorter)
    elements, values = operands.convert_all("searchsorted", [a, v])
    keys, others = (sort_keys.keys_of(each, "searchsorted") for each in (elements, values))
    if method != "compare_all":
        return sort_keys.places_of(keys, others, side == "right")
    sizes = (*operand_shape(v, "searchsorted").dimensions, size)
    keys = [mnp.broadcast_to(each, sizes) for each in keys]
    others = [mnp.broadcast_to(mnp.expand_dims(each, -1), sizes) for each in others]
    is_before = sort_keys.comes_before(keys, others, side == "right")
    return mnp.sum(is_before, -1, np.int32)


@one_program("x", "bins")
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each element is in: 0 before the first edge.

    Args:
        x: an array.
        bins: the edges, a vector in ascending or descending order.
        right: whether a bin includes its right edge and not its left one.
        method: see `searchsorted`.

    Raises:
        ShapeError: `bins` is no vector.
    """
    size = operands.shape_of_rank(bins, (1,), "digitize", "Give a vector of edges.").size
    if not size:
        return mnp.zeros(operand_shape(x, "digitize").dimensions, np.int32)
    edges = lifted(bins)
    is_ascending = edges[-1] >= edges[0]
    ascending = mnp.where(is_ascending, edges, mnp.flip(edges))
    found = searchsorted(ascending, x, "left" if right else "right", method=method or "scan")
    return mnp.where(is_ascending, found, size - found)
