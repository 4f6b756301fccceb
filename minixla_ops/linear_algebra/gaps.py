"""GapQuotient, and helpers for rules about eigenvalues and eigenvectors in columns."""

import math

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, builder, register
from minixla.core.element_types import ElementType
from minixla.typing import Array
from minixla_ops.elementwise.binary import Div
from minixla_ops.elementwise.families import INEXACT
from minixla_ops.helpers.shorthand import array_shape, full_like
from minixla_ops.linear_algebra.matrices import on_diagonal
from minixla_ops.programs.computations import sum_over


@register
class GapQuotient(Div):
    """Element-wise operand / gap; if gap is 0, then 0 for a zero operand and NaN for others.

    minixla: the quotient in derivatives of eigenvectors.

    Derivatives of eigenvectors divide mixing terms by distances of eigenvalues. For equal
    eigenvalues, the eigenvectors have a derivative only if the change does not mix them. With this
    quotient, functions of other eigenvectors keep their derivatives.

    Args:
        operand, gap: arrays with equal shapes and a float or complex type.

    Returns:
        An array with that shape.

    Example:
        >>> ops.gap_quotient(np.float32([1, 0, 1]), np.float32([2, 0, 0]))
        Array([0.5, 0. , nan], dtype=float32)
    """

    spec_names = ()
    operands = "operand", "gap"
    element_types = INEXACT
    stablehlo_name = None

    def reference(self, operand, gap):
        with np.errstate(all="ignore"):
            quotient = np.where(gap == 0, np.nan, operand / gap)
        return np.where(operand == 0, 0, quotient).astype(operand.dtype)

    def lowered(self, operand, gap):
        quotient = ops.select(gap == 0, full_like(operand, math.nan), operand / gap)
        return ops.select(operand == 0, full_like(operand, 0), quotient)

    def over(self, change, divisor):
        return self(change, divisor)


def column_sums(value: Array) -> Array:
    """Sum the elements of each column."""
    return sum_over(value, (array_shape(value).rank - 2,))


def over_columns(value: Array, like: Shape) -> Array:
    """Repeat a value for each column along the columns of matrices with shape `like`."""
    kept = [index for index in range(like.rank) if index != like.rank - 2]
    return ops.broadcast_in_dim(value, like.dimensions, kept)


def over_rows(value: Array, like: Shape) -> Array:
    """Repeat a value for each row along the rows of matrices with shape `like`."""
    return ops.broadcast_in_dim(value, like.dimensions, range(like.rank - 1))


def off_diagonal(value: Array) -> Array:
    """Set the elements on the diagonal to zero."""
    return ops.select(on_diagonal(array_shape(value)), full_like(value, 0), value)


def gaps_between(values: Array, kind: ElementType) -> Array:
    """Return matrices of values[j] - values[i] with type `kind`, and ones on the diagonals."""
    shape = array_shape(values)
    like = Shape(shape.element_type, (*shape.dimensions, shape.dimensions[-1]))
    differences = over_columns(values, like) - over_rows(values, like)
    differences = ops.select(on_diagonal(like), full_like(differences, 1), differences)
    return ops.convert_element_type(differences, kind)


gap_quotient = builder(GapQuotient)
