"""Functions that make, cut and read the diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.numpy.creation import zeros
from minixla.numpy.index_updates import IndexUpdate
from minixla.numpy.manipulation import broadcast_to, expand_dims, moveaxis, ravel, reshape
from minixla.numpy.operands import (
    axis_of,
    default_float,
    default_int,
    keep_weak,
    lifted,
    operand_shape,
    refuse_out,
    requested_type,
    static_int,
    static_size,
)
from minixla_ops.elementwise.operators import convert
from minixla_ops.vocabulary.shorthand import splat
from minixla_ops.vocabulary.shorthand import zeros as zeros_of

__all__ = [
    "diag",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "eye",
    "fill_diagonal",
    "identity",
    "mask_indices",
    "trace",
    "tri",
    "tril",
    "tril_indices",
    "tril_indices_from",
    "triu",
    "triu_indices",
    "triu_indices_from",
    "vander",
]


def _offsets(rows: int, columns: int, k: Any) -> tuple[Any, Any]:
    """The number of each element's row, plus k, and that of its column."""
    shape = Shape("s32", (rows, columns))
    if isinstance(k, int):  # farther away there are no elements
        k = min(max(k, -rows), columns)
    return ops.iota(shape, 0) + k, ops.iota(shape, 1)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N: how many rows.
        M: how many columns; default: as many.
        k: how far above the main diagonal the ones are.
        dtype: default: the default float type.
    """
    kind = default_float() if dtype is None else requested_type(dtype, "eye")
    rows = static_size(N, "eye", "N")
    columns = rows if M is None else static_size(M, "eye", "M")
    return lifted(convert(ops.eq(*_offsets(rows, columns, k)), kind))


def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix of n rows."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on and below the diagonal `k` above the main one; zeros above."""
    kind = requested_type(np.float32 if dtype is None else dtype, "tri")
    rows = static_size(N, "tri", "N")
    columns = rows if M is None else static_size(M, "tri", "M")
    return lifted(convert(ops.ge(*_offsets(rows, columns, k)), kind))


def _triangle(m: Any, k: int, subject: str, is_lower: bool) -> Any:
    shape = operand_shape(m, subject)
    if shape.rank < 2:
        raise explain(
            ShapeError,
            subject,
            f"the array is {shape}",
            advice="It must have two dimensions or more.",
        )
    mask = tri(*shape.dimensions[-2:], k=k if is_lower else k - 1, dtype=bool)
    mask = broadcast_to(mask, shape.dimensions)
    m = lifted(m)
    kept = (m, zeros_of(shape)) if is_lower else (zeros_of(shape), m)
    return keep_weak(ops.select(mask, *kept), m)


def tril(m: Any, k: int = 0) -> Any:
    """Matrices with zeros above the diagonal `k` above the main one."""
    return _triangle(m, k, "tril", True)


def triu(m: Any, k: int = 0) -> Any:
    """Matrices with zeros below the diagonal `k` above the main one."""
    return _triangle(m, k, "triu", False)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of matrices, as the last axis.

    Args:
        a: an array.
        offset: how far above the main diagonal it is.
        axis1: the axis of the matrices' rows.
        axis2: the axis of their columns.

    Raises:
        AttributeValueError: the array has fewer than two dimensions, or the axes are one.
    """
    rank = operand_shape(a, "diagonal").rank
    axes = [axis_of(axis, rank, "diagonal") for axis in (axis1, axis2)]
    if axes[0] == axes[1]:
        raise explain(
            AttributeValueError,
            "diagonal",
            "axis1 and axis2 are one axis",
            [f"axis1 = {axis1}", f"axis2 = {axis2}"],
            "Give two.",
        )
    a = moveaxis(a, axes, (-2, -1))
    *outer, rows, columns = operand_shape(a, "diagonal").dimensions
    offset = static_int(offset, "diagonal", "offset")
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not count:
        return zeros((*outer, 0), operand_shape(a, "diagonal").element_type)
    # In row-major order the elements of a diagonal are columns + 1 apart.
    start = offset if offset >= 0 else -offset * columns
    flat = reshape(a, (*outer, rows * columns))
    limit = start + (count - 1) * (columns + 1) + 1
    return keep_weak(ops.slice_in_dim(flat, start, limit, len(outer), columns + 1), a)


def trace(
    a: Any,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Any:
    """The sum of a diagonal of matrices; arguments as for `diagonal`."""
    from minixla.numpy.reductions import sum

    refuse_out("trace", out)
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


def diag(v: Any, k: int = 0) -> Any:
    """A matrix with the vector `v` on a diagonal; of a matrix `v`, that diagonal.

    Args:
        v: a vector or a matrix.
        k: how far above the main diagonal it is.

    Raises:
        ShapeError: `v` has another rank.
    """
    shape = operand_shape(v, "diag")
    offset = static_int(k, "diag", "k")
    if shape.rank == 2:
        return diagonal(v, offset)
    if shape.rank != 1:
        raise explain(ShapeError, "diag", f"v is {shape}", advice="Give a vector or a matrix.")
    size = shape.size + abs(offset)
    if not shape.size:
        return zeros((size, size), shape.element_type)
    # Between neighbours on a diagonal there is one row of the matrix.
    low = offset if offset >= 0 else -offset * size
    high = size * size - low - (shape.size - 1) * (size + 1) - 1
    zero = splat(0, Shape(shape.element_type))
    return keep_weak(ops.reshape(ops.pad(v, zero, [(low, high, size)]), (size, size)), v)


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the elements of `v`, in row-major order, on a diagonal."""
    return diag(ravel(v), k)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array of `ndim` dimensions of size `n`."""
    return (ops.iota(Shape(default_int(), (n,)), 0),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array.

    Raises:
        ShapeError: its sizes differ.
    """
    shape = operand_shape(arr, "diag_indices_from")
    if shape.rank < 2 or len(set(shape.dimensions)) != 1:
        raise explain(
            ShapeError,
            "diag_indices_from",
            f"the array is {shape}",
            advice="It must have two dimensions or more, all of one size.",
        )
    return diag_indices(shape.dimensions[0], shape.rank)


def _indices(found: Any) -> tuple[Any, ...]:
    return tuple([lifted(each.astype(default_int().dtype)) for each in found])


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The row and column indices of the lower triangle of an n by m matrix."""
    return _indices(np.tril_indices(n, k, m))  # type: ignore[return-value]


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The row and column indices of the upper triangle of an n by m matrix."""
    return _indices(np.triu_indices(n, k, m))  # type: ignore[return-value]


def _matrix_sizes(arr: Any, subject: str) -> tuple[int, ...]:
    shape = operand_shape(arr, subject)
    if shape.rank != 2:
        raise explain(ShapeError, subject, f"the array is {shape}", advice="Give a matrix.")
    return shape.dimensions


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The row and column indices of the lower triangle of a matrix."""
    rows, columns = _matrix_sizes(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The row and column indices of the upper triangle of a matrix."""
    rows, columns = _matrix_sizes(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Callable[[Any, int], Any], k: int = 0) -> tuple[Any, ...]:
    """The row and column indices of where `mask_func` (such as tril) of ones is not zero."""
    from minixla.numpy.creation import ones
    from minixla.numpy.taking import nonzero

    return nonzero(mask_func(ones((n, n)), k))


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """`a` with `val`, a scalar or a vector that is repeated, on its main diagonal.

    Raises:
        AttributeValueError: `inplace` is not False, for arrays do not change.
    """
    if inplace or wrap:
        raise explain(
            AttributeValueError,
            "fill_diagonal",
            "arrays do not change in place, and wrap is not supported",
            advice="Give inplace=False and use the result.",
        )
    shape = operand_shape(a, "fill_diagonal")
    count = min(shape.dimensions)
    values = lifted(val)
    if operand_shape(val, "fill_diagonal").rank:
        from minixla.numpy.joining import resize

        values = resize(values, (count,))
    index = (np.arange(count, dtype=np.int32),) * shape.rank
    return IndexUpdate(a, index).set(values)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """A matrix whose columns are powers of the vector `x`, the highest first."""
    from minixla.numpy.arithmetic import power

    shape = operand_shape(x, "vander")
    if shape.rank != 1:
        raise explain(ShapeError, "vander", f"x is {shape}", advice="Give a vector.")
    count = shape.size if N is None else static_size(N, "vander", "N")
    Shape(shape.element_type, (shape.size, count))  # refuses what no memory has room for
    exponents = np.arange(count) if increasing else np.arange(count)[::-1]
    powers = power(expand_dims(x, 1), exponents.astype(np.int32)[None, :])
    kind = shape.element_type
    return powers if kind.kind == "pred" else lifted(convert(powers, kind))
