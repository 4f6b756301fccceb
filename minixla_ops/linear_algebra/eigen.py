"""Eigh, Eig and Schur: eigenvalues, eigenvectors and triangular forms of square matrices."""

from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, builder, register
from minixla.core.attributes import Boolean, attribute
from minixla.typing import Array
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.shorthand import array_shape, full_like
from minixla_ops.linear_algebra.factorization import ValuesAndVectors, routine
from minixla_ops.linear_algebra.gaps import column_sums, gaps_between, off_diagonal, over_columns
from minixla_ops.linear_algebra.matrices import adjoint, diagonal, identity, product, triangle


class _OfSquare(ValuesAndVectors):
    """Base class of operations on square matrices."""

    def checked(self, a: Shape) -> Shape:
        """Return the operand's shape after checking that it is one of square matrices."""
        self.check_matrices(a, square=True)
        return a


@register
class Eigh(_OfSquare):
    """Eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w). JAX: lax.linalg.eigh.

    Only one triangle of `a` is read, and only the real parts of its diagonal. Eigenvectors are
    orthonormal. Their signs (or phases, if complex) depend on the backend, and so does the basis
    for equal eigenvalues.

    Derivatives of eigenvalues do not divide by differences of eigenvalues. For equal eigenvalues,
    derivatives of their sum are correct; those of single ones refer to the computed basis.
    Derivatives of eigenvectors divide by the differences, and lose as many digits as eigenvalues
    have in common. The eigenvectors of equal eigenvalues have no derivative: it is NaN, except for
    changes that do not mix them. Functions of other eigenvectors have correct derivatives. In
    reverse mode, eigenvectors that are multiplied by 0, as in v diag(w) v^H with w = 0, count as
    unused.

    Args:
        a: an array [..., n, n] of f32, f64, c64 or c128; only one triangle is read.
        lower: whether to read the lower triangle.
        vectors: whether to compute eigenvectors; else the values are the only result.

    Returns:
        values: the eigenvalues [..., n], real, in ascending order; NaN if the algorithm fails.
        vectors: an array like a, the eigenvectors in its columns.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, with two last dimensions of equal size.

    Example:
        >>> values, vectors = ops.eigh(np.float32([[2, 1], [1, 2]]))
        >>> values
        Array([1., 3.], dtype=float32)
    """

    lower: bool = attribute(Boolean(), default=True)
    vectors: bool = attribute(Boolean(), default=True)

    def shape(self, a):
        a = self.checked(a)
        return self.wanted(Shape(a.element_type.real, a.dimensions[:-1]), a)

    def numpy(self, a):
        vectors, values, _ = routine("syevd")(a, **self.lapack_options())
        return self.wanted(values, vectors)

    def lapack_options(self) -> dict[str, str]:
        """Return the attributes of LAPACK's syevd and heevd."""
        return {"mode": self.mode, "uplo": "L" if self.lower else "U"}

    def finish(self, vectors: Array, values: Array, info: Array) -> Array | tuple[Array, ...]:
        """Return the results from the results of the library."""
        return self.where_found(info, values, vectors)

    def jvp(self, primals, tangents, results):
        # w' = diag(v^H a' v), v' = v (v^H a' v / (w_j - w_i)) off the diagonal: M. B. Giles,
        # "An extended collection of matrix derivative results" (2008).
        values, vectors = results
        half = triangle(tangents[0], self.lower) + triangle(tangents[0], self.lower, strict=True)
        moved = product((half + adjoint(half)) * 0.5, vectors)
        of_values = ops.real(column_sums(conjugate(vectors) * moved))
        mixed = off_diagonal(product(adjoint(vectors), moved))
        gaps = gaps_between(values, array_shape(vectors).element_type)
        return of_values, product(vectors, ops.gap_quotient(mixed, gaps))


@register
class Eig(_OfSquare):
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w). JAX: lax.linalg.eig.

    Eigenvectors have length 1, and their component with the largest modulus is real.

    The derivative of eigenvalues multiplies by the inverse of v. It is infinite or NaN if the
    eigenvectors are dependent, as for [[0, 1], [0, 0]]. For equal eigenvalues with independent
    eigenvectors, derivatives of their sum are correct. The derivative of eigenvectors respects
    their normalization, which needs a unique largest component. As for `Eigh`, eigenvectors of
    equal eigenvalues have no derivative.

    Args:
        a: an array [..., n, n] of f32, f64, c64 or c128.
        vectors: whether to compute eigenvectors; else the values are the only result.

    Returns:
        values: the eigenvalues [..., n], complex, in no order; NaN if the algorithm fails.
        vectors: a complex array with the sizes of a, the eigenvectors in its columns.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, with two last dimensions of equal size.

    Example:
        >>> values, vectors = ops.eig(np.float32([[2, 0], [0, 3]]))
        >>> values
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    vectors: bool = attribute(Boolean(), default=True)

    def shape(self, a):
        vectors = self.checked(a).with_element_type(a.element_type.complex)
        return self.wanted(Shape(vectors.element_type, a.dimensions[:-1]), vectors)

    def numpy(self, a):
        *parts, _, vectors, _ = routine("geev")(a, **self.lapack_options())
        values = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
        return self.wanted(values, vectors)

    def lapack_options(self) -> dict[str, str]:
        """Return the attributes of LAPACK's geev."""
        return {"compute_left": "N", "compute_right": self.mode}

    def finish(self, *results: Any) -> Array | tuple[Array, ...]:
        """Return the results from the results of the library."""
        *parts, _, vectors, info = results
        values = parts[0] if len(parts) == 1 else ops.complex(*parts)
        return self.where_found(info, values, vectors)

    def jvp(self, primals, tangents, results):
        # As for Hermitian matrices, with the inverse of v. The free multiple c of each vector is
        # chosen to keep its length, and its largest component real.
        values, vectors = results
        shape = array_shape(vectors)
        moved = product(ops.convert_element_type(tangents[0], shape.element_type), vectors)
        lu, _, permutation = ops.lu(vectors)
        turned = product(ops.lu_solve(vectors, lu, permutation, identity(shape)), moved)
        of_values = diagonal(turned)
        gaps = gaps_between(values, shape.element_type)
        free = product(vectors, ops.gap_quotient(off_diagonal(turned), gaps))
        greatest = _greatest(vectors)
        of_length = -ops.real(column_sums(conjugate(vectors) * free))
        moved_greatest = ops.imag(column_sums(greatest * free))
        of_phase = -moved_greatest / ops.real(column_sums(greatest * vectors))
        return of_values, free + vectors * over_columns(ops.complex(of_length, of_phase), shape)


def _greatest(vectors: Array) -> Array:
    """Return 1 for the first component of largest modulus in each column, 0 for others."""
    shape, sizes = array_shape(vectors), ops.abs(vectors)
    at, kind = shape.rank - 2, array_shape(sizes)
    top = ops.reduce(sizes, np.zeros((), kind.dtype), ops.max, [at])
    numbers = ops.iota(Shape("s32", shape.dimensions), at)
    last = full_like(numbers, shape.dimensions[at])
    candidates = ops.select(sizes == over_columns(top, kind), numbers, last)
    first = ops.reduce(candidates, np.int32(shape.dimensions[at]), ops.min, [at])
    return ops.convert_element_type(numbers == over_columns(first, kind), shape.element_type)


@register
class Schur(_OfSquare):
    """Schur form of square matrices: a = z t z^H. JAX: lax.linalg.schur.

    z is unitary. t is upper triangular for complex matrices. For real ones it has a 2 x 2 block on
    the diagonal for each pair of complex eigenvalues.

    Args:
        a: an array [..., n, n] of f32, f64, c64 or c128.
        vectors: whether to compute z; else t is the only result.

    Returns:
        t: an array like a, the Schur form; NaN if the algorithm fails.
        z: an array like a, the Schur vectors in its columns.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, with two last dimensions of equal size.

    Example:
        >>> a = np.float32([[2, 1], [0, 3]])
        >>> t, z = ops.schur(a)
        >>> np.allclose(z @ t @ z.T, a, atol=1e-5)
        True
    """

    vectors: bool = attribute(Boolean(), default=True)
    no_derivative = "Schur forms are not unique, and JAX does not define it either: use eigh or eig"

    def shape(self, a):
        a = self.checked(a)
        return self.wanted(a, a)

    def numpy(self, a):
        form, vectors, *_ = routine("gees")(a, self.mode, "N")
        return self.wanted(form, vectors)

    def finish(self, form: Array, vectors: Array, *results: Array) -> Array | tuple[Array, ...]:
        """Return the results from the results of the library."""
        return self.where_found(results[-1], form, vectors)


eigh, eig, schur = builder(Eigh), builder(Eig), builder(Schur)
