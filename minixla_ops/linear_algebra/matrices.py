"""Helpers for rules about stacks of matrices in the last two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import minixla_ops as ops
from minixla.core import Shape
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.shorthand import array_shape, full_like, zeros
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.programs.computations import sum_over


def transposed(value: Array) -> Array:
    """Transpose the matrices."""
    rank = array_shape(value).rank
    return ops.transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(value: Array) -> Array:
    """Return the conjugate transposes."""
    return transposed(conjugate(value))


def oriented(value: Array, transpose_a: str) -> Array:
    """Return op(value), as defined by TriangularSolve."""
    if transpose_a == "NO_TRANSPOSE":
        return value
    return adjoint(value) if transpose_a == "ADJOINT" else transposed(value)


def product(lhs: Array, rhs: Array) -> Array:
    """Multiply two stacks of matrices with the same batch dimensions."""
    rank = array_shape(lhs).rank
    batch = range(rank - 2)
    numbers = DotDimensionNumbers((rank - 1,), (rank - 2,), batch, batch)
    return ops.dot_general(lhs, rhs, numbers, "HIGHEST")


def triangle(
    value: Array, lower: bool, strict: bool = False, other: ArrayLike | None = None
) -> Array:
    """Keep one triangle, with or without the diagonal; `other`, by default zeros, elsewhere."""
    shape = array_shape(value)
    row, column = _positions(shape)
    pair = (column, row) if lower else (row, column)
    other = zeros(shape) if other is None else other
    return ops.select(_in_each(_compared(strict, *pair), shape), value, other)


def identity(shape: Shape) -> Array:
    """Return matrices with ones on the diagonal and zeros elsewhere."""
    return ops.convert_element_type(on_diagonal(shape), shape.element_type)


def on_diagonal(shape: Shape) -> Array:
    """Return a pred mask of the diagonals of matrices."""
    return _in_each(ops.eq(*_positions(shape)), shape)


def diagonal(value: Array) -> Array:
    """Return the diagonals."""
    k = min(array_shape(value).dimensions[-2:])
    value = columns(rows(value, 0, k), 0, k)
    shape = array_shape(value)
    return sum_over(ops.select(on_diagonal(shape), value, zeros(shape)), (shape.rank - 1,))


def columns(value: Array, start: int, stop: int) -> Array:
    """Return some columns."""
    return ops.slice_in_dim(value, start, stop, array_shape(value).rank - 1)


def rows(value: Array, start: int, stop: int) -> Array:
    """Return some rows."""
    return ops.slice_in_dim(value, start, stop, array_shape(value).rank - 2)


def joined(parts: Sequence[ArrayLike], dimension: int) -> Array:
    """Join blocks along the last dimension (-1), or along the one before it (-2)."""
    return ops.concat_in_dim(parts, array_shape(parts[0]).rank + dimension)


def permuted(value: Array, permutation: Array) -> Array:
    """Permute the rows of matrices."""
    shape = array_shape(value)
    if not shape.size:
        return value
    batch, at = range(shape.rank - 2), shape.rank - 2
    numbers = ops.GatherDimensionNumbers((at + 1,), (at,), (at,), at + 1, batch, batch)
    return ops.gather(value, permutation, numbers, (1,) * (at + 1) + shape.dimensions[-1:])


def nan_unless(is_found: Array, value: Array) -> Array:
    """Return `value` with NaN in matrices for which `is_found` is false."""
    sizes = array_shape(value).dimensions
    is_found = ops.broadcast_in_dim(is_found, sizes, range(array_shape(is_found).rank))
    return ops.select(is_found, value, full_like(value, math.nan))


def _positions(shape: Shape) -> tuple[Array, Array]:
    matrix = Shape("s32", shape.dimensions[-2:])
    return ops.iota(matrix, 0), ops.iota(matrix, 1)


def _compared(strict: bool, lhs: Array, rhs: Array) -> Array:
    return ops.lt(lhs, rhs) if strict else ops.le(lhs, rhs)


def _in_each(matrix: Array, shape: Shape) -> Array:
    """Broadcast a matrix to each element of a stack."""
    return ops.broadcast_in_dim(matrix, shape.dimensions, (shape.rank - 2, shape.rank - 1))
