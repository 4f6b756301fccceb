"""Functions that make, cut and read the diagonals and triangles of matrices."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import F32, ElementType
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import named, placeable
from minixla.numpy.operands import convert, lifted, operand_shape, shape_of_rank, static_size
from minixla_ops.helpers import shorthand
from minixla_ops.helpers.shorthand import splat


def _compared(name: str, compare: Any, N: Any, M: Any, k: Any, kind: ElementType) -> Any:
    """Where the number of a row, plus k, compares with that of the column."""
    rows, columns = static_size(N, name, "N"), static_size(N if M is None else M, name, "M")
    shape = Shape("s32", (rows, columns))
    if isinstance(k, int):  # farther away there are no elements
        k = min(max(k, -rows), columns)
    elif operand_shape(k, name).rank:
        raise operands.shape_error(name, f"k is {operand_shape(k, name)}", "Give one integer.")
    return lifted(convert(compare(ops.iota(shape, 0) + k, ops.iota(shape, 1)), kind))


@placeable("device")
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on a diagonal and zeros elsewhere."""
    kind = operands.requested_type(dtype, "eye", operands.default_float())
    return _compared("eye", ops.eq, N, M, k, kind)


def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix of n rows."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on and below the diagonal `k` above the main one; zeros above."""
    return _compared("tri", ops.ge, N, M, k, operands.requested_type(dtype, "tri", F32))


def _triangle(name: str, is_lower: bool, text: str) -> Any:
    def triangle(m: Any, k: int = 0) -> Any:
        shape = shape_of_rank(m, range(2, 1 << 16), name, "It must have two dimensions or more.")
        mask = tri(*shape.dimensions[-2:], k=k if is_lower else k - 1, dtype=bool)
        kept = (m, shorthand.zeros(shape)) if is_lower else (shorthand.zeros(shape), m)
        return operands.keep_weak(ops.select(mnp.broadcast_to(mask, shape.dimensions), *kept), m)

    return one_program("m")(named(triangle, name, text))


tril = _triangle("tril", True, "Matrices with zeros above the diagonal `k` above the main one.")
triu = _triangle("triu", False, "Matrices with zeros below the diagonal `k` above the main one.")


@one_program("a")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of matrices, `offset` above the main one, as the last axis.

    The rows of the matrices are along `axis1` of `a`, their columns along `axis2`.
    """
    rank = operand_shape(a, "diagonal").rank
    axes = [operands.axis_of(axis, rank, "diagonal") for axis in (axis1, axis2)]
    if axes[0] == axes[1]:
        problem = "axis1 and axis2 are one axis"
        raise operands.value_error("diagonal", problem, "Give two.", axis1=axis1, axis2=axis2)
    a = mnp.moveaxis(a, axes, (-2, -1))
    *outer, rows, columns = operand_shape(a, "diagonal").dimensions
    offset = operands.static_int(offset, "diagonal", "offset")
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not count:
        return mnp.zeros((*outer, 0), operands.kind_of(a))
    # In row-major order the elements of a diagonal are columns + 1 apart.
    start = offset if offset >= 0 else -offset * columns
    flat = mnp.reshape(a, (*outer, rows * columns))
    limit = start + (count - 1) * (columns + 1) + 1
    return operands.keep_weak(ops.slice_in_dim(flat, start, limit, len(outer), columns + 1), a)


@one_program("a")
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    """The sum of a diagonal of matrices; arguments as for `diagonal`."""
    operands.refuse_out("trace", out)
    return mnp.sum(diagonal(a, offset, axis1, axis2), -1, dtype)


@one_program("v")
def diag(v: Any, k: int = 0) -> Any:
    """A matrix with the vector `v` on a diagonal; of a matrix `v`, that diagonal.

    Args:
        v: a vector or a matrix.
        k: how far above the main diagonal it is.

    Raises:
        ShapeError: `v` has another rank.
    """
    shape = shape_of_rank(v, (1, 2), "diag", "Give a vector or a matrix.")
    offset = operands.static_int(k, "diag", "k")
    if shape.rank == 2:
        return diagonal(v, offset)
    size = shape.size + abs(offset)
    if not shape.size:
        return mnp.zeros((size, size), shape.element_type)
    # Between neighbours on a diagonal there is one row of the matrix.
    low = offset if offset >= 0 else -offset * size
    high = size * size - low - (shape.size - 1) * (size + 1) - 1
    zero = splat(0, Shape(shape.element_type))
    return operands.keep_weak(ops.reshape(ops.pad(v, zero, [(low, high, size)]), (size, size)), v)


def _triangle_indices(name: str, find: Any, which: str) -> tuple[Any, Any]:
    """The functions of sizes, and of an array, that find a triangle."""

    def of_sizes(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
        given = {"n": n, "k": k} | ({} if m is None else {"m": m})
        known = {each: operands.static_int(x, name, each) for each, x in given.items()}
        return operands.host_indices(find(**known))

    def of_array(arr: Any, k: int = 0) -> tuple[Any, Any]:
        shape = shape_of_rank(arr, (2,), f"{name}_from", "Give a matrix.")
        return of_sizes(shape.dimensions[0], k, shape.dimensions[1])

    text = f"The row and column indices of the {which} triangle of"
    named(of_array, f"{name}_from", f"{text} a matrix.")
    return named(of_sizes, name, f"{text} an n by m matrix."), of_array


tril_indices, tril_indices_from = _triangle_indices("tril_indices", np.tril_indices, "lower")
triu_indices, triu_indices_from = _triangle_indices("triu_indices", np.triu_indices, "upper")
