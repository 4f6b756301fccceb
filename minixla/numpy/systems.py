"""`mx.numpy.linalg`: systems of linear equations, inverses, determinants, LU, QR and Cholesky."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.core.errors import ShapeError
from minixla.core.tracing import one_program, weak_type_of, with_flags
from minixla.numpy import operands
from minixla.numpy.element_functions import mended, transforms, with_rule
from minixla.numpy.operands import (
    convert,
    inexact_operand,
    keep_weak,
    kind_of,
    marked,
    operand_shape,
)
from minixla.numpy.shared_sections import PARAMETERS, SQUARE
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers.shorthand import as_tuple
from minixla_ops.linear_algebra.matrices import adjoint, diagonal, product

__all__ = ["cholesky", "det", "inv", "lstsq", "qr", "slogdet", "solve", "tensorinv", "tensorsolve"]


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """Error for an array that is not a matrix, or not a square one, where one is required."""


matrix_error = operands.refusal(MatrixError)


class QRResult(NamedTuple):
    """Factors of a matrix: `Q` with orthonormal columns, `R` upper triangular."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """A determinant: its sign, with absolute value 1 or 0, and the logarithm of its size."""

    sign: Any
    logabsdet: Any


def matrices(a: Any, subject: str, name: str = "a", square: bool = False) -> Any:
    """Return `a`, a matrix or a stack of matrices, as an array of floats or complex numbers.

    Raises:
        MatrixError: it has fewer than two dimensions, or is not square where it must be.
    """
    shape = operand_shape(a, subject)
    if shape.rank < 2 or (square and shape.dimensions[-1] != shape.dimensions[-2]):
        what = "a square matrix" if square else "a matrix"
        advice = "The last two axes must be equal in size." if square else "Pass two axes or more."
        problem = f"{name} is not {what} or a stack of matrices"
        raise matrix_error(subject, problem, advice, f"{name} {shape}")
    return inexact_operand(a, subject)


def computed(apply: Callable[..., Any], a: Any, subject: str, square: bool = False) -> Any:
    """Apply an operation to a stack of matrices; narrow floats are computed in f32."""
    a = matrices(a, subject, square=square)
    kind = kind_of(a)
    if kind.bits >= 32:
        return apply(a)
    result = apply(convert(a, F32))
    parts = [convert(x, kind) if kind_of(x) is F32 else x for x in as_tuple(result)]
    return tuple(parts) if type(result) is tuple else parts[0]


def _factored(a: Any) -> tuple[Any, Any, Any]:
    """Return the LU factors of `a` as constants."""
    return ops.lu(transforms().stop_gradient(a))


def _solved(a: Any, b: Any) -> Any:
    """Return X with a x = b, for matrices with the same leading axes."""
    lu, _, permutation = _factored(a)
    return ops.lu_solve(a, lu, permutation, b)


@documented(PARAMETERS)
@one_program("a", "b")
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve a x = b by LU factors; x is NaN or infinite where a is singular.

    Args:
        a: square matrices [..., n, n].
        b: a vector [n], or matrices [..., n, k]; the leading axes broadcast.

    Raises:
        MatrixError: `a` is not a square matrix or a stack of square matrices.
        ShapeError: `b` has another number of rows.

    Example:
        >>> np.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
        Array([1. , 0.5], dtype=float32)
    """
    matrices(a, "solve", square=True)
    left, right = operand_shape(a, "solve"), operand_shape(b, "solve")
    is_vector = right.rank == 1
    if not right.rank or right.dimensions[-1 if is_vector else -2] != left.dimensions[-1]:
        advice = "Pass b [n] or [..., n, k] for a [..., n, n]; pass a stack of vectors as matrices "
        advice += "of one column, b[..., None]."
        problem = "a and b must have the same number of rows"
        raise operands.shape_error("solve", problem, advice, f"a {left}", f"b {right}")
    weak = weak_type_of(a) and weak_type_of(b)
    kind = inexact_type(operands.common_type("solve", a, b))
    wide = F32 if kind.bits < 32 else kind
    a, b = (operands.lifted(operands.convert(operand, wide)) for operand in (a, b))
    b = mnp.expand_dims(b, -1) if is_vector else b
    x = marked(operands.convert(_broadcast_solution(a, b), kind), weak)
    return mnp.squeeze(x, -1) if is_vector else x


def _broadcast_solution(a: Any, b: Any) -> Any:
    """Return the solutions for leading axes that broadcast; factor each matrix once."""
    *batch, n, k = b.shape
    if math.prod(a.shape[:-2]) == 1 and batch and len(batch) >= a.ndim - 2:
        # Solve for more columns of one matrix.
        columns = mnp.reshape(mnp.moveaxis(b, -2, 0), (n, -1))
        x = _solved(mnp.reshape(a, (n, n)), columns)
        return mnp.moveaxis(mnp.reshape(x, (n, *batch, k)), 0, -2)
    lu, _, permutation = _factored(a)
    sizes = np.broadcast_shapes(a.shape[:-2], tuple(batch))
    a, lu = (mnp.broadcast_to(operand, (*sizes, n, n)) for operand in (a, lu))
    permutation = mnp.broadcast_to(permutation, (*sizes, n))
    return ops.lu_solve(a, lu, permutation, mnp.broadcast_to(b, (*sizes, n, k)))


def _inverse(a: Any) -> Any:
    return _solved(a, mnp.broadcast_to(mnp.identity(a.shape[-1], kind_of(a)), a.shape))


def _inverse_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (tangent,) = primals, tangents
    inverse = with_rule(_inverse, _inverse_jvp)(a)
    return inverse, -product(inverse, product(tangent, inverse))


@documented(PARAMETERS, SQUARE)
@one_program("a")
def inv(a: ArrayLike) -> Array:
    """Invert square matrices; the inverse of a singular matrix is infinite or NaN.

    Example:
        >>> np.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    return keep_weak(computed(with_rule(_inverse, _inverse_jvp), a, "inv", square=True), a)


def _sign(pivots: Any, kind: Any) -> Any:
    """Return -1 for an odd number of row exchanges, else 1."""
    is_moved = mnp.not_equal(pivots, np.arange(pivots.shape[-1], dtype=np.int32))
    return operands.convert(1 - 2 * (mnp.sum(is_moved, -1, np.int32) % 2), kind)


def _determinant(a: Any) -> Any:
    lu, pivots, _ = ops.lu(a)
    return mnp.prod(diagonal(lu), -1) * _sign(pivots, kind_of(a))


def _smooth_jvp(primals: Any, tangents: Any) -> Any:
    """Differentiate the determinant of regular matrices."""
    value = with_rule(_determinant, _smooth_jvp)(*primals)
    return value, value * mnp.trace(_solved(*primals, *tangents), axis1=-2, axis2=-1)


def _determinant_jvp(primals: Any, tangents: Any) -> Any:
    value = with_rule(_determinant, _determinant_jvp)(*primals)  # differentiable by this rule, too
    a, is_zero = primals[0], value == 0
    if a.shape[-1] < 4:
        return value, transforms().jvp(_polynomial, primals, tangents)[1]
    regular = mnp.where(mnp.expand_dims(is_zero, (-2, -1)), np.eye(a.shape[-1], dtype=a.dtype), a)
    change = _smooth_jvp((regular,), tangents)[1]
    jvp = partial(transforms().jvp, _by_singular_values, primals, tangents)
    return value, mended(change, is_zero, lambda: jvp()[1])


def _polynomial(a: Any) -> Any:
    """Compute the determinant of up to three rows by products, differentiable at any rank."""
    rows = [a[..., at, :] for at in range(a.shape[-1])]
    match rows:
        case []:
            return mnp.ones(a.shape[:-2], a.dtype)
        case [first]:
            return first[..., 0]
        case [first, second]:
            return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    return mnp.sum(rows[0] * mnp.cross(*rows[1:]), -1)


def _by_singular_values(a: Any) -> Any:
    """Compute the determinant of four rows or more, with exact first and second derivatives.

    Constant bases make `a` diagonal. The determinant of the block without the two smallest singular
    values is then multiplied by that of the other two, computed by products. The derivatives are
    exact at any rank; below rank n - 2 both are zero.
    """
    u, sizes, vh = ops.svd(transforms().stop_gradient(a))
    turned = product(adjoint(u), product(a, adjoint(vh)))
    n = a.shape[-1] - 2
    # Outside the diagonal of singular values there is only rounding noise.
    noise = mnp.max(mnp.absolute(mnp.where(np.eye(n + 2, dtype=bool), 0, turned)), (-2, -1))
    has_rank = sizes[..., n - 1] > noise
    identity = np.eye(n, dtype=a.dtype)
    large = mnp.where(mnp.expand_dims(has_rank, (-2, -1)), turned[..., :n, :n], identity)
    small = turned[..., n:, n:] - product(turned[..., n:, :n], _solved(large, turned[..., :n, n:]))
    determinant = _determinant(u) * with_rule(_determinant, _smooth_jvp)(large) * _determinant(vh)
    return mnp.where(has_rank, determinant * _polynomial(small), 0)


@documented(PARAMETERS, SQUARE)
@one_program("a")
def det(a: ArrayLike) -> Array:
    """Compute the determinants of square matrices.

    First and second derivatives are exact for singular matrices too.

    Example:
        >>> np.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]])).round(4)
        Array(-2., dtype=float32)
    """
    return keep_weak(computed(with_rule(_determinant, _determinant_jvp), a, "det", square=True), a)


def _slogdet_of(diagonal_: Any, sign: Any) -> tuple[Any, Any]:
    """Return the sign, and the logarithm of the absolute value, of a product."""
    size = mnp.absolute(diagonal_)
    is_zero = mnp.any(size == 0, -1)
    signs = mnp.prod(mnp.sign(diagonal_), -1) * sign
    return mnp.where(is_zero, 0, signs), mnp.sum(mnp.log(size), -1)


def _slogdet(a: Any) -> tuple[Any, Any]:
    lu, pivots, _ = ops.lu(a)
    return _slogdet_of(diagonal(lu), _sign(pivots, kind_of(a)))


def _slogdet_by_qr(a: Any) -> tuple[Any, Any]:
    packed, factors = ops.geqrf(a)
    # A reflection 1 - factor v v^H has the determinant -factor / conj(factor), or 1 for none.
    is_none = factors == 0
    factors = mnp.where(is_none, 1, factors)
    signs = mnp.prod(mnp.where(is_none, 1, -factors / mnp.conjugate(factors)), -1)
    return _slogdet_of(diagonal(packed), signs)


def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    # The derivative of the logarithm of the determinant is the trace of a^-1 a'.
    (a,), (tangent,) = primals, tangents
    sign, size = with_rule(_slogdet, _slogdet_jvp)(a)
    lu, _, permutation = _factored(a)
    moved = mnp.trace(ops.lu_solve(a, lu, permutation, tangent), axis1=-2, axis2=-1)
    turned = sign * (moved - mnp.real(moved)) if kind_of(a).is_complex else mnp.zeros_like(sign)
    return (sign, size), (turned, mnp.real(moved))


@one_program("a")
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Compute the sign and the logarithm of the absolute value of determinants.

    Args:
        a: square matrices [..., n, n].
        method: the factorization to use: "lu" (also for None) or "qr".

    Returns:
        `sign`, with absolute value 1 or 0, and `logabsdet`, -inf for a determinant of 0.

    Raises:
        MatrixError: `a` is not a square matrix or a stack of square matrices.
        AttributeValueError: the method is unknown.

    Example:
        >>> sign, size = np.linalg.slogdet(np.array([[0.0, 1.0], [1.0, 0.0]]))
        >>> sign, np.abs(size)
        (Array(-1., dtype=float32), Array(0., dtype=float32))
    """
    operands.refuse_others(method or "lu", ("lu", "qr"), "slogdet", "method")
    function = _slogdet_by_qr if method == "qr" else _slogdet
    results = computed(with_rule(function, _slogdet_jvp), a, "slogdet", square=True)
    return SlogdetResult(*[keep_weak(result, a) for result in results])


@one_program("a")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Factor matrices: a = q r, where q has orthonormal columns and r is upper triangular.

    Args:
        a: matrices [..., m, n].
        mode: "reduced" (or "full") for min(m, n) columns of q; "complete" for m columns; "r" for
            only r; "raw" for the transposed result of LAPACK's geqrf and its factors tau.

    Returns:
        `Q` and `R`; in mode "r" only R, in mode "raw" h and tau under these names.

    Raises:
        MatrixError: `a` is not a matrix or a stack of matrices.
        AttributeValueError: the mode is unknown.

    Example:
        >>> q, r = np.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> (q @ r).round(4)
        Array([[3., 1.],
               [4., 2.]], dtype=float32)
    """
    operands.refuse_others(mode, ("reduced", "full", "complete", "r", "raw"), "qr", "mode")
    if mode == "raw":
        packed, factors = computed(ops.geqrf, a, "qr")
        return QRResult(mnp.matrix_transpose(packed), factors)
    found = computed(lambda x: ops.qr(x, mode == "complete"), a, "qr")
    q, r = [keep_weak(factor, a) for factor in found]
    return r if mode == "r" else QRResult(q, r)


@documented(PARAMETERS, SQUARE)
@one_program("a")
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Compute the triangular factors of Hermitian positive definite matrices: a = l l^H, or u^H u.

    Args:
        upper: whether to return u, not l.
        symmetrize_input: whether to use the mean of `a` and its conjugate transpose; if not, the
            other triangle is not read.

    Returns:
        An array like `a`; NaN where a matrix is not positive definite.

    Example:
        >>> np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    value = matrices(a, "cholesky", square=True)
    value = (value + adjoint(value)) / 2 if symmetrize_input else value
    return keep_weak(ops.cholesky(value, not upper), a)


def pseudo_inverse(a: Any, u: Any, s: Any, vh: Any, is_kept: Any) -> Any:
    """Compute the pseudo-inverse of a = u diag(s) vh from kept values, differentiable by `a`."""
    inverse = mnp.where(is_kept, 1 / mnp.where(is_kept, s, 1), 0)
    inverse = operands.convert(mnp.where(mnp.isnan(s), s, inverse), kind_of(u))
    return with_rule(_pseudo_inverse, _pseudo_inverse_rule)(a, u, inverse, vh)


def _pseudo_inverse(a: Any, u: Any, inverse: Any, vh: Any) -> Any:
    return product(adjoint(vh), inverse[..., :, None] * adjoint(u))


def _pseudo_inverse_rule(primals: Any, tangents: Any) -> Any:
    # G. H. Golub, V. Pereyra, The Differentiation of Pseudo-Inverses and Nonlinear Least Squares
    # Problems Whose Variables Separate (1973).
    a, tangent, dot = primals[0], tangents[0], product
    p, back = with_rule(_pseudo_inverse, _pseudo_inverse_rule)(*primals), adjoint(tangent)
    of_rows, of_columns = dot(dot(p, adjoint(p)), back), dot(back, dot(adjoint(p), p))
    moved = of_rows - dot(dot(of_rows, a), p) - dot(dot(p, tangent), p)
    return p, moved + of_columns - dot(p, dot(a, of_columns))


@one_program("a", "b", "rcond")
def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    left, right = operand_shape(a, "lstsq"), operand_shape(b, "lstsq")
    operand_shape(0 if rcond is None else rcond, "lstsq")
    if left.rank != 2 or right.rank not in (1, 2) or left.dimensions[0] != right.dimensions[0]:
        problem, advice = (
            "a must be a matrix and b have as many rows",
            "Pass a [m, n], b [m] or [m, k].",
        )
        raise matrix_error("lstsq", problem, advice, f"a {left}", f"b {right}")
    kind = inexact_type(operands.common_type("lstsq", a, b))
    a, b = (operands.lifted(operands.convert(operand, kind)) for operand in (a, b))
    is_vector, real = b.ndim == 1, kind.real
    b = mnp.expand_dims(b, 1) if is_vector else b
    u, s, v = mnp.linalg.svd(a, full_matrices=False)
    eps = float(mnp.finfo(kind.dtype).eps)
    bound = eps * max(a.shape) if rcond is None else mnp.where(rcond < 0, eps, rcond)
    is_kept = (s > 0) & (s >= operands.convert(bound, real) * s[:1])
    x = product(pseudo_inverse(a, u, s, v, is_kept), b)
    rest = b - product(a, x)
    squares = mnp.sum(mnp.real(rest * mnp.conjugate(rest)), 0)
    return mnp.squeeze(x, 1) if is_vector else x, squares, mnp.sum(is_kept), s


@with_flags
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return the x that minimizes the sum of squares of b - a x, by singular values.

    If there are several, return the one with the least norm.

    Args:
        a: a matrix [m, n].
        b: a vector [m], or a matrix [m, k].
        rcond: singular values below rcond times the largest count as 0. A negative value stands for
            eps, and None for eps times max(m, n).
        numpy_resid: whether to return empty residuals where NumPy does: for ranks below n, and m <=
            n. The rank must then be known while tracing.

    Returns:
        x [n] or [n, k]; the sums of squares [1] or [k]; the rank of `a`; its singular values.

    Raises:
        MatrixError: `a` is not a matrix, or `b` has another number of rows.

    Example:
        >>> x, _, rank, _ = np.linalg.lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
        >>> x.round(4), rank
        (Array([2.], dtype=float32), Array(1, dtype=int32))
    """
    x, squares, rank, s = _least_squares(a, b, rcond)
    if numpy_resid:
        rows, columns = operand_shape(a, "lstsq").dimensions
        advice = "Leave numpy_resid out."
        if rows <= columns or operands.concrete(rank, "lstsq", advice) < columns:
            squares = squares[:0]
    return x, squares, rank, s


@documented(PARAMETERS)
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Invert an array as the linear map `tensordot(a, x, ind)`.

    Args:
        a: an array; its first axes have as many elements in total as the others.
        ind: the number of first axes.

    Example:
        >>> a = np.eye(6).reshape(2, 3, 6)
        >>> np.linalg.tensorinv(a, ind=2).shape
        (6, 2, 3)
    """
    shape, count = operand_shape(a, "tensorinv"), operands.static_int(ind, "tensorinv", "ind")
    if count <= 0:
        raise operands.value_error("tensorinv", "ind is not positive", "Pass 1 or more.", ind=ind)
    first, others = shape.dimensions[:count], shape.dimensions[count:]
    if math.prod(first) != math.prod(others):
        problem = f"the first {count} axes and the others must have equally many elements"
        raise matrix_error("tensorinv", problem, "Pass another ind.", f"a {shape}")
    square = mnp.reshape(a, (math.prod(first), math.prod(first)))
    return mnp.reshape(inv(square), (*others, *first))


@documented(PARAMETERS)
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Solve tensordot(a, x, x.ndim) = b.

    Args:
        a: an array with the axes of `b` first, and as many elements in the others.
        b: an array.
        axes: axes of `a` to move to its end first.

    Example:
        >>> np.linalg.tensorsolve(2 * np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
        Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    axes = () if axes is None else operands.listed(axes)
    moved = mnp.moveaxis(a, axes, tuple(range(-len(axes), 0))) if axes else a
    left, right = operand_shape(moved, "tensorsolve"), operand_shape(b, "tensorsolve")
    others = left.dimensions[right.rank :]
    if left.dimensions[: right.rank] != right.dimensions or right.size != math.prod(others):
        problem = "a must start with the axes of b, and have equally many elements in the others"
        advice = "Move axes of a by `axes`."
        raise matrix_error("tensorsolve", problem, advice, f"a {left}", f"b {right}")
    matrix = mnp.reshape(moved, (right.size, right.size))
    return mnp.reshape(solve(matrix, mnp.ravel(b)), others)
