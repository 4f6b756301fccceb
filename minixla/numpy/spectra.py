"""Eigenvalues and singular values, and what is made of them: ranks, pseudo-inverses, conditions."""

from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import convert, inexact_operand, kind_of, operand_shape
from minixla.numpy.systems import computed, matrix_error, pseudo_inverse
from minixla_ops.linear_algebra.matrices import adjoint

__all__ = ["cond", "eig", "eigh", "eigvals", "eigvalsh", "matrix_rank", "pinv", "svd", "svdvals"]


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

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
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w).

    Derivatives of vectors divide by differences of eigenvalues: see `minixla_ops.eigh` for what
    they are where some are equal.

    Args:
        a: an array [..., n, n].
        UPLO: which triangle is read, "L" (also for None) or "U"; of no matter with
            symmetrize_input.
        symmetrize_input: whether (a + a^H) / 2 is taken for a.

    Returns:
        eigenvalues: [..., n], real, in ascending order; NaN where the iteration does not converge.
        eigenvectors: [..., n, n], in columns of length 1, orthogonal to each other.

    Raises:
        MatrixError: `a` is no square matrix, or stack of such.
        AttributeValueError: UPLO is something else.
    """
    return EighResult(*_of_hermitian(a, UPLO, symmetrize_input, True, "eigh"))


@one_program("a")
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, in ascending order; see `eigh`.

    Their derivatives are finite where some are equal, too, and right for sums over these.
    """
    return _of_hermitian(a, UPLO, symmetrize_input, False, "eigvalsh")


@one_program("a")
def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w). On CPUs alone.

    See `minixla_ops.eig` for what derivatives of vectors are, which JAX has not.

    Returns:
        eigenvalues: [..., n], complex, in no order.
        eigenvectors: [..., n, n], complex, in columns of length 1.

    Raises:
        MatrixError: `a` is no square matrix, or stack of such.
    """
    return EigResult(*computed(ops.eig, a, "eig", square=True))


@one_program("a")
def eigvals(a: Any) -> Any:
    """The eigenvalues of square matrices, complex and in no order; see `eig`."""
    return computed(lambda x: ops.eig(x, False), a, "eigvals", square=True)


@one_program("a")
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular values and vectors of matrices: a = u diag(s) vh.

    Derivatives of vectors divide by differences of values: see `minixla_ops.svd` for what they are
    where some are equal, or 0.

    Args:
        a: an array [..., m, n]; k is the smaller one of m and n.
        full_matrices: whether u has m columns and vh n rows; else both have k.
        compute_uv: whether u and vh are wanted; else s is the result.
        hermitian: whether (a + a^H) / 2 is taken for a, of which eigenvalues are computed.
        subset_by_index: not supported, but for (0, k): JAX has it on TPUs.

    Returns:
        U: [..., m, m] or [..., m, k], the left singular vectors.
        S: [..., k], real, in descending order; NaN where the iteration does not converge.
        Vh: [..., n, n] or [..., k, n], the conjugate right singular vectors in rows.

    Raises:
        MatrixError: `a` is no matrix, or stack of such, or not square with `hermitian`.
        AttributeValueError: subset_by_index says a part.
    """
    if subset_by_index is not None:
        sizes = operand_shape(a, "svd").dimensions[-2:]
        if tuple(operands.listed(subset_by_index)) != (0, min(sizes)):
            advice = "Compute all of them and take a part."
            raise operands.value_error("svd", "subset_by_index says a part", advice)
    if hermitian:
        found = computed(partial(_by_eigenvalues, vectors=compute_uv), a, "svd", square=True)
    else:
        found = computed(lambda x: ops.svd(x, bool(full_matrices), bool(compute_uv)), a, "svd")
    return SVDResult(*found) if compute_uv else found


def _by_eigenvalues(a: Any, vectors: bool) -> Any:
    if not vectors:
        return mnp.flip(mnp.sort(mnp.absolute(eigvalsh(a)), axis=-1), -1)
    values, u = eigh(a)
    order = mnp.argsort(mnp.absolute(values), axis=-1, descending=True)
    values = mnp.take_along_axis(values, order, -1)
    u = mnp.take_along_axis(u, order[..., None, :], -1)
    signs = convert(mnp.where(values < 0, -1, 1), kind_of(values))
    return u, mnp.absolute(values), adjoint(u * convert(signs, kind_of(u))[..., None, :])


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, in descending order; see `svd`.

    Their derivatives are finite where some are equal, too, and right for sums over these; that of
    a value which is 0 is 0.
    """
    return svd(x, compute_uv=False)


@one_program("M", "rtol", "tol")
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values of matrices are more than rtol.

    Args:
        M: an array [..., m, n]; of fewer dimensions whether it has an element that is not 0.
        rtol: an array [...] of least values; default: the greatest value times max(m, n) eps.
        hermitian: whether the matrices are Hermitian.
        tol: another name of rtol.

    Returns:
        An array [...] of integers.

    Raises:
        AttributeValueError: both rtol and tol are given.
    """
    rtol = _one_of("matrix_rank", rtol=rtol, tol=tol)
    M = inexact_operand(M, "matrix_rank")
    if M.ndim < 2:
        return convert(mnp.any(M != 0), ELEMENT_TYPES["s32"])
    values = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        rtol = mnp.max(values, -1, initial=0) * (max(M.shape[-2:]) * _eps(values))
    return mnp.sum(values > mnp.expand_dims(mnp.asarray(rtol), -1), -1)


def _one_of(subject: str, **given: Any) -> Any:
    """The one of two arguments that is given, or None."""
    first, second = given.values()
    if first is not None and second is not None:
        advice = "They are two names of one thing."
        raise operands.value_error(subject, f"both {' and '.join(given)} are given", advice)
    return second if first is None else first


def _eps(x: Any) -> float:
    return float(ml_dtypes.finfo(kind_of(x).dtype).eps)


@one_program("a", "rtol", "rcond")
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose pseudo-inverses of matrices.

    Derivatives are those among matrices of the same rank, without differences of singular values.

    Args:
        a: an array [..., m, n].
        rtol: an array [...]: singular values of at most rtol times the greatest count as 0;
            default: 10 max(m, n) eps.
        hermitian: whether (a + a^H) / 2 is taken for a.
        rcond: another name of rtol.

    Returns:
        An array [..., n, m].

    Raises:
        MatrixError: `a` is no matrix, or stack of such, or not square with `hermitian`.
        AttributeValueError: both rtol and rcond are given.
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
def cond(x: Any, p: Any = None) -> Any:
    """The condition numbers of matrices: their norm times that of the inverse.

    Args:
        x: an array [..., m, n].
        p: the norm, as `norm` has it; default: 2. For 2 and -2 the ratio of singular values, which
            matrices need not be square for.

    Returns:
        An array [...]; infinity for singular matrices.

    Raises:
        MatrixError: `x` is empty or no matrix, or not square where it must be.
    """
    shape = operand_shape(x, "cond")
    if shape.rank < 2 or 0 in shape.dimensions[-2:]:
        advice = "Give matrices, [..., m, n], with m and n > 0."
        raise matrix_error("cond", "x is empty or no matrix", advice, f"x {shape}")
    x = inexact_operand(x, "cond")
    if p in (None, 2, -2):
        from minixla.numpy.isometries import extremes  # it uses this module

        sizes = computed(lambda x: extremes(x, [mnp.max, mnp.min]), x, "cond")
        found = sizes[0] / sizes[1] if p != -2 else sizes[1] / sizes[0]
    else:
        found = mnp.linalg.norm(x, p, (-2, -1)) * mnp.linalg.norm(mnp.linalg.inv(x), p, (-2, -1))
    return mnp.where(mnp.isnan(found) & ~mnp.any(mnp.isnan(x), (-2, -1)), np.inf, found)
