# Made by `python -m minixla.tools.stubs`.

import builtins
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from minixla.typing import KeyLike
from typing import Any

__all__: list[str]

def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix whose diagonal is made of these blocks, zeros elsewhere."""

def cho_factor(a: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...) -> tuple[Array, bool]:
    """The Cholesky factors of matrices and `lower`, for `cho_solve`; see `cholesky`."""

def cho_solve(c_and_lower: tuple[Any, bool], b: ArrayLike, overwrite_b: bool = ..., check_finite: bool = ...) -> Array:
    """The x with a x = b, by the factors of a that `cho_factor` gives."""

def cholesky(a: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """The Cholesky factors of Hermitian positive definite matrices: a = u^H u, or l l^H."""

def circulant(c: ArrayLike) -> Array:
    """Construct a circulant matrix."""

def companion(a: ArrayLike) -> Array:
    """Construct a companion matrix."""

def convolution_matrix(a: ArrayLike, n: Any, mode: Any = ...) -> Array:
    """Construct a convolution matrix."""

def det(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """The determinants of matrices: `mx.numpy.linalg.det`."""

def dft(n: Any, scale: ArrayLike | None = ..., *, dtype: DTypeLike | None = ...) -> Array:
    """Construct an n-by-n discrete Fourier transform matrix."""

def eigh(a: ArrayLike, b: ArrayLike | None = ..., lower: bool = ..., eigvals_only: bool = ..., overwrite_a: bool = ..., overwrite_b: bool = ..., turbo: bool = ..., eigvals: None = ..., type: int = ..., check_finite: bool = ...) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices; with `b` those of a v = b v diag(w)."""

def eigh_tridiagonal(d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = ..., select: str = ..., select_range: tuple[float, float] | None = ..., tol: float | None = ..., key: KeyLike | None = ...) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian tridiagonal matrix, by `eigh`."""

def expm(A: ArrayLike, *, upper_triangular: Any = ..., max_squarings: Any = ...) -> Array:
    """Compute the matrix exponential."""

def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: Any = ..., compute_expm: Any = ...) -> Any:
    """Compute the Frechet derivative of the matrix exponential."""

def fiedler(a: ArrayLike) -> Array:
    """Construct a symmetric Fiedler matrix."""

def fiedler_companion(a: ArrayLike) -> Array:
    """Construct a Fiedler companion matrix."""

def funm(A: ArrayLike, func: Any, disp: Any = ...) -> Any:
    """Evaluate a matrix-valued function."""

def hadamard(n: Any, dtype: DTypeLike = ...) -> Array:
    """Construct an n-by-n Hadamard matrix."""

def hankel(c: ArrayLike, r: ArrayLike | None = ...) -> Array:
    """Construct a Hankel matrix."""

def helmert(n: Any, full: Any = ...) -> Array:
    """Construct a Helmert matrix."""

def hessenberg(a: ArrayLike, *, calc_q: Any = ..., overwrite_a: Any = ..., check_finite: Any = ...) -> Any:
    """Compute the Hessenberg form of the matrix."""

def hilbert(n: Any) -> Array:
    """Create a Hilbert matrix of order n."""

def inv(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """The inverses of matrices: `mx.numpy.linalg.inv`."""

def invhilbert(n: Any) -> Array:
    """Compute the inverse of the Hilbert matrix of order n."""

def invpascal(n: Any, kind: Any = ...) -> Array:
    """Compute the inverse of the Pascal matrix of order n."""

def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Construct a Leslie matrix."""

def lu(a: ArrayLike, permute_l: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...) -> Any:
    """Factors of matrices: a = p l u, where p permutes rows."""

def lu_factor(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> tuple[Array, Array]:
    """The factors of matrices in one array, and the row that each row was exchanged with."""

def lu_solve(lu_and_piv: tuple[Any, Any], b: ArrayLike, trans: int = ..., overwrite_b: bool = ..., check_finite: bool = ...) -> Array:
    """The x with a x = b, by what `lu_factor` gives of a."""

def pascal(n: Any, kind: Any = ...) -> Array:
    """Create a Pascal matrix approximation of order n."""

def polar(a: ArrayLike, side: str = ..., *, method: str = ..., eps: float | None = ..., max_iterations: int | None = ...) -> tuple[Array, Array]:
    """The polar factors of matrices: a = u p, or p u, by singular values."""

def qr(a: ArrayLike, overwrite_a: Any = ..., lwork: Any = ..., mode: Any = ..., pivoting: Any = ..., check_finite: Any = ...) -> Any:
    """Compute the QR decomposition of an array."""

def qr_multiply(a: ArrayLike, c: ArrayLike, mode: Any = ..., pivoting: Any = ..., conjugate: Any = ..., overwrite_a: Any = ..., overwrite_c: Any = ...) -> Any:
    """Calculate the QR decomposition and multiply Q with a matrix."""

def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: Any = ...) -> tuple[Array, Array]:
    """Convert real Schur form to complex Schur form."""

def schur(a: ArrayLike, output: str = ...) -> tuple[Array, Array]:
    """The Schur form of square matrices: a = z t z^H. On CPUs alone, and without derivatives."""

def solve(a: ArrayLike, b: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., overwrite_b: bool = ..., debug: bool = ..., check_finite: bool = ..., assume_a: str = ...) -> Array:
    """The x with a x = b; see `mx.numpy.linalg.solve`."""

def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: Any = ..., tol: ArrayLike = ...) -> Array:
    """Solves the Sylvester equation .. math::."""

def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = ..., lower: bool = ..., unit_diagonal: bool = ..., overwrite_b: bool = ..., debug: Any = ..., check_finite: bool = ...) -> Array:
    """The x with a x = b, for triangular matrices a."""

def sqrtm(A: ArrayLike, blocksize: Any = ...) -> Array:
    """Compute the matrix square root."""

def svd(a: ArrayLike, full_matrices: bool = ..., compute_uv: bool = ..., overwrite_a: bool = ..., check_finite: bool = ..., lapack_driver: str = ...) -> Any:
    """Singular values, with `compute_uv` as (u, s, vh): `mx.numpy.linalg.svd`."""

def toeplitz(c: ArrayLike, r: ArrayLike | None = ...) -> Array:
    """The matrices with constant diagonals: c is the first column, r the first row."""

