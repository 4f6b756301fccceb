"""Functions that take elements by index, and that find where elements are."""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import S64
from minixla.core.shapes import Shape
from minixla.core.tracing import host_array, one_program
from minixla.numpy import indexing, operands
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import concrete, convert, default_int, lifted, operand_shape
from minixla_ops.elementwise import operators
from minixla_ops.helpers import shorthand
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers


def _integers(indices: Any, subject: str, of_flags: bool = False) -> Any:
    """Indices as an array of integers; lists are taken too, and truth values for 0 and 1."""
    if isinstance(indices, (list, tuple)):
        indices = concrete(indices, subject, "Give an array of them.")
    elif isinstance(indices, int):
        indices = host_array(indices, Shape(S64), subject, "an index")
    kind = operand_shape(indices, subject).element_type
    if kind.kind == "pred" and of_flags:
        return convert(indices, default_int())
    if not kind.is_integer:
        advice = "Give integers: convert with astype(int)."
        raise operands.index_error(subject, f"indices are of type {kind}", advice)
    return indices


@one_program("a", "indices")
def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements of `a` at some indices of an axis.

    Args:
        a: an array.
        indices: integers; negative ones count from the end.
        axis: the axis; None for the elements in row-major order.
        out: not supported.
        mode: what indices out of bounds give: "fill" (the default) `fill_value`, "clip" the
            nearest element, "wrap" the element of the remainder.
        unique_indices: a promise, which has no effect.
        indices_are_sorted: a promise, which has no effect.
        fill_value: default: NaN, or an integer type's extreme value.

    Raises:
        AttributeValueError: the mode is unknown.
    """
    operands.refuse_out("take", out)
    a, sizes, place = operands.along(a, axis, "take")
    indices = _integers(indices, "take", of_flags=True)
    if mode in ("wrap", "clip"):
        size = sizes[place]
        indices = lifted(indices) % size if mode == "wrap" else mnp.clip(indices, 0, size - 1)
        mode = "promise_in_bounds"
    index = (*[slice(None)] * place, indices)
    return getitem(a, index, "fill" if mode is None else indexing.checked_mode(mode), fill_value)


@one_program("arr", "indices")
def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """For each place of `indices` the element of `arr` at that place, but for the axis.

    Args:
        arr: an array.
        indices: integers, of the rank of `arr`; all sizes but that of the axis broadcast.
        axis: the axis; None for the elements in row-major order.
        mode: what indices out of bounds give: "fill" (the default) `fill_value`, "clip" the
            nearest element, "promise_in_bounds" that there are none.
        fill_value: default: NaN, or an integer type's extreme value.
        wrap_negative_indices: False where negative indices are out of bounds.

    Raises:
        IndexError: the shapes do not fit, or the indices are no integers.
    """
    indices = _integers(indices, "take_along_axis")
    arr, own, place = operands.along(arr, axis, "take_along_axis")
    given = operand_shape(indices, "take_along_axis").dimensions
    rank = len(own)
    others = operands.resized(own, place, 1)
    if rank != len(given) or any(1 != m != n != 1 for m, n in zip(others, given, strict=True)):
        problem = f"indices of shape {given} do not fit arr of shape {own}"
        advice = "Give as many dimensions as arr has; sizes but that of the axis broadcast."
        raise operands.index_error("take_along_axis", problem, advice)
    sizes = operators.broadcast_shapes([others, given], "take_along_axis")
    kind = operands.kind_of(arr)
    if own[place] == 0 or 0 in sizes:
        return mnp.zeros(sizes, kind)
    if wrap_negative_indices is not False:
        indices = indexing.wrapped(indices, own, place)
    chosen = mnp.broadcast_to(indices, sizes)
    # Every axis but one is a batch of both.
    batch = tuple([each for each in range(rank) if each != place])
    whole = mnp.broadcast_to(arr, operands.resized(sizes, place, own[place]))
    numbers = GatherDimensionNumbers((), (place,), (place,), rank, batch, batch)
    found = ops.gather(whole, chosen, numbers, (1,) * rank)
    if (indexing.checked_mode(mode) or "fill") == "fill":
        is_inside = (chosen >= 0) & (chosen < own[place])
        missing = indexing.fill_of(kind) if fill_value is None else fill_value
        found = ops.select(is_inside, found, shorthand.full_like(found, missing))
    return operands.keep_weak(found, arr)


# Where elements are.


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the elements that are not zero: an array for each axis, in row-major order.

    Args:
        a: an array of one dimension or more.
        size: how many indices to return, which must be given where `a` is a traced value; what is
            beyond is cut off, what is missing is filled.
        fill_value: an index, or one for each axis, to fill with; default 0.

    Raises:
        ConcretizationError: `a` is traced and `size` is not given.
    """
    shape = operand_shape(a, "nonzero")
    if not shape.rank:
        raise operands.shape_error("nonzero", "the array is a scalar", "Use atleast_1d(a).")
    if size is None:
        advice = "Give size, or choose between values with mx.numpy.where(mask, x, y)."
        return operands.host_indices(np.nonzero(concrete(a, "nonzero", advice)))
    count = operands.static_size(size, "nonzero", "size")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * shape.rank
    sizes, flat, kind = shape.dimensions, mnp.ravel(operands.as_bool(a, "nonzero")), default_int()
    # What is not wanted goes to a place that is out of bounds.
    place = mnp.where(flat, mnp.cumsum(flat, dtype=kind) - 1, count)
    empty = lifted(np.full(count, -1, kind.dtype))
    positions = ops.iota(Shape(kind, flat.shape), 0)
    flat_index = IndexUpdate(empty, place).set(positions, mode="drop")
    is_filled = flat_index < 0
    found = []
    for at, fill in enumerate(fills):
        index = flat_index // max(math.prod(sizes[at + 1 :]), 1) % max(sizes[at], 1)
        found.append(mnp.where(is_filled, convert(fill, kind), index))
    return tuple(found)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices, in row-major order, of the elements that are not zero; see `nonzero`."""
    return nonzero(mnp.ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The index vectors of the elements that are not zero, one a row; see `nonzero`."""
    rank = operand_shape(a, "argwhere").rank
    places = nonzero(a if rank else mnp.atleast_1d(a), size=size, fill_value=fill_value)
    found = mnp.transpose(mnp.stack(places))
    return found if rank else getitem(found, (slice(None), slice(0, 0)))


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements, in row-major order, where the condition is true; see `compress`."""
    return compress(mnp.ravel(condition), arr, size=size, fill_value=fill_value)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The elements of an axis where the condition is true.

    Args:
        condition: a vector of booleans (or numbers: true where not zero).
        a: an array.
        axis: the axis; None for the elements in row-major order.
        size: how many elements to return, which must be given where the condition is a traced
            value; what is beyond is cut off, what is missing is filled.
        fill_value: the number to fill with.
        out: not supported.

    Raises:
        ConcretizationError: the condition is traced and `size` is not given.
        IndexError: the condition is true where the axis has no element.
    """
    operands.refuse_out("compress", out)
    operands.shape_of_rank(condition, (1,), "compress", "Give a vector of booleans.")
    a, sizes, place = operands.along(a, axis, "compress")
    count, condition = sizes[place], lifted(condition)
    inside, beyond = condition[:count], condition[count:]
    if size is None and beyond.size and concrete(beyond, "compress", "Give size.").any():
        advice = f"The axis has {count} elements."
        raise operands.index_error("compress", "the condition is true beyond the axis", advice)
    (indices,) = nonzero(inside, size=size, fill_value=count)
    return take(a, indices, place, mode="fill", fill_value=fill_value)
