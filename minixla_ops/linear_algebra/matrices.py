"""Helpers of rules about stacks of matrices, which are in the last two dimensions."""

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core import Shape
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.shorthand import array_shape, full_like, zeros
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.programs.computations import sum_over


def transposed(value: Any) -> Any:
    """The transposes."""
    rank = array_shape(value).rank
    return ops.transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(value: Any) -> Any:
    """The conjugate transposes."""
    return transposed(conjugate(value))


def oriented(value: Any, transpose_a: str) -> Any:
    """op(value), as TriangularSolve has it."""
    if transpose_a == "NO_TRANSPOSE":
        return value
    return adjoint(value) if transpose_a == "ADJOINT" else transposed(value)


def product(lhs: Any, rhs: Any) -> Any:
    """The matrix products of two stacks with the same dimensions in front."""
    rank = array_shape(lhs).rank
    batch = range(rank - 2)
    numbers = DotDimensionNumbers((rank - 1,), (rank - 2,), batch, batch)
    return ops.dot_general(lhs, rhs, numbers, "HIGHEST")


def triangle(value: Any, lower: bool, strict: bool = False, other: Any = None) -> Any:
    """One triangle, with or without the diagonal; elsewhere `other`, by default zeros."""
    shape = array_shape(value)
    row, column = _positions(shape)
    pair = (column, row) if lower else (row, column)
    other = zeros(shape) if other is None else other
    return ops.select(_in_each(_compared(strict, *pair), shape), value, other)


def identity(shape: Shape) -> Any:
    """Ones on the diagonal, zeros elsewhere."""
    return ops.convert_element_type(on_diagonal(shape), shape.element_type)


def on_diagonal(shape: Shape) -> Any:
    """Where the diagonals of matrices are, as pred."""
    return _in_each(ops.eq(*_positions(shape)), shape)


def diagonal(value: Any) -> Any:
    """The diagonals."""
    k = min(array_shape(value).dimensions[-2:])
    value = columns(rows(value, 0, k), 0, k)
    shape = array_shape(value)
    return sum_over(ops.select(on_diagonal(shape), value, zeros(shape)), (shape.rank - 1,))


def columns(value: Any, start: int, stop: int) -> Any:
    """Some columns."""
    return ops.slice_in_dim(value, start, stop, array_shape(value).rank - 1)


def rows(value: Any, start: int, stop: int) -> Any:
    """Some rows."""
    return ops.slice_in_dim(value, start, stop, array_shape(value).rank - 2)


def joined(parts: Sequence[Any], dimension: int) -> Any:
    """Blocks side by side in the last dimension (-1), or one below the other (-2)."""
    return ops.concat_in_dim(parts, array_shape(parts[0]).rank + dimension)


def permuted(value: Any, permutation: Any) -> Any:
    """The rows of matrices in another order."""
    shape = array_shape(value)
    if not shape.size:
        return value
    batch, at = range(shape.rank - 2), shape.rank - 2
    numbers = ops.GatherDimensionNumbers((at + 1,), (at,), (at,), at + 1, batch, batch)
    return ops.gather(value, permutation, numbers, (1,) * (at + 1) + shape.dimensions[-1:])


def nan_unless(found: Any, value: Any) -> Any:
    """`value`, NaN in the members of a stack for which `found`, a pred each, does not hold."""
    sizes = array_shape(value).dimensions
    found = ops.broadcast_in_dim(found, sizes, range(array_shape(found).rank))
    return ops.select(found, value, full_like(value, math.nan))


def _positions(shape: Shape) -> tuple[Any, Any]:
    matrix = Shape("s32", shape.dimensions[-2:])
    return ops.iota(matrix, 0), ops.iota(matrix, 1)


def _compared(strict: bool, lhs: Any, rhs: Any) -> Any:
    return ops.lt(lhs, rhs) if strict else ops.le(lhs, rhs)


def _in_each(matrix: Any, shape: Shape) -> Any:
    """A matrix for each member of a stack."""
    return ops.broadcast_in_dim(matrix, shape.dimensions, (shape.rank - 2, shape.rank - 1))
