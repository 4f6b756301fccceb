"""Linear algebra: the functions of jax.scipy.linalg.

This file and `factorizations.py` implement factorizations, solvers and block matrices. Matrix
functions (expm, funm, sqrtm) and special matrices are JAX's functions.

Ignored arguments exist for compatibility with SciPy.
"""

# ruff: noqa: F403 - `__all__` lists the public names

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.scipy import linalg as _linalg
from jax.scipy.linalg import *

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.source import offer_functions
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.isometries import isometry
from minixla.numpy.operands import convert, kind_of, lifted, operand_shape
from minixla.numpy.spectra import computed
from minixla.scipy.factorizations import SHARED, TRANSPOSES, pair
from minixla.scipy.factorizations import lu as lu
from minixla.scipy.factorizations import lu_factor as lu_factor
from minixla.scipy.factorizations import lu_solve as lu_solve
from minixla.scipy.special_matrices import toeplitz as toeplitz
from minixla.typing import Array, ArrayLike, KeyLike
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.linear_algebra.matrices import adjoint, product

_TRANSPOSES: dict[Any, str] = dict(TRANSPOSES)
_TRANSPOSES |= dict(zip("NTC", _TRANSPOSES.values(), strict=True))


def _solution(subject: str, solve: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Apply `solve` to matrices and right sides of one type, whose leading axes broadcast."""
    kind = inexact_type(operands.common_type(subject, a, b))
    left, right = operand_shape(a, subject), operand_shape(b, subject)
    is_vector = right.rank == 1
    sizes = left.dimensions[-2:], right.dimensions[-1:] if is_vector else right.dimensions[-2:-1]
    if len(sizes[0]) < 2 or {*sizes[0]} != {*sizes[1]}:
        problem = "a is not a square matrix, or b has another number of rows"
        advice = "Pass a [..., n, n] and b [n] or [..., n, k]."
        raise operands.shape_error(subject, problem, advice, f"a {left}", f"b {right}")
    a, b = (lifted(convert(operand, kind)) for operand in (a, b))
    b = b[:, None] if is_vector else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (mnp.broadcast_to(operand, (*batch, *operand.shape[-2:])) for operand in (a, b))
    x = solve(a, b)
    return x[..., 0] if is_vector else x


@documented(SHARED)
@one_program("a")
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Return the Cholesky factors of Hermitian positive definite matrices: a = u^H u, or l l^H.

    JAX: `jax.scipy.linalg.cholesky`.

    Args:
        a: an array [..., n, n]; only one triangle is read.
        lower: whether this is the lower triangle, with a = l l^H.

    Returns:
        The factors, with zeros in the other triangle; NaN where a matrix is not positive definite.

    Example:
        >>> mx.scipy.linalg.cholesky(np.float32([[4, 2], [2, 5]]), lower=True)
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    return computed(lambda x: ops.cholesky(x, bool(lower)), a, "cholesky", square=True)


@documented(SHARED)
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return the Cholesky factors of matrices and `lower`, for `cho_solve`; see `cholesky`.

    JAX: `jax.scipy.linalg.cho_factor`.

    Args:
        lower: whether the lower triangle is read and computed, not the upper one.

    Returns:
        The pair of an array like `a`, whose other triangle is unspecified, and `lower`.

    Example:
        >>> factor, lower = mx.scipy.linalg.cho_factor(np.float32([[4, 2], [2, 5]]), lower=True)
        >>> factor[1, 1], lower
        (Array(2., dtype=float32), True)
    """
    return cholesky(a, lower), lower


@one_program("c", "b")
def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    def solve(c: Any, b: Any) -> Any:
        first, second = ("NO_TRANSPOSE", "ADJOINT") if lower else ("ADJOINT", "NO_TRANSPOSE")
        x = ops.triangular_solve(c, b, True, bool(lower), False, first)
        return ops.triangular_solve(c, x, True, bool(lower), False, second)

    return _solution("cho_solve", solve, c, b)


@documented(SHARED)
def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b with the factors of a that `cho_factor` returns.

        x = cho_solve(cho_factor(a), b)

    JAX: `jax.scipy.linalg.cho_solve`.

    Args:
        c_and_lower: the factors c, [..., n, n], and whether they are lower triangular.

    Returns:
        x, an array like `b`.

    Raises:
        ShapeError: the sizes do not match.
        AttributeValueError: `c_and_lower` is not a pair.

    Example:
        >>> factors = mx.scipy.linalg.cho_factor(np.float32([[4, 0], [0, 2]]))
        >>> mx.scipy.linalg.cho_solve(factors, np.float32([8, 2]))
        Array([2.        , 0.99999994], dtype=float32)
    """
    c, lower = pair(c_and_lower, "cho_solve", "c_and_lower")
    return _cho_solve(c, b, lower)


@documented(SHARED)
@one_program("a", "b")
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b for triangular matrices a (JAX: `jax.scipy.linalg.solve_triangular`).

    Args:
        a: an array [..., n, n]; only one triangle is read.
        trans: 0 or "N" for a, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose.
        lower: whether the lower triangle is read, not the upper one.
        unit_diagonal: whether the diagonal is assumed to be ones, and not read.

    Returns:
        x, an array like `b`.

    Raises:
        ShapeError: the sizes do not match.
        AttributeValueError: `trans` is unknown.

    Example:
        >>> a, b = np.float32([[2, 0], [1, 1]]), np.float32([2, 4])
        >>> mx.scipy.linalg.solve_triangular(a, b, lower=True)
        Array([1., 3.], dtype=float32)
    """
    operands.refuse_others(trans, _TRANSPOSES, "solve_triangular", "trans")

    def solve(a: Any, b: Any) -> Any:
        flags = bool(lower), bool(unit_diagonal)
        return ops.triangular_solve(a, b, True, *flags, _TRANSPOSES[trans])

    return _solution("solve_triangular", solve, a, b)


@documented(SHARED)
@one_program("a", "b")
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solve a x = b (JAX: `jax.scipy.linalg.solve`); see `mx.numpy.linalg.solve`.

    Args:
        lower: which triangle is read, for `assume_a="pos"`.
        assume_a: "pos" for Hermitian positive definite matrices, which are solved by Cholesky
            factors; "gen", "sym" and "her" for others.

    Returns:
        x, an array like `b`.

    Raises:
        ShapeError: the sizes do not match.
        AttributeValueError: `assume_a` is unknown.

    Example:
        >>> mx.scipy.linalg.solve(np.float32([[2, 0], [0, 4]]), np.float32([2, 8]))
        Array([1., 2.], dtype=float32)
    """
    operands.refuse_others(assume_a, ("gen", "sym", "her", "pos"), "solve", "assume_a")
    if assume_a == "pos":
        return cho_solve(cho_factor(a, lower), b)
    return mnp.linalg.solve(a, b)


@documented(SHARED)
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Invert matrices (JAX: `jax.scipy.linalg.inv`); see `mx.numpy.linalg.inv`.

    Returns:
        An array like `a`.

    Example:
        >>> mx.scipy.linalg.inv(np.float32([[2, 0], [0, 4]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    return mnp.linalg.inv(a)


@documented(SHARED)
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinants of matrices (JAX: `jax.scipy.linalg.det`); see `mx.numpy.linalg.det`.

    Returns:
        An array [...].

    Example:
        >>> mx.scipy.linalg.det(np.float32([[1, 2], [3, 4]]))
        Array(-1.9999999, dtype=float32)
    """
    return mnp.linalg.det(a)


@documented(SHARED)
@one_program("a")
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return the singular value decomposition of matrices (JAX: `jax.scipy.linalg.svd`).

    Args:
        a: an array [..., m, n].
        full_matrices: whether u and vh are square; if not, they have min(m, n) columns and rows.
        compute_uv: whether to return u and vh.
        lapack_driver: ignored.

    Returns:
        (u, s, vh), or only s: the singular values [..., min(m, n)], in descending order.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices.

    Example:
        >>> mx.scipy.linalg.svd(np.float32([[3, 0], [0, 4]]), compute_uv=False)
        Array([4., 3.], dtype=float32)
    """
    factors = mnp.linalg.svd(a, full_matrices, compute_uv)
    return tuple(factors) if compute_uv else factors


@documented(SHARED)
@one_program("a", "b")
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices (JAX: `jax.scipy.linalg.eigh`).

    With `b` they solve a v = b v diag(w).

    Args:
        a: an array [..., n, n]; (a + a^H) / 2 is used.
        b: positive definite matrices; the eigenvectors are orthogonal in their inner products.
        lower: which triangle of b is read.
        eigvals_only: whether to return only the eigenvalues.
        turbo: ignored.
        eigvals: the first and the last index of the eigenvalues to return, counted from 0.
        type: must be 1; SciPy's other problems with two matrices are not supported.

    Returns:
        The eigenvalues [..., n] in ascending order, and the eigenvectors [..., n, n] in columns.

    Raises:
        MatrixError: `a` is not a square matrix or a stack of square matrices.
        AttributeValueError: `type` is not 1.

    Example:
        >>> values, vectors = mx.scipy.linalg.eigh(np.float32([[2, 1], [1, 2]]))
        >>> values
        Array([1., 3.], dtype=float32)
    """
    operands.refuse_others(type, (1,), "eigh", "type")
    if not (eigvals is None or (isinstance(eigvals, (tuple, list)) and len(eigvals) == 2)):
        problem, advice = "eigvals is not a pair", "Pass the first and the last index, or None."
        raise operands.value_error("eigh", problem, advice, eigvals=eigvals)
    if b is not None:
        a, b = (lifted(operand) for operand in operands.convert_all("eigh", [a, b]))
        b = cholesky(b if lower else adjoint(b), lower=True)
        half = solve_triangular(b, (a + adjoint(a)) * 0.5, lower=True)
        a = adjoint(solve_triangular(b, adjoint(half), lower=True))
    first, last = (0, None) if eigvals is None else (eigvals[0], eigvals[1] + 1)
    if eigvals_only:
        return mnp.linalg.eigvalsh(a)[..., first:last]
    values, vectors = mnp.linalg.eigh(a)
    if b is not None:
        vectors = solve_triangular(b, vectors, "C", lower=True)
    return values[..., first:last], vectors[..., first:last]


@one_program("d", "e")
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: KeyLike | None = None,
) -> Any:
    """Return eigenvalues and eigenvectors of a Hermitian tridiagonal matrix, by `eigh`.

    JAX: `jax.scipy.linalg.eigh_tridiagonal`.

    Args:
        d: the diagonal, [n], real.
        e: the diagonal above, [n - 1]; the diagonal below contains the conjugates.
        eigvals_only: whether to return only the eigenvalues.
        select: "a" for all, "i" for the indices in `select_range`, including the last. Selection by
            value, "v", is not supported, because the size of the result would depend on values.
        select_range: two integers, for "i".
        tol: ignored; JAX bisects.
        key: ignored; JAX starts from random vectors.

    Returns:
        The eigenvalues, in ascending order; with `eigvals_only=False` also the eigenvectors.

    Raises:
        ShapeError: d or e is not a vector, or their lengths do not match.
        AttributeValueError: `select` is unknown, or `select_range` is missing.

    Example:
        >>> d, e = np.float32([2, 2]), np.float32([1])
        >>> mx.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True)
        Array([1., 3.], dtype=float32)
    """
    operands.refuse_others(select, ("a", "i"), "eigh_tridiagonal", "select")
    left, right = (operand_shape(vector, "eigh_tridiagonal").dimensions for vector in (d, e))
    if len(left) != 1 or len(right) != 1 or left[0] != right[0] + 1:
        advice = "Pass d [n] and e [n - 1]."
        details = f"d {left}", f"e {right}"
        raise operands.shape_error("eigh_tridiagonal", "d and e do not fit", advice, *details)
    if select == "i" and select_range is None:
        advice = "Pass select_range=(first, last)."
        raise operands.value_error("eigh_tridiagonal", 'select "i" requires a range', advice)
    d, e = operands.convert_all("eigh_tridiagonal", [mnp.real(d), e])
    a = mnp.diag(d) + mnp.diag(e, 1) + mnp.diag(mnp.conjugate(e), -1)
    return eigh(a, eigvals_only=eigvals_only, eigvals=select_range if select == "i" else None)  # type: ignore[arg-type]  # JAX's annotation


@one_program("a")
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """Return the Schur form of square matrices, a = z t z^H (JAX: `jax.scipy.linalg.schur`).

    It runs only on CPUs and has no derivatives.

    Args:
        a: an array [..., n, n].
        output: "complex" for a triangular t also for real matrices. With "real", t has 2 x 2 blocks
            for pairs of complex eigenvalues.

    Returns:
        t, z: arrays like `a`.

    Raises:
        MatrixError: `a` is not a square matrix or a stack of square matrices.
        AttributeValueError: `output` is unknown.

    Example:
        >>> a = np.float32([[2, 1], [0, 3]])
        >>> t, z = mx.scipy.linalg.schur(a)
        >>> np.allclose(z @ t @ z.T, a, atol=1e-5)
        True
    """
    operands.refuse_others(output, ("real", "complex"), "schur", "output")
    is_complex = output == "complex"

    def apply(x: Any) -> Any:
        return ops.schur(convert(x, kind_of(x).complex) if is_complex else x)

    return computed(apply, a, "schur", square=True)


@one_program("a")
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Return the polar factors of matrices, a = u p or p u (JAX: `jax.scipy.linalg.polar`).

    They are computed from singular values. u has orthonormal columns (rows if m < n). p is
    Hermitian and positive semidefinite. The derivative contains only sums of singular values, so
    equal ones are allowed. It is NaN if two of them are 0, or one if m != n.

    Args:
        a: an array [..., m, n].
        side: "right" for a = u p with p [..., n, n], "left" for a = p u with p [..., m, m].
        method: "qdwh" or "svd", as in JAX; ignored.
        eps: ignored; a parameter of JAX's first method.
        max_iterations: ignored.

    Returns:
        u, an array like `a`, and p.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices.
        AttributeValueError: `side` or `method` is unknown.

    Example:
        >>> u, p = mx.scipy.linalg.polar(np.float32([[-2, 0], [0, 3]]))
        >>> np.allclose(p, [[2, 0], [0, 3]], atol=1e-5)
        True
    """
    operands.refuse_others(side, ("left", "right"), "polar", "side")
    operands.refuse_others(method, ("qdwh", "svd"), "polar", "method")

    def factors(x: Any) -> tuple[Any, Any]:
        u = isometry(x, False)
        pair = (adjoint(u), x) if side == "right" else (x, adjoint(u))
        p = product(*pair)
        return u, (p + adjoint(p)) * 0.5

    return computed(factors, a, "polar")


__all__ = [name for name in dir(_linalg) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]  # computed

offer_functions("minixla.scipy", __all__)


def __dir__() -> list[str]:
    return __all__
