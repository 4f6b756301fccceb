# Made by `python -m minixla.tools.stubs`.

import builtins
from jax.scipy.linalg import circulant as circulant
from jax.scipy.linalg import companion as companion
from jax.scipy.linalg import convolution_matrix as convolution_matrix
from jax.scipy.linalg import dft as dft
from jax.scipy.linalg import expm as expm
from jax.scipy.linalg import expm_frechet as expm_frechet
from jax.scipy.linalg import fiedler as fiedler
from jax.scipy.linalg import fiedler_companion as fiedler_companion
from jax.scipy.linalg import funm as funm
from jax.scipy.linalg import hadamard as hadamard
from jax.scipy.linalg import hankel as hankel
from jax.scipy.linalg import helmert as helmert
from jax.scipy.linalg import hessenberg as hessenberg
from jax.scipy.linalg import hilbert as hilbert
from jax.scipy.linalg import invhilbert as invhilbert
from jax.scipy.linalg import invpascal as invpascal
from jax.scipy.linalg import leslie as leslie
from jax.scipy.linalg import pascal as pascal
from jax.scipy.linalg import qr as qr
from jax.scipy.linalg import qr_multiply as qr_multiply
from jax.scipy.linalg import rsf2csf as rsf2csf
from jax.scipy.linalg import solve_sylvester as solve_sylvester
from jax.scipy.linalg import sqrtm as sqrtm
from minixla.typing import Array
from minixla.typing import ArrayLike
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

def det(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """The determinants of matrices: `mx.numpy.linalg.det`."""

def eigh(a: ArrayLike, b: ArrayLike | None = ..., lower: bool = ..., eigvals_only: bool = ..., overwrite_a: bool = ..., overwrite_b: bool = ..., turbo: bool = ..., eigvals: None = ..., type: int = ..., check_finite: bool = ...) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices; with `b` those of a v = b v diag(w)."""

def eigh_tridiagonal(d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = ..., select: str = ..., select_range: tuple[float, float] | None = ..., tol: float | None = ..., key: KeyLike | None = ...) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian tridiagonal matrix, by `eigh`."""

def inv(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """The inverses of matrices: `mx.numpy.linalg.inv`."""

def lu(a: ArrayLike, permute_l: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...) -> Any:
    """Factors of matrices: a = p l u, where p permutes rows."""

def lu_factor(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> tuple[Array, Array]:
    """The factors of matrices in one array, and the row that each row was exchanged with."""

def lu_solve(lu_and_piv: tuple[Any, Any], b: ArrayLike, trans: int = ..., overwrite_b: bool = ..., check_finite: bool = ...) -> Array:
    """The x with a x = b, by what `lu_factor` gives of a."""

def polar(a: ArrayLike, side: str = ..., *, method: str = ..., eps: float | None = ..., max_iterations: int | None = ...) -> tuple[Array, Array]:
    """The polar factors of matrices: a = u p, or p u, by singular values."""

def schur(a: ArrayLike, output: str = ...) -> tuple[Array, Array]:
    """The Schur form of square matrices: a = z t z^H. On CPUs alone, and without derivatives."""

def solve(a: ArrayLike, b: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., overwrite_b: bool = ..., debug: bool = ..., check_finite: bool = ..., assume_a: str = ...) -> Array:
    """The x with a x = b; see `mx.numpy.linalg.solve`."""

def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = ..., lower: bool = ..., unit_diagonal: bool = ..., overwrite_b: bool = ..., debug: Any = ..., check_finite: bool = ...) -> Array:
    """The x with a x = b, for triangular matrices a."""

def svd(a: ArrayLike, full_matrices: bool = ..., compute_uv: bool = ..., overwrite_a: bool = ..., check_finite: bool = ..., lapack_driver: str = ...) -> Any:
    """Singular values, with `compute_uv` as (u, s, vh): `mx.numpy.linalg.svd`."""

def toeplitz(c: ArrayLike, r: ArrayLike | None = ...) -> Array:
    """The matrices with constant diagonals: c is the first column, r the first row."""

