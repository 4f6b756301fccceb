"""The trace of matrices, and the indices of their triangles."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import shape_of_rank
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike


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
    return mnp.sum(mnp.diagonal(a, offset, axis1, axis2), -1, dtype)


_INDICES = """
Args:
    n: the number of rows.
    m: the number of columns; default: n.
    arr: a matrix; only its shape counts.

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
    shape = shape_of_rank(arr, (2,), "tril_indices_from", "Give a matrix.")
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
    shape = shape_of_rank(arr, (2,), "triu_indices_from", "Give a matrix.")
    return triu_indices(shape.dimensions[0], k, shape.dimensions[1])
