# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Sequence
from jax.numpy.linalg import multi_dot as multi_dot
from minixla.numpy.spectra import EigResult
from minixla.numpy.spectra import EighResult
from minixla.numpy.spectra import SVDResult
from minixla.numpy.systems import SlogdetResult
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from typing import Any
from typing import overload

__all__: list[str]

def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = ...) -> Array:
    """The vector product of vectors of size 3 along an axis."""

def diagonal(x: ArrayLike, /, *, offset: int = ...) -> Array:
    """The diagonals of matrices in the last two axes, `offset` above the main ones."""

def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The matrix product, `a @ b`; leading axes broadcast."""

def matrix_norm(x: ArrayLike, /, *, keepdims: bool = ..., ord: float | str = ...) -> Array:
    """The norm of matrices in the last two axes; see `norm`."""

def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices to the power of an integer, their inverses below 0, by repeated squaring."""

def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two dimensions exchanged."""

def norm(x: ArrayLike, ord: float | str | None = ..., axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Array:
    """The norm of vectors or matrices, the root of the sum of squares unless `ord` says another."""

def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of each element of the vector `x1` with each of the vector `x2`."""

def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]] = ..., *, precision: Any = ..., preferred_element_type: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """The sum of products over pairs of axes."""

def trace(x: ArrayLike, /, *, offset: int = ..., dtype: DTypeLike | None = ...) -> Array:
    """The sums of the diagonals of matrices in the last two axes; see `diagonal`."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = ..., precision: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The sum of products along an axis, x1 conjugated; the other axes broadcast."""

def vector_norm(x: ArrayLike, /, *, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ord: float | str = ...) -> Array:
    """The norm of vectors, whose components may be along several axes; see `norm`."""

def cond(x: ArrayLike, p: ArrayLike | None = ...) -> Array:
    """The condition numbers of matrices: their norm times that of the inverse."""

def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w). On CPUs alone."""

def eigh(a: ArrayLike, UPLO: str | None = ..., symmetrize_input: bool = ...) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w)."""

def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices, complex and in no order; see `eig`."""

def eigvalsh(a: ArrayLike, UPLO: str | None = ..., *, symmetrize_input: bool = ...) -> Array:
    """The eigenvalues of Hermitian matrices, in ascending order; see `eigh`."""

def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = ..., *, hermitian: bool = ..., tol: ArrayLike | None = ...) -> Array:
    """How many singular values of matrices are more than rtol."""

def pinv(a: ArrayLike, rtol: ArrayLike | None = ..., hermitian: bool = ..., *, rcond: ArrayLike | None = ...) -> Array:
    """The Moore-Penrose pseudo-inverses of matrices."""

@overload
def svd(a: ArrayLike, full_matrices: bool = ..., hermitian: bool = ..., subset_by_index: tuple[int, int] | None = ...) -> SVDResult:
    """Singular values and vectors of matrices: a = u diag(s) vh."""

@overload
def svd(a: ArrayLike, full_matrices: bool = ..., compute_uv: bool = ..., hermitian: bool = ..., subset_by_index: tuple[int, int] | None = ...) -> Any:
    """Singular values and vectors of matrices: a = u diag(s) vh."""

def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, in descending order; see `svd`."""

def cholesky(a: ArrayLike, *, upper: bool = ..., symmetrize_input: bool = ...) -> Array:
    """The triangular factors of Hermitian positive definite matrices: a = l l^H, or u^H u."""

def det(a: ArrayLike) -> Array:
    """The determinants of square matrices [..., n, n]."""

def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices [..., n, n]; infinite or NaN where one is singular."""

def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = ..., *, numpy_resid: bool = ...) -> tuple[Array, Array, Array, Array]:
    """The x for which the sum of squares of b - a x is least, by singular values."""

def qr(a: ArrayLike, mode: str = ...) -> Any:
    """Factors a = q r of matrices [..., m, n]: q has orthonormal columns, r is upper triangular."""

def slogdet(a: ArrayLike, *, method: str | None = ...) -> SlogdetResult:
    """The determinants of square matrices [..., n, n] as signs and logarithms of sizes."""

def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with a x = b, by LU factors; NaN or infinite where a is singular."""

def tensorinv(a: ArrayLike, ind: int = ...) -> Array:
    """The inverse of an array as a linear map: of `tensordot(a, x, ind)`."""

def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = ...) -> Array:
    """The x with tensordot(a, x, x.ndim) = b."""

