"""LU factors in SciPy's format; `minixla.scipy.linalg` exports these functions."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.operands import convert, lifted, operand_shape
from minixla.numpy.systems import matrices
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.linear_algebra.lu import permutation_of
from minixla_ops.linear_algebra.matrices import permuted, triangle
from minixla_ops.linear_algebra.solving import solve_by_lu

#: Sections that solvers and factorizations share.
SHARED = """
Args:
    a: an array [..., n, n].
    b: [n] or [..., n, k].
    overwrite_a: ignored; arrays do not change.
    overwrite_b: ignored; arrays do not change.
    debug: ignored.
    check_finite: ignored; NaN gives NaN.

Raises:
    MatrixError: `a` is not a square matrix or a stack of square matrices.
"""
TRANSPOSES = dict(enumerate(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")))


def pair(value: Any, subject: str, name: str) -> tuple[Any, Any]:
    """Return the pair of factors that a factorization returned, for a function that solves.

    Raises:
        AttributeValueError: the value is not a pair.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    advice = "Pass the result of the function that factors matrices."
    raise operands.value_error(subject, f"{name} is not a pair", advice, **{name: value})


@documented(SHARED)
@one_program("a")
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Factor matrices: a = p l u, where p permutes rows (JAX: `jax.scipy.linalg.lu`).

    Args:
        a: an array [..., m, n].
        permute_l: whether to return only p l and u.

    Returns:
        p [..., m, m], l [..., m, k] with ones on the diagonal, and u [..., k, n], for k = min(m,
        n); or p l and u.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices.

    Example:
        >>> p, l, u = mx.scipy.linalg.lu(np.float32([[1, 2], [4, 4]]))
        >>> u
        Array([[4., 4.],
               [0., 1.]], dtype=float32)
    """
    value = matrices(a, "lu")
    m, n = value.shape[-2:]
    k, kind = min(m, n), operands.kind_of(value)
    packed, _, permutation = ops.lu(value)
    ones = np.eye(m, k, dtype=kind.dtype)
    lower = triangle(packed[..., :k], True, strict=True) + ones
    upper = triangle(packed[..., :k, :], False)
    # Row i of p l is the row of l to which i was moved.
    back = mnp.argsort(permutation)
    if permute_l:
        return permuted(lower, back), upper
    whole = mnp.broadcast_to(np.eye(m, dtype=kind.dtype), (*value.shape[:-2], m, m))
    return permuted(whole, back), lower, upper


@documented(SHARED)
@one_program("a")
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Return the factors of matrices in one array, and the exchanges of rows.

    JAX: `jax.scipy.linalg.lu_factor`.

    Args:
        a: an array [..., m, n].

    Returns:
        An array like `a` with u in the upper triangle and l, without its diagonal, in the lower
        one; and the row that each row was exchanged with, s32 [..., min(m, n)].

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices.

    Example:
        >>> factors, exchanges = mx.scipy.linalg.lu_factor(np.float32([[1, 2], [4, 4]]))
        >>> exchanges
        Array([1, 1], dtype=int32)
    """
    return ops.lu(matrices(a, "lu_factor"))[:2]


@documented(SHARED)
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b with the result of `lu_factor` for a (JAX: `jax.scipy.linalg.lu_solve`).

    Args:
        lu_and_piv: the factors [..., n, n], and the exchanges of rows.
        b: matrices [..., n, k], or vectors [..., n] with one axis less than the factors.
        trans: 0 for a, 1 for its transpose, 2 for its conjugate transpose.

    Returns:
        x, an array like `b`.

    Raises:
        MatrixError: the factors are not a square matrix or a stack of square matrices.
        ShapeError: `b` has another number of rows.
        AttributeValueError: `lu_and_piv` is not a pair, or `trans` is unknown.

    Example:
        >>> factors = mx.scipy.linalg.lu_factor(np.float32([[2, 0], [0, 4]]))
        >>> mx.scipy.linalg.lu_solve(factors, np.float32([2, 8]))
        Array([1., 2.], dtype=float32)
    """
    operands.refuse_others(trans, TRANSPOSES, "lu_solve", "trans")
    return _lu_solve(*pair(lu_and_piv, "lu_solve", "lu_and_piv"), b, trans)


@one_program("lu", "piv", "b")
def _lu_solve(lu: Any, piv: Any, b: Any, trans: int) -> Any:
    lu = matrices(lu, "lu_solve", "lu", square=True)
    left, right = operand_shape(lu, "lu_solve"), operand_shape(b, "lu_solve")
    is_vector, n = right.rank == left.rank - 1, left.dimensions[-1]
    if right.dimensions[-1 if is_vector else -2 :][:1] != (n,):
        problem, advice = (
            "b and lu must have the same number of rows",
            "Pass b [..., n] or [..., n, k].",
        )
        raise operands.shape_error("lu_solve", problem, advice, f"lu {left}", f"b {right}")
    kind = inexact_type(operands.common_type("lu_solve", lu, b))
    lu, b = (lifted(convert(operand, kind)) for operand in (lu, b))
    b = mnp.expand_dims(b, -1) if is_vector else b
    permutation = permutation_of(lifted(piv), n) if n else lifted(piv)
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu, b = (mnp.broadcast_to(operand, (*batch, *operand.shape[-2:])) for operand in (lu, b))
    permutation = mnp.broadcast_to(permutation, (*batch, n))
    x = solve_by_lu(lu, permutation, b, TRANSPOSES[trans])
    return mnp.squeeze(x, -1) if is_vector else x
