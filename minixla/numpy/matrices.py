"""Identity matrices, diagonals and triangles of matrices, their indices, and the trace."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32, ElementType
from minixla.core.shapes import Shape
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import convert, lifted, operand_shape, shape_of_rank, static_size
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.helpers import shorthand
from minixla_ops.helpers.shorthand import splat

_SIZES = """
Args:
    N: the number of rows.
    M: the number of columns; default: N.
    dtype: the element type of the result; default: the default float type.

Returns:
    A matrix.

Raises:
    AttributeValueError: a size is negative or not an integer.
    ShapeError: `dtype` is not an element type.
"""


def _compared(name: str, compare: Any, N: Any, M: Any, k: Any, kind: ElementType) -> Any:
    """Compare the index of each row, plus k, with the index of each column."""
    rows, columns = static_size(N, name, "N"), static_size(N if M is None else M, name, "M")
    shape = Shape("s32", (rows, columns))
    if isinstance(k, int):  # no elements are farther away
        k = min(max(k, -rows), columns)
    elif operand_shape(k, name).rank:
        raise operands.shape_error(name, f"k is {operand_shape(k, name)}", "Pass one integer.")
    return lifted(convert(compare(ops.iota(shape, 0) + k, ops.iota(shape, 1)), kind))


@documented(PARAMETERS, _SIZES)
@placeable("device")
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Example:
        >>> np.eye(2, 3, k=1)
        Array([[0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    kind = operands.requested_type(dtype, "eye", operands.default_float())
    return _compared("eye", ops.eq, N, M, k, kind)


@documented(PARAMETERS, _SIZES)
def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Return the identity matrix.

    Args:
        n: the number of rows and columns.

    Example:
        >>> np.identity(2, dtype=int)
        Array([[1, 0],
               [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


@documented(PARAMETERS, _SIZES)
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return a matrix with ones on and below a diagonal, and zeros above.

    Example:
        >>> np.tri(3, dtype=int)
        Array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]], dtype=int32)
    """
    return _compared("tri", ops.ge, N, M, k, operands.requested_type(dtype, "tri", F32))


def _triangle(name: str, is_lower: bool, m: Any, k: int) -> Any:
    shape = shape_of_rank(m, range(2, 1 << 16), name, "It must have two dimensions or more.")
    mask = tri(*shape.dimensions[-2:], k=k if is_lower else k - 1, dtype=bool)
    kept = (m, shorthand.zeros(shape)) if is_lower else (shorthand.zeros(shape), m)
    return operands.keep_weak(ops.select(mnp.broadcast_to(mask, shape.dimensions), *kept), m)


@one_program("m")
@documented(PARAMETERS)
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Set the elements of matrices above a diagonal to 0.

    Args:
        m: matrices [..., rows, columns].

    Raises:
        ShapeError: `m` has fewer than two dimensions.

    Example:
        >>> np.tril(np.ones((3, 3), dtype=int), k=-1)
        Array([[0, 0, 0],
               [1, 0, 0],
               [1, 1, 0]], dtype=int32)
    """
    return _triangle("tril", True, m, k)


@one_program("m")
@documented(PARAMETERS)
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Set the elements of matrices below a diagonal to 0.

    Args:
        m: matrices [..., rows, columns].

    Raises:
        ShapeError: `m` has fewer than two dimensions.

    Example:
        >>> np.triu(np.ones((3, 3), dtype=int))
        Array([[1, 1, 1],
               [0, 1, 1],
               [0, 0, 1]], dtype=int32)
    """
    return _triangle("triu", False, m, k)


@documented(PARAMETERS)
@one_program("a")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of matrices as the last axis.

    Args:
        axis1: the axis of the rows.
        axis2: the axis of the columns.

    Returns:
        An array of one dimension less, whose last axis is along the diagonals.

    Example:
        >>> np.diagonal(np.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    rank = operand_shape(a, "diagonal").rank
    axes = [operands.axis_of(axis, rank, "diagonal") for axis in (axis1, axis2)]
    if axes[0] == axes[1]:
        problem = "axis1 and axis2 are the same axis"
        raise operands.value_error("diagonal", problem, "Pass two.", axis1=axis1, axis2=axis2)
    a = mnp.moveaxis(a, axes, (-2, -1))
    *outer, rows, columns = operand_shape(a, "diagonal").dimensions
    offset = operands.static_int(offset, "diagonal", "offset")
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not count:
        return mnp.zeros((*outer, 0), operands.kind_of(a))
    # In row-major order, neighbors on a diagonal are columns + 1 elements from each other.
    start = offset if offset >= 0 else -offset * columns
    flat = mnp.reshape(a, (*outer, rows * columns))
    limit = start + (count - 1) * (columns + 1) + 1
    return operands.keep_weak(ops.slice_in_dim(flat, start, limit, len(outer), columns + 1), a)


@documented(PARAMETERS)
@one_program("a")
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Sum the diagonals of matrices; see `diagonal`.

    Args:
        axis1: the axis of the rows.
        axis2: the axis of the columns.
        dtype: the type to sum in and return; default: that of `a`, widened to the default integer
            type.

    Example:
        >>> np.trace(np.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    operands.refuse_out("trace", out)
    shape_of_rank(a, range(2, 1 << 16), "trace", "It must have two dimensions or more.")
    return mnp.sum(diagonal(a, offset, axis1, axis2), -1, dtype)


@documented(PARAMETERS)
@one_program("v")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return a matrix with a vector on a diagonal, or the diagonal of a matrix.

    Args:
        v: a vector or a matrix.

    Returns:
        A matrix for a vector, and a vector for a matrix.

    Example:
        >>> np.diag(np.array([1, 2]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
        >>> np.diag(np.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    shape = shape_of_rank(v, (1, 2), "diag", "Pass a vector or a matrix.")
    offset = operands.static_int(k, "diag", "k")
    if shape.rank == 2:
        return diagonal(v, offset)
    size = shape.size + abs(offset)
    if not shape.size:
        return mnp.zeros((size, size), shape.element_type)
    # Neighbors on a diagonal have one row of the matrix between them.
    low = offset if offset >= 0 else -offset * size
    high = size * size - low - (shape.size - 1) * (size + 1) - 1
    zero = splat(0, Shape(shape.element_type))
    return operands.keep_weak(ops.reshape(ops.pad(v, zero, [(low, high, size)]), (size, size)), v)


_INDICES = """
Args:
    n: the number of rows.
    m: the number of columns; default: n.
    arr: a matrix; only its shape is used.

Returns:
    A pair of vectors of integers, in row-major order.

Raises:
    ValueError: an argument is not an integer, or is negative.
"""


def _triangle_indices(name: str, find: Any, n: int, k: int, m: int | None) -> tuple[Array, Array]:
    arguments = {"n": n, "k": k} | ({} if m is None else {"m": m})
    numbers = {label: operands.static_int(x, name, label) for label, x in arguments.items()}
    return operands.host_indices(find(**numbers))


@documented(PARAMETERS, _INDICES)
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the row and column indices of the lower triangle of an n by m matrix.

    Example:
        >>> np.tril_indices(2)
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _triangle_indices("tril_indices", np.tril_indices, n, k, m)


@documented(PARAMETERS, _INDICES)
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the row and column indices of the lower triangle of a matrix.

    Example:
        >>> np.tril_indices_from(np.zeros((2, 2)))
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    shape = shape_of_rank(arr, (2,), "tril_indices_from", "Pass a matrix.")
    return tril_indices(shape.dimensions[0], k, shape.dimensions[1])


@documented(PARAMETERS, _INDICES)
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the row and column indices of the upper triangle of an n by m matrix.

    Example:
        >>> np.triu_indices(2, k=1)
        (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    return _triangle_indices("triu_indices", np.triu_indices, n, k, m)


@documented(PARAMETERS, _INDICES)
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the row and column indices of the upper triangle of a matrix.

    Example:
        >>> np.triu_indices_from(np.zeros((2, 2)))
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    shape = shape_of_rank(arr, (2,), "triu_indices_from", "Pass a matrix.")
    return triu_indices(shape.dimensions[0], k, shape.dimensions[1])
