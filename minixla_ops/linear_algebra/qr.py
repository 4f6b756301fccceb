"""Qr: orthogonal and triangular factors of matrices; and the reflections that compose Q."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, builder, register
from minixla.core.attributes import Boolean, attribute
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import array_shape, as_results, full_like, splat, zeros
from minixla_ops.linear_algebra.factorization import Factorization, routine
from minixla_ops.linear_algebra.matrices import (
    adjoint,
    columns,
    identity,
    joined,
    product,
    rows,
    triangle,
)
from minixla_ops.linear_algebra.solving import solve_by_lu
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.lowering import Lowered


class _Reflections(Factorization, Lowered):
    """Base class of reflections: libraries compute them, and a lowering differentiates them."""

    #: Names of the routine for real and for complex numbers.
    routines: ClassVar[tuple[str, str]]

    def stablehlo(self, emit, operands, shapes, results):
        return Factorization.stablehlo(self, emit, operands, shapes, results)

    def numpy(self, *arrays):
        return as_results(routine(self.routines[0])(*arrays))


@register
class Geqrf(_Reflections):
    """Reflections that make matrices triangular: a = h r. JAX: lax.linalg.geqrf.

    h is `householder_product` of the results. Reflection i is 1 - tau v v^H, where v is 0 before
    element i and 1 at element i.

    Args:
        a: an array [..., m, n] of f32, f64, c64 or c128.

    Returns:
        a: an array like a, with r in the upper triangle. Below, column i has the elements of v
            after element i.
        taus: an array [..., min(m, n)] of the factors tau.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, of rank 2 or more.

    Example:
        >>> a, taus = ops.geqrf(np.float32([[3, 1], [4, 2]]))
        >>> a.shape, taus.shape
        ((2, 2), (2,))
    """

    target = "Qr"
    routines = "geqrf", "geqrf"
    operands = ("a",)

    def shape(self, a):
        self.check_matrices(a)
        return a, a.with_dimensions((*a.dimensions[:-2], min(a.dimensions[-2:])))

    def lowered(self, a):
        # Like LAPACK's geqr2.
        def step(at: Array, a: Array) -> tuple[Array, Array]:
            column = selected_rows(ops.eq, a, -1, at)
            tau, vector, whole = reflection_of(a, at, at)
            right = a * selected_rows(ops.gt, a, -1, at)
            right = right - conjugate(tau) * product(vector, product(adjoint(vector), right))
            left = a * selected_rows(ops.lt, a, -1, at)
            return tau, left + whole * column + right * selected_rows(ops.gt, a, -1, at)

        shape = array_shape(a)
        k = min(shape.dimensions[-2:])
        taus, reflected = ops.scan([ops.iota(Shape("s32", (k,)), 0)], [a], step)
        taus = ops.reshape(taus, (k, *shape.dimensions[:-2]))
        return reflected, move_dimension(taus, 0, shape.rank - 2)


@register
class HouseholderProduct(_Reflections):
    """Multiply the reflections of Geqrf, and return the first columns of the product.

    JAX: lax.linalg.householder_product.

    Args:
        a: an array [..., m, n] of f32, f64, c64 or c128, the vectors below the diagonal.
        taus: an array [..., k] with the same type, the factors of the reflections.

    Returns:
        The first n columns of the product of k reflections, an array like a.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, of rank 2 or more, with at least as many rows
            as columns.
        (C2) taus has the type and the batch dimensions of a, and at most one element for each
            column of a.

    Example:
        >>> a, taus = ops.geqrf(np.float32([[3, 1], [4, 2]]))
        >>> q = ops.householder_product(a, taus)
        >>> np.allclose(q.T @ q, np.eye(2), atol=1e-5)
        True
    """

    target = "ProductOfElementaryHouseholderReflectors"
    routines = "orgqr", "ungqr"
    operands = "a", "taus"

    def shape(self, a, taus):
        self.check_matrices(a)
        *batch, m, n = a.dimensions
        if m < n:
            self.refuse(
                "C1", "a must have at least as many rows as columns", "Take the first columns only."
            )
        types, batches = (a.element_type, taus.element_type), (batch, [*taus.dimensions[:-1]])
        if types[0] is not types[1] or not taus.rank or batches[0] != batches[1]:
            problem = "a and taus must have equal types and batch dimensions"
            self.refuse("C2", problem, "Pass the results of geqrf.")
        if taus.dimensions[-1] > n:
            problem = "taus must not have more elements than a has columns"
            self.refuse("C2", problem, "Each column below the diagonal is a reflection's vector.")
        return a

    def lowered(self, a, taus):
        def step(at: Array, tau: Array, reflected: Array, a: Array) -> tuple[Array, Array]:
            projection = _sum(a * selected_rows(ops.eq, a, -1, at), -1)
            vector = projection * selected_rows(ops.gt, a, -2, at) + selected_rows(
                ops.eq, a, -2, at
            )
            return reflected - tau * product(vector, product(adjoint(vector), reflected)), a

        *batch, k = array_shape(taus).dimensions
        taus = ops.reshape(move_dimension(taus, len(batch), 0), (k, *batch, 1, 1))
        first = [identity(array_shape(a)), a]
        steps = [ops.iota(Shape("s32", (k,)), 0), taus]
        return ops.scan(steps, first, step, is_reverse=True)[0]


def reflection_of(a: Array, at: Array, row: Array) -> tuple[Array, Array, Array]:
    """Return the reflection that zeroes column `at` below a row, in LAPACK's convention.

    Returns:
        Its factor tau, its vector v, and the new column with v below the row.
    """
    projection = _sum(a * selected_rows(ops.eq, a, -1, at), -1)
    alpha, below = (
        _sum(projection * selected_rows(ops.eq, a, -2, row), -2),
        projection * selected_rows(ops.gt, a, -2, row),
    )
    head, side = ops.real(alpha), ops.imag(alpha)
    rest = _sum(ops.real(below * conjugate(below)), -2) + side * side
    is_moved = rest != 0
    size = ops.sqrt(_where(is_moved, rest + head * head, 1))
    beta = _where(is_moved, ops.select(head < 0, size, -size), head)
    tau = _where(is_moved, (beta - alpha) / _where(is_moved, beta, 1), 0)
    scaled = below / _where(is_moved, alpha - beta, 1)
    vector = scaled + selected_rows(ops.eq, a, -2, row)
    kept = projection * selected_rows(ops.lt, a, -2, row)
    return tau, vector, kept + beta * selected_rows(ops.eq, a, -2, row) + scaled


def selected_rows(compare: Callable[..., Array], matrix: Array, dimension: int, at: Array) -> Array:
    """Return 1 in columns (-1) or rows (-2) whose index compares with `at`, 0 in the others."""
    shape = array_shape(matrix)
    sizes = [1] * shape.rank
    sizes[dimension] = shape.dimensions[dimension]
    places = ops.iota(Shape("s32", sizes), shape.rank + dimension)
    flags = compare(places, ops.broadcast_in_dim(at, sizes, ()))
    return ops.convert_element_type(flags, shape.element_type)


def _sum(value: Array, dimension: int) -> Array:
    """Sum along a dimension, which is kept with size 1."""
    sizes = [*array_shape(value).dimensions]
    sizes[dimension] = 1
    return ops.reshape(sum_over(value, (len(sizes) + dimension,)), sizes)


def _where(flags: Array, value: Array, other: ArrayLike) -> Array:
    shape = array_shape(value)
    other = splat(other, shape) if isinstance(other, int) else other
    return ops.select(flags, value, other)


@register
class Qr(Factorization, Lowered):
    """QR factorization, with orthogonal and upper triangular factors: a = q r. JAX: lax.linalg.qr.

    Args:
        a: an array [..., m, n] of f32, f64, c64 or c128.
        full_matrices: whether q is square; else it has min(m, n) columns.

    Returns:
        q: an array [..., m, m], or [..., m, min(m, n)], with orthonormal columns.
        r: an array [..., m, n], or [..., min(m, n), n], zero below the diagonal.

    Checks:
        (C1) a is an array of f32, f64, c64 or c128, of rank 2 or more.

    Example:
        >>> a = np.float32([[3, 1], [4, 2]])
        >>> q, r = ops.qr(a)
        >>> np.allclose(q @ r, a)
        True
    """

    operands = ("a",)
    full_matrices: bool = attribute(Boolean(), default=True)

    def shape(self, a):
        self.check_matrices(a)
        *batch, m, n = a.dimensions
        k = m if self.full_matrices else min(m, n)
        return a.with_dimensions((*batch, m, k)), a.with_dimensions((*batch, k, n))

    def lowered(self, a):
        shape = array_shape(a)
        m, n = shape.dimensions[-2:]
        if not shape.size:
            q, r = self.shape(shape)
            return identity(q), zeros(r)
        h, taus = ops.geqrf(a)
        vectors = columns(h, 0, m) if m < n else h
        if self.full_matrices and m > n:
            more = zeros(shape.with_dimensions((*shape.dimensions[:-1], m - n)))
            vectors = joined([h, more], -1)
        r = h if self.full_matrices else rows(h, 0, min(m, n))
        return ops.householder_product(vectors, taus), triangle(r, False)

    def numpy(self, a):
        return tuple(np.linalg.qr(a, "complete" if self.full_matrices else "reduced"))

    def stablehlo(self, emit, operands, shapes, results):
        return Lowered.stablehlo(self, emit, operands, shapes, results)

    def jvp(self, primals, tangents, results):
        (a,), (tangent,), (q, r) = primals, tangents, results
        m, n = array_shape(a).dimensions[-2:]
        k = min(m, n)
        of_q, of_r = _thin_tangents(columns(q, 0, k), _square(r, k), columns(tangent, 0, k))
        if m < n:  # q r_2 = a_2, with q of the square part
            moved = product(adjoint(of_q), columns(a, m, n))
            moved = moved + product(adjoint(q), columns(tangent, m, n))
            return of_q, joined([of_r, moved], -1)
        if not self.full_matrices or m == n:
            return of_q, of_r
        last = array_shape(r).dimensions[:-2]
        below = zeros(array_shape(r).with_dimensions((*last, m - n, n)))
        return joined([of_q, _completed_tangent(q, of_q)], -1), joined([of_r, below], -2)


qr, geqrf, householder_product = builder(Qr), builder(Geqrf), builder(HouseholderProduct)


def _square(value: Array, size: int) -> Array:
    return columns(rows(value, 0, size), 0, size)


def _thin_tangents(q: Array, r: Array, tangent: Array) -> tuple[Array, Array]:
    """Compute tangents of q and r for matrices with at least as many rows as columns.

    q^H q' is skew-Hermitian, with the lower triangle of q^H a' r^-1 (Walter and Lehmann,
    "Algorithmic differentiation of linear algebra functions", 2010).
    """
    moved = ops.triangular_solve(r, tangent, False, False)
    inner = product(adjoint(q), moved)
    below = triangle(inner, True, strict=True)
    skew = below - adjoint(below)
    shape = array_shape(inner)
    if shape.element_type.is_complex:
        imaginary = ops.imag(inner)
        skew = skew + identity(shape) * ops.complex(full_like(imaginary, 0), imaginary)
    return product(q, skew - inner) + moved, product(inner - skew, r)


def _completed_tangent(q: Array, of_q: Array) -> Array:
    """Compute the tangent of the columns of q that a does not determine.

    Source: Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms for
    square, wide, and deep matrices", 2020; equations 32 and 33 of arXiv 2409.13374.
    """
    m, n = array_shape(of_q).dimensions[-2:]
    first, below, rest = _square(q, n), columns(rows(q, n, m), 0, n), columns(q, n, m)
    factors, _, permutation = ops.lu(first - identity(array_shape(first)))
    moved = solve_by_lu(factors, permutation, adjoint(below), "ADJOINT")
    kept = columns(q, 0, n) + product(rest, adjoint(moved))
    change = rows(of_q, n, m) - product(adjoint(moved), rows(of_q, 0, n))
    return product(of_q, moved) - product(kept, adjoint(change))
