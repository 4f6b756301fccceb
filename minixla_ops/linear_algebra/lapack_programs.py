"""Differentiable programs and tangents for LAPACK routines that are not operations.

A program takes the operands and the results of a routine. It computes the results again with
differentiable operations, and reads only results that are constant for derivatives.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Shape
from minixla.typing import Array
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import array_shape, full_like, zeros
from minixla_ops.linear_algebra.matrices import (
    adjoint,
    columns,
    diagonal,
    joined,
    permuted,
    product,
    rows,
    transposed,
    triangle,
)
from minixla_ops.linear_algebra.qr import reflection_of, selected_rows
from minixla_ops.linear_algebra.solving import solve_by_lu

Arrays = Sequence[Any]


def orthogonal_product(operands: Arrays, results: Arrays, left: bool, transpose: bool) -> Arrays:
    """Compute ormqr, unmqr: Q c or c Q, with Q^H for Q if `transpose`."""
    a, taus, c = operands
    shape = array_shape(a)
    size = shape.dimensions[-2]
    missing = size - shape.dimensions[-1]
    if missing:
        more = zeros(shape.with_dimensions((*shape.dimensions[:-1], missing)))
        a = joined([a, more], -1)
    q = ops.householder_product(a, taus)
    q = adjoint(q) if transpose else q
    return (product(q, c) if left else product(c, q),)


def pivoted_qr(operands: Arrays, results: Arrays) -> Arrays:
    """Compute geqp3: geqrf of the columns in pivoted order."""
    a, pivots = operands[0], results[1]
    moved = transposed(permuted(transposed(a), pivots - 1))
    factored, taus = ops.geqrf(moved)
    return factored, pivots, taus


def hessenberg(operands: Arrays, results: Arrays) -> Arrays:
    """Compute gehrd: the Hessenberg form, vectors of reflections below it, factors, info."""
    return *_reduced(operands[0]), results[2]


def _reduced(a: Array) -> tuple[Any, Any]:
    """Eliminate the elements below the first subdiagonal by reflections from both sides."""
    shape = array_shape(a)
    count = shape.dimensions[-1] - 1
    if count < 1:
        return a, zeros(shape.with_dimensions((*shape.dimensions[:-2], max(count, 0))))

    def step(at: Array, a: Array) -> tuple[Array, Array]:
        column, behind = selected_rows(ops.eq, a, -1, at), selected_rows(ops.gt, a, -1, at)
        tau, vector, whole = reflection_of(a, at, at + 1)
        right = a - tau * product(product(a, vector), adjoint(vector))
        left = right - conjugate(tau) * product(vector, product(adjoint(vector), right))
        return tau, a * selected_rows(ops.lt, a, -1, at) + whole * column + left * behind

    taus, reduced = ops.scan([ops.iota(Shape("s32", (count,)), 0)], [a], step)
    taus = ops.reshape(taus, (count, *shape.dimensions[:-2]))
    return reduced, move_dimension(taus, 0, shape.rank - 2)


def tridiagonal(operands: Arrays, results: Arrays, lower: bool) -> Arrays:
    """Compute sytrd, hetrd: the form and vectors in a triangle; diagonals, factors, info."""
    (a,), rank = operands, array_shape(operands[0]).rank
    ends = (rank - 2, rank - 1)
    half = a if lower else ops.rev(a, ends)
    below = triangle(half, True, strict=True)
    full = below + adjoint(below) + triangle(triangle(_real(half), True), False)
    packed, taus = _reduced(full)
    on, off = ops.real(diagonal(packed)), ops.real(_subdiagonal(packed))
    found = triangle(packed, True)
    if not lower:
        found, on, off, taus = (
            ops.rev(found, ends),
            *[ops.rev(x, (rank - 2,)) for x in (on, off, taus)],
        )
    return found + triangle(a, not lower, strict=True), on, off, taus, results[4]


def _real(value: Array) -> Array:
    return ops.convert_element_type(ops.real(value), array_shape(value).element_type)


def _subdiagonal(value: Array) -> Array:
    size = array_shape(value).dimensions[-1]
    return diagonal(columns(rows(value, min(1, size), size), 0, max(size - 1, 0)))


def schur_tangents(tangent: Array, form: Array, vectors: Array) -> tuple[Any, Any]:
    """Compute tangents of t and z in a = z t z^H, for distinct eigenvalues.

    With z' = z x for a skew-Hermitian x, t' = z^H a' z + t x - x t is 0 where t is. The diagonal
    elements of a 2 x 2 block are equal; there, their tangents must be equal instead.
    """
    moved = product(adjoint(vectors), product(tangent, vectors))
    shape = array_shape(form)
    *batch, size, _ = shape.dimensions
    places = [(i, j) for j in range(size) for i in range(j + 1, size)]
    if not places:
        return moved, zeros(array_shape(vectors))
    # For each unknown of x, a matrix that contains it, and its term in the equations.
    basis = np.zeros((len(places), size, size), shape.dtype)
    for number, (i, j) in enumerate(places):
        basis[number, i, j] = 1
        if not shape.element_type.is_complex:
            basis[number, j, i] = -1
    wide = (*batch, len(places), size, size)
    units = ops.broadcast_in_dim(basis, wide, range(len(batch), len(wide)))
    forms = ops.broadcast_in_dim(form, wide, (*range(len(batch)), len(wide) - 2, len(wide) - 1))
    shares = product(forms, units) - product(units, forms)
    flat = (*batch, len(places), size * size)
    in_blocks = ops.ne(_subdiagonal(form), zeros(array_shape(_subdiagonal(form))))
    coefficients = _equations(ops.reshape(shares, flat), places, size, in_blocks)
    target = _equations(ops.reshape(moved, (*batch, 1, size * size)), places, size, in_blocks)
    factors, _, permutation = ops.lu(transposed(coefficients))
    solution = solve_by_lu(factors, permutation, -transposed(target), "NO_TRANSPOSE")
    flat_basis = ops.broadcast_in_dim(
        basis.reshape(len(places), -1), flat, (len(flat) - 2, len(flat) - 1)
    )
    x = ops.reshape(product(transposed(solution), flat_basis), shape.dimensions)
    if shape.element_type.is_complex:
        x = x - adjoint(x)
    change = moved + product(form, x) - product(x, form)
    is_kept = ops.ne(form, zeros(shape))
    change = ops.select(is_kept, change, triangle(change, False))
    return change, product(vectors, x)


def moved_imaginary_parts(of_form: Array, form: Array, parts: Array) -> Array:
    """Compute tangents of the eigenvalues' imaginary parts, whose squares are -b c in a block."""
    below, above = _subdiagonal(form), _subdiagonal(transposed(form))
    change = _subdiagonal(of_form) * above + below * _subdiagonal(transposed(of_form))
    shape = array_shape(parts)
    none = zeros(shape.with_dimensions((*shape.dimensions[:-1], min(1, shape.dimensions[-1]))))
    at = shape.rank - 1
    change = ops.concat_in_dim([change, none], at) + ops.concat_in_dim([none, change], at)
    is_real = parts == zeros(shape)
    divisor = ops.select(is_real, full_like(parts, 1), -2 * parts)
    return ops.select(is_real, zeros(shape), change / divisor)


def _equations(values: Array, places: Sequence[tuple[int, int]], size: int, blocks: Array) -> Array:
    """Return, for each row of flat matrices, the terms that must be 0.

    These are the elements below the diagonal, or the difference of a block's diagonal elements.
    """
    shape = array_shape(values)
    lower, apart = np.zeros((2, size * size, len(places)), shape.dtype)
    flags = np.zeros((size - 1, len(places)), np.float32)
    for number, (i, j) in enumerate(places):
        lower[i * size + j, number] = 1
        apart[j * size + j, number], apart[i * size + i, number] = 1, -1
        if i == j + 1:
            flags[j, number] = 1
    wide = (*shape.dimensions[:-2], size * size, len(places))
    taken, others = (
        product(values, ops.broadcast_in_dim(x, wide, (len(wide) - 2, len(wide) - 1)))
        for x in (lower, apart)
    )
    # Mark the equations of blocks.
    count = len(shape.dimensions) - 2
    ones = ops.convert_element_type(blocks, Shape("f32").element_type)
    ones = ops.reshape(ones, (*shape.dimensions[:-2], 1, size - 1))
    placed = (*shape.dimensions[:-2], size - 1, len(places))
    marks = product(ones, ops.broadcast_in_dim(flags, placed, (count, count + 1)))
    marks = ops.broadcast_in_dim(
        ops.reshape(marks, (*shape.dimensions[:-2], len(places))),
        array_shape(taken).dimensions,
        (*range(count), count + 1),
    )
    return ops.select(ops.ne(marks, zeros(array_shape(marks))), others, taken)


#: Programs by routine: functions of operands, results and options.
PROGRAMS: dict[str, Callable[..., Arrays]] = {
    "gehrd": hessenberg,
    "geqp3": pivoted_qr,
    "hetrd": tridiagonal,
    "ormqr": orthogonal_product,
    "sytrd": tridiagonal,
    "unmqr": orthogonal_product,
}
