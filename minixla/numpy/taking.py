"""Functions that take elements by index, and functions that return indices of elements."""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import PRED, S64
from minixla.core.shapes import Shape
from minixla.core.tracing import host_array, one_program
from minixla.numpy import indexing, operands
from minixla.numpy.indexing import IndexUpdate, getitem
from minixla.numpy.operands import concrete, convert, default_int, lifted, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike


def _integers(indices: Any, subject: str, of_flags: bool = False) -> Any:
    """Convert indices to an array of integers; accept lists, and booleans if `of_flags`."""
    if isinstance(indices, (list, tuple)):
        indices = concrete(indices, subject, "Pass an array of them.")
    elif isinstance(indices, int):
        indices = host_array(indices, Shape(S64), subject, "an index")
    kind = operand_shape(indices, subject).element_type
    if kind.kind == "pred" and of_flags:
        return convert(indices, default_int())
    if not kind.is_integer:
        advice = "Pass integers: convert with astype(int)."
        raise operands.index_error(subject, f"indices are of type {kind}", advice)
    return indices


@documented(PARAMETERS)
@one_program("a", "indices")
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the elements at some indices of an axis.

    Args:
        indices: integers; negative ones count from the end.
        axis: the axis; None for the elements in row-major order.
        mode: the treatment of indices out of bounds: "fill" (the default) gives `fill_value`,
            "clip" the nearest element, "wrap" the element at the remainder.
        unique_indices: ignored.
        indices_are_sorted: ignored.
        fill_value: default: NaN, or the minimum or maximum of an integer type.

    Returns:
        An array whose axis is replaced by those of `indices`; of their shape if `axis` is None.

    Example:
        >>> np.take(np.array([10, 20, 30]), np.array([2, 0, -1]))
        Array([30, 10, 30], dtype=int32)
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


# Positions of elements.


@documented(PARAMETERS)
def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> tuple[Array, ...]:
    """Return the indices of nonzero elements: an array for each axis, in row-major order.

    Args:
        a: an array of one dimension or more.
        fill_value: an index, or one for each axis, to pad with; default 0.

    Returns:
        A tuple of vectors of integers, one for each axis.

    Raises:
        ConcretizationError: `a` is traced and `size` is missing.

    Example:
        >>> np.nonzero(np.array([[1, 0], [0, 2]]))
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = operand_shape(a, "nonzero")
    if not shape.rank:
        raise operands.shape_error("nonzero", "the array is a scalar", "Use atleast_1d(a).")
    if size is None:
        advice = "Pass size, or choose between values with mx.numpy.where(mask, x, y)."
        return operands.host_indices(np.nonzero(concrete(a, "nonzero", advice)))
    count = operands.static_size(size, "nonzero", "size")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * shape.rank
    sizes, flat, kind = shape.dimensions, mnp.ravel(operands.as_bool(a, "nonzero")), default_int()
    # Elements that are not wanted go to a position out of bounds.
    place = mnp.where(flat, mnp.cumsum(flat, dtype=kind) - 1, count)
    empty = lifted(np.full(count, -1, kind.dtype))
    positions = ops.iota(Shape(kind, flat.shape), 0)
    flat_index = IndexUpdate(empty, place).set(positions, mode="drop")
    is_filled = flat_index < 0
    indices = []
    for at, fill in enumerate(fills):
        index = flat_index // max(math.prod(sizes[at + 1 :]), 1) % max(sizes[at], 1)
        indices.append(mnp.where(is_filled, convert(fill, kind), index))
    return tuple(indices)


@documented(PARAMETERS)
def flatnonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> Array:
    """Return the indices, in row-major order, of nonzero elements; see `nonzero`.

    Args:
        fill_value: an index to pad with; default 0.

    Raises:
        ConcretizationError: `a` is traced and `size` is missing.

    Example:
        >>> np.flatnonzero(np.array([[1, 0], [0, 2]]))
        Array([0, 3], dtype=int32)
    """
    return nonzero(mnp.ravel(a), size=size, fill_value=fill_value)[0]


@documented(PARAMETERS)
def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the indices of nonzero elements as rows of a matrix; see `nonzero`.

    Args:
        fill_value: an index, or one for each axis, to pad with; default 0.

    Returns:
        A matrix of integers with a column for each dimension of `a`.

    Raises:
        ConcretizationError: `a` is traced and `size` is missing.

    Example:
        >>> np.argwhere(np.array([[1, 0], [0, 2]]))
        Array([[0, 0],
               [1, 1]], dtype=int32)
    """
    rank = operand_shape(a, "argwhere").rank
    places = nonzero(a if rank else mnp.atleast_1d(a), size=size, fill_value=fill_value)
    rows = mnp.transpose(mnp.stack(places))
    return rows if rank else getitem(rows, (slice(None), slice(0, 0)))


@documented(PARAMETERS)
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Return the elements, in row-major order, where the condition is true; see `compress`.

    Args:
        condition: a boolean (or a number, true if nonzero) for each element.

    Raises:
        ConcretizationError: the condition is traced and `size` is missing.

    Example:
        >>> x = np.array([[1, 5], [7, 2]])
        >>> np.extract(x > 3, x)
        Array([5, 7], dtype=int32)
    """
    return compress(mnp.ravel(condition), arr, size=size, fill_value=fill_value)


@documented(PARAMETERS)
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Return the elements of an axis where the condition is true.

    Args:
        condition: a vector of booleans, or of numbers, which are true if nonzero.
        axis: the axis; None for the elements in row-major order.
        size: the number of results, required if the condition is traced. More are cut off, fewer
            are padded.

    Returns:
        An array with fewer elements along the axis; a vector if `axis` is None.

    Raises:
        ConcretizationError: the condition is traced and `size` is missing.
        IndexError: the condition is true beyond the end of the axis.

    Example:
        >>> np.compress(np.array([True, False, True]), np.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    operands.refuse_out("compress", out)
    operands.shape_of_rank(condition, (1,), "compress", "Pass a vector of booleans.")
    a, sizes, place = operands.along(a, axis, "compress")
    count, condition = sizes[place], lifted(condition)
    inside, beyond = condition[:count], condition[count:]
    if size is None and beyond.size and concrete(beyond, "compress", "Pass size.").any():
        advice = f"The axis has {count} elements."
        raise operands.index_error("compress", "the condition is true beyond the axis", advice)
    (indices,) = nonzero(inside, size=size, fill_value=count)
    return take(a, indices, place, mode="fill", fill_value=fill_value)


@documented(PARAMETERS)
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return vectors as arrays that broadcast to their grid, for indexing all combinations.

    Booleans become the positions of the true ones.

    Args:
        *args: vectors of integers or booleans.

    Returns:
        A tuple of arrays, one for each vector, which broadcast together.

    Example:
        >>> rows, columns = np.ix_(np.array([0, 2]), np.array([1, 2]))
        >>> np.arange(9).reshape(3, 3)[rows, columns]
        Array([[1, 2],
               [7, 8]], dtype=int32)
    """
    grids = []
    for index, x in enumerate(args):
        problem = "an argument is not a vector"
        shape = operands.shape_of_rank(x, (1,), "ix_", "Pass vectors of indices.", problem)
        x = nonzero(x)[0] if shape.element_type is PRED else lifted(x)
        sizes = operands.resized([1] * len(args), index, x.size)
        grids.append(ops.broadcast_in_dim(x, sizes, [index]))
    return tuple(grids)
