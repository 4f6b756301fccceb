"""Svd: singular values and vectors of matrices."""

import minixla_ops as ops
from minixla.core import Shape, builder, register
from minixla.core.attributes import Boolean, attribute
from minixla.typing import Array
from minixla_ops.helpers.shorthand import array_shape, full_like
from minixla_ops.linear_algebra.factorization import ValuesAndVectors, routine
from minixla_ops.linear_algebra.gaps import gaps_between, off_diagonal, over_columns, over_rows
from minixla_ops.linear_algebra.matrices import adjoint, columns, diagonal, joined, product, rows


@register
class Svd(ValuesAndVectors):
    """Singular value decomposition of matrices: a = u diag(s) vh. JAX: lax.linalg.svd.

    The columns of u and the rows of vh are orthonormal. Their signs (or phases, if complex) depend
    on the backend, and so do bases for equal singular values.

    Derivatives of singular values do not contain differences of singular values. For equal values,
    derivatives of their sum are correct. At 0, where a value has a kink, it is a one-sided
    derivative. Derivatives of vectors divide by differences of values, and for m != n by values. If
    two values are equal, or one is 0, their vectors have no derivative: it is NaN, except for
    changes that do not mix them. The columns that `full_matrices` adds have no derivative of their
    own: they only remain orthogonal to the others.

    Args:
        a: an array [..., m, n] of f32, f64, c64 or c128; k is min(m, n).
        full_matrices: whether u has m columns and vh n rows; else both have k.
        vectors: whether to compute u and vh; else the values are the only result.

    Returns:
        u: the left singular vectors, [..., m, m] or [..., m, k].
        s: the singular values [..., k], real, in descending order; NaN if the algorithm fails.
        vh: the conjugate right singular vectors in its rows, [..., n, n] or [..., k, n].

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, of rank 2 or more.

    Example:
        >>> u, s, vh = ops.svd(np.float32([[3, 0], [0, 4]]))
        >>> s
        Array([4., 3.], dtype=float32)
    """

    values_at = 1
    for_jvp = {"vectors": True, "full_matrices": False}
    full_matrices: bool = attribute(Boolean(), default=True)
    vectors: bool = attribute(Boolean(), default=True)

    def shape(self, a):
        self.check_matrices(a)
        *batch, m, n = a.dimensions
        k = min(m, n)
        s = Shape(a.element_type.real, (*batch, k))
        left, right = (m, n) if self.full_matrices else (k, k)
        u, vh = (Shape(a.element_type, (*batch, *sizes)) for sizes in ((m, left), (right, n)))
        return self.wanted(u, s, vh)

    def numpy(self, a):
        _, s, u, vh, _ = routine("gesdd")(a, **self.lapack_options())
        return self.wanted(u, s, vh)

    def library_shapes(self, a: Shape, is_full: bool) -> tuple[Shape, ...]:
        """Return the shapes of u, s, v, vh and info; with `is_full`, of all vectors."""
        *batch, m, n = a.dimensions
        k = min(m, n)
        left, right = (m, n) if is_full else (k, k)
        s, info = Shape(a.element_type.real, (*batch, k)), Shape("s32", batch)
        vectors = (m, left), (n, right), (right, n)
        u, v, vh = (Shape(a.element_type, (*batch, *vector)) for vector in vectors)
        return u, s, v, vh, info

    def finish(
        self, a: Array, s: Array, u: Array, vh: Array, info: Array
    ) -> Array | tuple[Array, ...]:
        """Return the results from the results of the library."""
        return self.where_found(info, u, s, vh)

    def lapack_options(self) -> dict[str, str]:
        """Return the attributes of LAPACK's gesdd."""
        return {"mode": ("A" if self.full_matrices else "S") if self.vectors else "N"}

    def jvp(self, primals, tangents, results):
        # With c = u^H a' v, s' = diag(c). Vectors u and v rotate by the Hermitian and
        # skew-Hermitian parts of c, divided by differences and sums of values. For v, the sign of
        # the latter is reversed.
        (u, s, vh), (tangent,) = results, tangents
        k = array_shape(s).dimensions[-1]
        left, right = columns(u, 0, k), adjoint(rows(vh, 0, k))
        moved, back = product(tangent, right), product(adjoint(tangent), left)
        changed = product(adjoint(left), moved)
        shape, half = array_shape(changed), changed * 0.5
        hermitian, skew = off_diagonal(half + adjoint(half)), half - adjoint(half)
        turned = ops.gap_quotient(hermitian, gaps_between(s, shape.element_type))
        sums = over_columns(s, shape) + over_rows(s, shape)
        twisted = ops.gap_quotient(skew, ops.convert_element_type(sums, shape.element_type))
        of_u = _turned(u, turned + twisted, moved, s)
        of_v = _turned(adjoint(vh), turned - twisted, back, s)
        # At 0 it is 0, like the derivative of a norm: the signs of the backend's vectors are
        # arbitrary.
        of_s = ops.select(s == 0, full_like(s, 0), ops.real(diagonal(changed)))
        return of_u, of_s, adjoint(of_v)


def _turned(vectors: Array, within: Array, moved: Array, s: Array) -> Array:
    """Compute the tangent of vectors; the first rotate `within` their space and move out of it.

    Args:
        vectors: one vector in each column.
        within: the amounts of each other by which the first vectors change.
        moved: for each of the first vectors, its change times the scalar in s.
        s: these scalars.
    """
    (m, count), k = array_shape(vectors).dimensions[-2:], array_shape(within).dimensions[-1]
    if m == k:
        return product(vectors, within)
    first = columns(vectors, 0, k)
    outside = moved - product(first, product(adjoint(first), moved))
    outside = _over(outside, s)
    tangent = product(first, within) + outside
    if count == k:
        return tangent
    rest = -product(first, product(adjoint(outside), columns(vectors, k, m)))
    return joined([tangent, rest], -1)


def _over(value: Array, s: Array) -> Array:
    """Divide columns by scalars."""
    shape = array_shape(value)
    return ops.gap_quotient(
        value, ops.convert_element_type(over_columns(s, shape), shape.element_type)
    )


svd = builder(Svd)
