"""Matrices made of blocks or diagonals, for `minixla.scipy.linalg`."""

import numpy as np

import minixla.numpy as mnp
from minixla.core.tracing import one_program
from minixla.scipy.factorizations import lu as lu
from minixla.scipy.factorizations import lu_factor as lu_factor
from minixla.scipy.factorizations import lu_solve as lu_solve
from minixla.typing import Array, ArrayLike


@one_program("c", "r")
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return matrices with constant diagonals (JAX: `jax.scipy.linalg.toeplitz`).

    Args:
        c: the first column, an array [..., m].
        r: the first row, an array [..., n]; its first element is not read. Default: the conjugate
            of c.

    Returns:
        An array [..., m, n].

    Raises:
        ValueError: an argument is not an array. The error is also a TypeError.

    Example:
        >>> mx.scipy.linalg.toeplitz(np.int32([1, 2]), np.int32([0, 5]))
        Array([[1, 5],
               [2, 1]], dtype=int32)
    """
    column = mnp.atleast_1d(c)
    row = mnp.conjugate(column) if r is None else mnp.atleast_1d(r)
    m, n = column.shape[-1], row.shape[-1]
    batch = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (mnp.broadcast_to(vector, (*batch, vector.shape[-1])) for vector in (column, row))
    values = mnp.concatenate([mnp.flip(column, -1), row[..., 1:]], -1)
    return values[..., np.arange(n)[None, :] - np.arange(m)[:, None] + max(m - 1, 0)]
