"""Eigenvalues, singular values, and functions of them: ranks, pseudo-inverses, conditions."""

from functools import partial
from typing import Any, Literal, NamedTuple, overload

import ml_dtypes
import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import convert, inexact_operand, kind_of, operand_shape
from minixla.numpy.shared_sections import PARAMETERS, SQUARE
from minixla.numpy.systems import computed, matrix_error, pseudo_inverse
from minixla.typing import Array, ArrayLike
from minixla_ops.linear_algebra.matrices import adjoint

__all__ = ["cond", "eig", "eigh", "eigvals", "eigvalsh", "matrix_rank", "pinv", "svd", "svdvals"]


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def _of_hermitian(
    a: Any, UPLO: str | None, symmetrize_input: bool, vectors: bool, subject: str
) -> Any:
    operands.refuse_others(UPLO, (None, "L", "U"), subject, "UPLO")

    def apply(x: Any) -> Any:
        x = (x + adjoint(x)) * 0.5 if symmetrize_input else x
        return ops.eigh(x, UPLO != "U", vectors)

    return computed(apply, a, subject, square=True)


@one_program("a")
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Compute eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w).

    Derivatives of vectors divide by differences of eigenvalues. See `minixla_ops.eigh` for equal
    eigenvalues.

    Args:
        a: an array [..., n, n].
        UPLO: the triangle that is read, "L" (also for None) or "U"; ignored with symmetrize_input.
        symmetrize_input: whether to use (a + a^H) / 2 in place of `a`.

    Returns:
        eigenvalues: [..., n], real, in ascending order; NaN where the iteration does not converge.
        eigenvectors: [..., n, n], in orthogonal columns of length 1.

    Raises:
        MatrixError: `a` is not a square matrix or a stack of square matrices.
        AttributeValueError: UPLO is unknown.

    Example:
        >>> w, v = np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> w.round(4)
        Array([1., 3.], dtype=float32)
        >>> ((v * w) @ v.T).round(4)
        Array([[2., 1.],
               [1., 2.]], dtype=float32)
    """
    return EighResult(*_of_hermitian(a, UPLO, symmetrize_input, True, "eigh"))


@documented(PARAMETERS, SQUARE)
@one_program("a")
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Compute the eigenvalues of Hermitian matrices, in ascending order; see `eigh`.

    Derivatives are finite also for equal eigenvalues, and are correct for sums over them.

    Args:
        a: Hermitian matrices [..., n, n].
        UPLO: "L" or "U", the triangle that is read if `symmetrize_input` is False.
        symmetrize_input: whether to use (a + a^H) / 2 in place of `a`.

    Example:
        >>> np.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
        Array([1., 3.], dtype=float32)
    """
    return _of_hermitian(a, UPLO, symmetrize_input, False, "eigvalsh")


@documented(PARAMETERS, SQUARE)
@one_program("a")
def eig(a: ArrayLike) -> EigResult:
    """Compute eigenvalues and right eigenvectors of square matrices: a v = v diag(w).

    It runs only on CPUs. See `minixla_ops.eig` for the derivatives of the vectors, which JAX lacks.

    Returns:
        eigenvalues: [..., n], complex, in no particular order.
        eigenvectors: [..., n, n], complex, in columns of length 1.

    Example:
        >>> w, v = np.linalg.eig(np.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> w
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    return EigResult(*computed(ops.eig, a, "eig", square=True))


@documented(PARAMETERS, SQUARE)
@one_program("a")
def eigvals(a: ArrayLike) -> Array:
    """Compute the eigenvalues of square matrices, in no particular order; see `eig`.

    Example:
        >>> np.linalg.eigvals(np.array([[0.0, -1.0], [1.0, 0.0]])).round(4)
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return computed(lambda x: ops.eig(x, False), a, "eigvals", square=True)


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> SVDResult: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any: ...
@one_program("a")
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Compute singular values and vectors of matrices: a = u diag(s) vh.

    Derivatives of vectors divide by differences of singular values. See `minixla_ops.svd` for
    values that are equal or 0.

    Args:
        a: an array [..., m, n]; let k = min(m, n).
        full_matrices: whether u has m columns and vh n rows; if not, both have k.
        compute_uv: whether to return u and vh; if not, s is the result.
        hermitian: whether to use the eigenvalues of (a + a^H) / 2 in place of `a`.
        subset_by_index: only (0, k) is supported; JAX supports others on TPUs.

    Returns:
        U: [..., m, m] or [..., m, k], the left singular vectors.
        S: [..., k], real, in descending order; NaN where the iteration does not converge.
        Vh: [..., n, n] or [..., k, n], the conjugate right singular vectors in rows.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices, or not square with `hermitian`.
        AttributeValueError: subset_by_index is not (0, k).

    Example:
        >>> a = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
        >>> u, s, vh = np.linalg.svd(a, full_matrices=False)
        >>> s
        Array([4., 3.], dtype=float32)
        >>> np.allclose((u * s) @ vh, a, atol=1e-6)
        Array(True, dtype=bool)
    """
    if subset_by_index is not None:
        sizes = operand_shape(a, "svd").dimensions[-2:]
        if tuple(operands.listed(subset_by_index)) != (0, min(sizes)):
            advice = "Compute all of them and take a part."
            raise operands.value_error("svd", "subset_by_index selects a part", advice)
    if hermitian:
        factors = computed(partial(_by_eigenvalues, vectors=compute_uv), a, "svd", square=True)
    else:
        factors = computed(lambda x: ops.svd(x, bool(full_matrices), bool(compute_uv)), a, "svd")
    return SVDResult(*factors) if compute_uv else factors


def _by_eigenvalues(a: Any, vectors: bool) -> Any:
    if not vectors:
        return mnp.flip(mnp.sort(mnp.absolute(eigvalsh(a)), axis=-1), -1)
    values, u = eigh(a)
    order = mnp.argsort(mnp.absolute(values), axis=-1, descending=True)
    values = mnp.take_along_axis(values, order, -1)
    u = mnp.take_along_axis(u, order[..., None, :], -1)
    signs = convert(mnp.where(values < 0, -1, 1), kind_of(values))
    return u, mnp.absolute(values), adjoint(u * convert(signs, kind_of(u))[..., None, :])


def svdvals(x: ArrayLike, /) -> Array:
    """Compute the singular values of matrices, in descending order; see `svd`.

    Derivatives are finite also for equal values, and are correct for sums over them. The derivative
    of a value that is 0 is 0.

    Args:
        x: matrices [..., m, n].

    Returns:
        A real array [..., min(m, n)].

    Raises:
        MatrixError: `x` is not a matrix or a stack of matrices.

    Example:
        >>> np.linalg.svdvals(np.array([[3.0, 0.0], [0.0, 4.0]]))
        Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


@documented(PARAMETERS)
@one_program("M", "rtol", "tol")
def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """Count the singular values of matrices above a tolerance.

    Args:
        M: an array [..., m, n]; the rank of fewer dimensions is 1 if an element is nonzero, else 0.
        rtol: an array [...] of tolerances; default: the largest value times max(m, n) eps.
        hermitian: whether the matrices are Hermitian.
        tol: another name of rtol.

    Returns:
        An array [...] of integers.

    Example:
        >>> np.linalg.matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0]]))
        Array(1, dtype=int32)
    """
    rtol = _one_of("matrix_rank", rtol=rtol, tol=tol)
    M = inexact_operand(M, "matrix_rank")
    if M.ndim < 2:
        return convert(mnp.any(M != 0), ELEMENT_TYPES["s32"])
    values = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        rtol = mnp.max(values, -1, initial=0) * (max(M.shape[-2:]) * _eps(values))
    return mnp.sum(values > mnp.expand_dims(mnp.asarray(rtol), -1), -1)


def _one_of(subject: str, **options: Any) -> Any:
    """Return the given one of two arguments, or None if both are missing."""
    first, second = options.values()
    if first is not None and second is not None:
        advice = "They are two names of one argument; give one."
        raise operands.value_error(subject, f"both {' and '.join(options)} are given", advice)
    return second if first is None else first


def _eps(x: Any) -> float:
    return float(ml_dtypes.finfo(kind_of(x).dtype).eps)


@documented(PARAMETERS)
@one_program("a", "rtol", "rcond")
def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """Compute the Moore-Penrose pseudo-inverses of matrices.

    Derivatives are those among matrices of the same rank, without differences of singular values.

    Args:
        a: an array [..., m, n].
        rtol: an array [...]; singular values of at most rtol times the largest count as 0. Default:
            10 max(m, n) eps.
        hermitian: whether to use (a + a^H) / 2 in place of `a`.
        rcond: another name of rtol.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices, or not square with `hermitian`.
        AttributeValueError: both rtol and rcond are given.

    Example:
        >>> np.linalg.pinv(np.array([[2.0], [0.0]]))
        Array([[0.5, 0. ]], dtype=float32)
    """
    rtol = _one_of("pinv", rtol=rtol, rcond=rcond)

    def apply(x: Any) -> Any:
        least = 10 * max(x.shape[-2:]) * _eps(x) if rtol is None else rtol
        x = (x + adjoint(x)) * 0.5 if hermitian else x
        u, s, vh = ops.svd(transforms().stop_gradient(x), False)
        least = mnp.expand_dims(mnp.asarray(least, kind_of(x).real), -1)
        return pseudo_inverse(x, u, s, vh, s > least * s[..., :1])

    return computed(apply, a, "pinv", square=hermitian)


@one_program("x")
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """Compute the condition numbers of matrices: their norm times the norm of the inverse.

    Args:
        x: an array [..., m, n].
        p: the norm, as in `norm`; default: 2. For 2 and -2 the result is the ratio of singular
            values, and the matrices need not be square.

    Returns:
        An array [...]; infinity for singular matrices.

    Raises:
        MatrixError: `x` is empty or not a matrix, or is not square although `p` requires it.

    Example:
        >>> np.linalg.cond(np.array([[2.0, 0.0], [0.0, 4.0]]))
        Array(2., dtype=float32)
    """
    shape = operand_shape(x, "cond")
    if shape.rank < 2 or 0 in shape.dimensions[-2:]:
        advice = "Pass matrices, [..., m, n], with m and n > 0."
        raise matrix_error("cond", "x is empty or not a matrix", advice, f"x {shape}")
    x = inexact_operand(x, "cond")
    if p in (None, 2, -2):
        from minixla.numpy.isometries import extremes  # it uses this module

        sizes = computed(lambda x: extremes(x, [mnp.max, mnp.min]), x, "cond")
        condition = sizes[0] / sizes[1] if p != -2 else sizes[1] / sizes[0]
    else:
        condition = mnp.linalg.norm(x, p, (-2, -1)) * mnp.linalg.norm(
            mnp.linalg.inv(x), p, (-2, -1)
        )
    return mnp.where(mnp.isnan(condition) & ~mnp.any(mnp.isnan(x), (-2, -1)), np.inf, condition)
