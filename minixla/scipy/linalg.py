"""Linear algebra: the functions of jax.scipy.linalg.

This file and `factorizations.py` implement factorizations, solvers and block matrices. Matrix
functions (expm, funm, sqrtm) and special matrices are JAX's functions.

Arguments that are of no matter are there for SciPy's programs: arrays do not change, and NaN gives
NaN.
"""

# ruff: noqa: F403 - `__all__` lists the public names

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jax.scipy import linalg as _linalg
from jax.scipy.linalg import *

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import docstrings
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.isometries import isometry
from minixla.numpy.operands import convert, kind_of, lifted, operand_shape
from minixla.numpy.spectra import computed
from minixla.scipy.factorizations import TRANSPOSES, pair
from minixla.scipy.factorizations import lu as lu
from minixla.scipy.factorizations import lu_factor as lu_factor
from minixla.scipy.factorizations import lu_solve as lu_solve
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.linear_algebra.matrices import adjoint, product

_TRANSPOSES: dict[Any, str] = dict(TRANSPOSES)
_TRANSPOSES |= dict(zip("NTC", _TRANSPOSES.values(), strict=True))


def _solution(subject: str, solve: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """What `solve` gives for matrices and right sides of one type, whose other axes broadcast."""
    kind = inexact_type(operands.common_type(subject, a, b))
    left, right = operand_shape(a, subject), operand_shape(b, subject)
    is_vector = right.rank == 1
    sizes = left.dimensions[-2:], right.dimensions[-1:] if is_vector else right.dimensions[-2:-1]
    if len(sizes[0]) < 2 or {*sizes[0]} != {*sizes[1]}:
        problem = "a is no square matrix, or b has not as many rows"
        advice = "Give a [..., n, n] and b [n] or [..., n, k]."
        raise operands.shape_error(subject, problem, advice, f"a {left}", f"b {right}")
    a, b = (lifted(convert(each, kind)) for each in (a, b))
    b = b[:, None] if is_vector else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (mnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (a, b))
    x = solve(a, b)
    return x[..., 0] if is_vector else x


@one_program("a")
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Cholesky factors of Hermitian positive definite matrices: a = u^H u, or l l^H.

    Args:
        a: an array [..., n, n], of which one triangle is read.
        lower: whether that is the lower one, and a = l l^H.
        overwrite_a: of no matter.
        check_finite: of no matter.

    Returns:
        The factors, the other triangle zero; NaN where a matrix is not positive definite.

    Raises:
        MatrixError: `a` is no square matrix, or stack of such.
    """
    return computed(lambda x: ops.cholesky(x, bool(lower)), a, "cholesky", square=True)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """The Cholesky factors of matrices and `lower`, for `cho_solve`; see `cholesky`."""
    return cholesky(a, lower), lower


@one_program("c", "b")
def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    def solve(c: Any, b: Any) -> Any:
        first, second = ("NO_TRANSPOSE", "ADJOINT") if lower else ("ADJOINT", "NO_TRANSPOSE")
        x = ops.triangular_solve(c, b, True, bool(lower), False, first)
        return ops.triangular_solve(c, x, True, bool(lower), False, second)

    return _solution("cho_solve", solve, c, b)


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The x with a x = b, by the factors of a that `cho_factor` gives.

        x = cho_solve(cho_factor(a), b)

    Args:
        c_and_lower: the factors c, [..., n, n], and whether they are lower triangular.
        b: [n] or [..., n, k].
        overwrite_b: of no matter.
        check_finite: of no matter.

    Raises:
        ShapeError: sizes do not fit.
        AttributeValueError: `c_and_lower` is no pair.
    """
    c, lower = pair(c_and_lower, "cho_solve", "c_and_lower")
    return _cho_solve(c, b, lower)


@one_program("a", "b")
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """The x with a x = b, for triangular matrices a.

    Args:
        a: an array [..., n, n], of which one triangle is read.
        b: [n] or [..., n, k].
        trans: 0 or "N"; 1 or "T" for the transpose of a, 2 or "C" for its conjugate.
        lower: whether the lower triangle is read, else the upper one.
        unit_diagonal: whether the diagonal is taken as ones, and not read.
        overwrite_b: of no matter.
        debug: of no matter.
        check_finite: of no matter.

    Raises:
        ShapeError: sizes do not fit.
        AttributeValueError: trans is something else.
    """
    operands.refuse_others(trans, _TRANSPOSES, "solve_triangular", "trans")

    def solve(a: Any, b: Any) -> Any:
        flags = bool(lower), bool(unit_diagonal)
        return ops.triangular_solve(a, b, True, *flags, _TRANSPOSES[trans])

    return _solution("solve_triangular", solve, a, b)


@one_program("a", "b")
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """The x with a x = b; see `mx.numpy.linalg.solve`.

    Args:
        a: an array [..., n, n].
        b: [n] or [..., n, k].
        lower: which triangle is read, for `assume_a="pos"`.
        overwrite_a: of no matter.
        overwrite_b: of no matter.
        debug: of no matter.
        check_finite: of no matter.
        assume_a: "pos" for Hermitian positive definite matrices, which Cholesky factors solve;
            "gen", "sym" and "her" for others.

    Raises:
        ShapeError: sizes do not fit.
        AttributeValueError: assume_a is something else.
    """
    operands.refuse_others(assume_a, ("gen", "sym", "her", "pos"), "solve", "assume_a")
    if assume_a == "pos":
        return cho_solve(cho_factor(a, lower), b)
    return mnp.linalg.solve(a, b)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverses of matrices: `mx.numpy.linalg.inv`."""
    return mnp.linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of matrices: `mx.numpy.linalg.det`."""
    return mnp.linalg.det(a)


@one_program("a")
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular values, with `compute_uv` as (u, s, vh): `mx.numpy.linalg.svd`."""
    found = mnp.linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@one_program("a", "b")
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices; with `b` those of a v = b v diag(w).

    Args:
        a: an array [..., n, n], for which (a + a^H) / 2 is taken.
        b: positive definite matrices, whose inner products the vectors are orthogonal in.
        lower: which triangle of b is read.
        eigvals_only: whether the eigenvalues are the only result.
        overwrite_a: of no matter.
        overwrite_b: of no matter.
        turbo: of no matter.
        check_finite: of no matter.
        eigvals: the first and the last of the wanted ones' numbers, which count from 0.
        type: 1; SciPy has other problems with two matrices.

    Returns:
        The eigenvalues [..., n] in ascending order, and the eigenvectors [..., n, n] in columns.

    Raises:
        MatrixError: `a` is no square matrix, or stack of such.
        AttributeValueError: type is something else.
    """
    operands.refuse_others(type, (1,), "eigh", "type")
    if not (eigvals is None or (isinstance(eigvals, (tuple, list)) and len(eigvals) == 2)):
        problem, advice = "eigvals is no pair", "Give the first and the last number, or None."
        raise operands.value_error("eigh", problem, advice, eigvals=eigvals)
    if b is not None:
        a, b = (lifted(each) for each in operands.convert_all("eigh", [a, b]))
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
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian tridiagonal matrix, by `eigh`.

    Args:
        d: the diagonal, [n], real.
        e: the diagonal above, [n - 1]; below are the conjugates.
        eigvals_only: whether the eigenvalues are the only result.
        select: "a" for all, "i" for those with the numbers in `select_range`, the last one too;
            "v", those between two numbers, is not supported: how many depends on values.
        select_range: two integers, for "i".
        tol: of no matter: JAX bisects.
        key: of no matter: JAX begins with random vectors.

    Raises:
        ShapeError: d or e is no vector, or their lengths do not fit.
        AttributeValueError: select is something else, or lacks its range.
    """
    operands.refuse_others(select, ("a", "i"), "eigh_tridiagonal", "select")
    left, right = (operand_shape(each, "eigh_tridiagonal").dimensions for each in (d, e))
    if len(left) != 1 or len(right) != 1 or left[0] != right[0] + 1:
        advice = "Give d [n] and e [n - 1]."
        given = f"d {left}", f"e {right}"
        raise operands.shape_error("eigh_tridiagonal", "d and e do not fit", advice, *given)
    if select == "i" and select_range is None:
        advice = "Give select_range=(first, last)."
        raise operands.value_error("eigh_tridiagonal", 'select "i" lacks its range', advice)
    d, e = operands.convert_all("eigh_tridiagonal", [mnp.real(d), e])
    a = mnp.diag(d) + mnp.diag(e, 1) + mnp.diag(mnp.conjugate(e), -1)
    return eigh(a, eigvals_only=eigvals_only, eigvals=select_range if select == "i" else None)  # type: ignore[arg-type]  # JAX's annotation


@one_program("a")
def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """The Schur form of square matrices: a = z t z^H. On CPUs alone, and without derivatives.

    Args:
        a: an array [..., n, n].
        output: "complex" for a triangular t of real matrices, too; for "real" theirs has blocks of
            2 x 2, for pairs of complex eigenvalues.

    Returns:
        t, z: arrays like a.

    Raises:
        MatrixError: `a` is no square matrix, or stack of such.
        AttributeValueError: output is something else.
    """
    operands.refuse_others(output, ("real", "complex"), "schur", "output")
    is_complex = output == "complex"

    def apply(x: Any) -> Any:
        return ops.schur(convert(x, kind_of(x).complex) if is_complex else x)

    return computed(apply, a, "schur", square=True)


@one_program("a")
def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """The polar factors of matrices: a = u p, or p u, by singular values.

    u has orthonormal columns (rows, for m < n), p is Hermitian and not negative. The derivative
    contains sums of singular values alone, so that equal ones are no matter; it is NaN where two of
    them, or one for m != n, are 0.

    Args:
        a: an array [..., m, n].
        side: "right" for a = u p with p [..., n, n], "left" for a = p u with p [..., m, m].
        method: "qdwh" or "svd", JAX's two; here of no matter.
        eps: of no matter: it is of JAX's first method.
        max_iterations: of no matter, too.

    Returns:
        u, an array like a, and p.

    Raises:
        MatrixError: `a` is no matrix, or stack of such.
        AttributeValueError: side or method is something else.
    """
    operands.refuse_others(side, ("left", "right"), "polar", "side")
    operands.refuse_others(method, ("qdwh", "svd"), "polar", "method")

    def factors(x: Any) -> tuple[Any, Any]:
        u = isometry(x, False)
        pair = (adjoint(u), x) if side == "right" else (x, adjoint(u))
        p = product(*pair)
        return u, (p + adjoint(p)) * 0.5

    return computed(factors, a, "polar")


@one_program()
def block_diag(*arrs: Any) -> Any:
    """The matrix whose diagonal is made of these blocks, zeros elsewhere.

    Args:
        arrs: matrices; vectors and numbers are those of one row.

    Raises:
        ShapeError: one has more than two dimensions.
    """
    blocks = operands.convert_all("block_diag", arrs or [np.zeros((1, 0), np.float32)])
    for each in blocks:
        advice = "Give matrices, vectors or numbers."
        operands.shape_of_rank(each, range(3), "block_diag", advice)
    blocks = [mnp.atleast_2d(each) for each in blocks]
    total, rows, before = sum(each.shape[1] for each in blocks), [], 0
    for each in blocks:
        after = total - before - each.shape[1]
        rows.append(mnp.pad(each, ((0, 0), (before, after))))
        before += each.shape[1]
    return mnp.concatenate(rows)


@one_program("c", "r")
def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrices with constant diagonals: c is the first column, r the first row.

    Args:
        c: an array [..., m].
        r: an array [..., n], of which the first element is not read; default: the conjugate of c.

    Returns:
        An array [..., m, n].
    """
    c = mnp.atleast_1d(c)
    r = mnp.conjugate(c) if r is None else mnp.atleast_1d(r)
    m, n = c.shape[-1], r.shape[-1]
    batch = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = (mnp.broadcast_to(each, (*batch, each.shape[-1])) for each in (c, r))
    values = mnp.concatenate([mnp.flip(c, -1), r[..., 1:]], -1)
    return values[..., np.arange(n)[None, :] - np.arange(m)[:, None] + max(m - 1, 0)]


__all__ = [name for name in dir(_linalg) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_TEXTS = Path(__file__).with_name("docstrings.txt")
_MODULE = sys.modules[__name__]
docstrings.complete("minixla.scipy", [_MODULE], _TEXTS, "JAX: `jax.scipy.{}`.")


def __dir__() -> list[str]:
    return __all__
