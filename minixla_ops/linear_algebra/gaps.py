"""GapQuotient, and helpers of rules about eigenvalues and vectors in columns."""

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
    """operand / gap; where the gap is 0, 0 for an operand that is 0 and NaN for others.

    minixla: what derivatives of eigenvectors divide by.

    Derivatives of eigenvectors are sums of what a change mixes, over distances of eigenvalues. Of
    equal eigenvalues the vectors have a derivative only where nothing mixes them: a function of
    other vectors keeps its derivative so.

    Args:
        operand, gap: arrays of one shape, of a float or complex type.

    Returns:
        An array of that shape.

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
    """The sums of the elements in each column."""
    return sum_over(value, (array_shape(value).rank - 2,))


def over_columns(value: Array, like: Shape) -> Array:
    """A number for each column, repeated along the columns of matrices of shape `like`."""
    kept = [index for index in range(like.rank) if index != like.rank - 2]
    return ops.broadcast_in_dim(value, like.dimensions, kept)


def over_rows(value: Array, like: Shape) -> Array:
    """A number for each row, repeated along the rows of matrices of shape `like`."""
    return ops.broadcast_in_dim(value, like.dimensions, range(like.rank - 1))


def off_diagonal(value: Array) -> Array:
    """The elements outside of the diagonal; zeros there."""
    return ops.select(on_diagonal(array_shape(value)), full_like(value, 0), value)


def gaps_between(values: Array, kind: ElementType) -> Array:
    """The matrices of values[j] - values[i], as elements of `kind`; ones on the diagonals."""
    shape = array_shape(values)
    like = Shape(shape.element_type, (*shape.dimensions, shape.dimensions[-1]))
    differences = over_columns(values, like) - over_rows(values, like)
    differences = ops.select(on_diagonal(like), full_like(differences, 1), differences)
    return ops.convert_element_type(differences, kind)


gap_quotient = builder(GapQuotient)
