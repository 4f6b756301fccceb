"""NumPy implementations of LAPACK routines for stacks of matrices, with LAPACK's conventions.

A routine takes its arrays and returns the results in order, None for those that LAPACK leaves
undefined. `info` is 0 or an error code for each matrix.
Source: https://www.netlib.org/lapack/explore-html/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

Arrays = Sequence[Any]


def _adjoint(matrix: np.ndarray) -> np.ndarray:
    return matrix.conj().swapaxes(-1, -2)


def _in_each(function: Callable[[np.ndarray], Arrays], a: np.ndarray) -> Arrays:
    """Apply a function to stacks of matrices; return NaN results on failure, and `info`."""
    batch = a.shape[:-2]
    try:
        return *function(a), np.zeros(batch, np.int32)
    except np.linalg.LinAlgError:
        results = [_or_nan(function, matrix) for matrix in a.reshape(-1, *a.shape[-2:])]
    columns = [np.stack(column) for column in zip(*results, strict=True)]
    return [column.reshape((*batch, *column.shape[1:])) for column in columns]


def _or_nan(function: Callable[[np.ndarray], Arrays], matrix: np.ndarray) -> Arrays:
    try:
        return *function(matrix), np.int32(0)
    except np.linalg.LinAlgError:
        like = function(np.eye(*matrix.shape, dtype=matrix.dtype))
        return *[np.full_like(array, np.nan) for array in like], np.int32(1)


def _lu(a: np.ndarray) -> Arrays:
    """Compute getrf: L and U in one matrix, the row exchanged with each row (from 1), info."""
    lu = a.copy()
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    pivots = np.zeros((*a.shape[:-2], count), np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    for step in range(count):
        # For complex numbers LAPACK compares the sums of the moduli of both parts.
        below: Any = lu[..., step:, step]
        size = np.abs(below.real) + np.abs(below.imag)
        chosen = np.nanargmax(np.where(np.isnan(size), -1, size), -1) + step
        pivots[..., step] = chosen + 1
        at = chosen[..., None, None]
        row = np.take_along_axis(lu, at, -2)
        np.put_along_axis(lu, at, lu[..., step : step + 1, :], -2)
        lu[..., step : step + 1, :] = row
        pivot = lu[..., step, step]
        info = np.where((info == 0) & (pivot == 0), step + 1, info)
        lu[..., step + 1 :, step] /= np.where(pivot == 0, 1, pivot)[..., None]
        below, right = lu[..., step + 1 :, step], lu[..., step, step + 1 :]
        lu[..., step + 1 :, step + 1 :] -= below[..., :, None] * right[..., None, :]
    return lu, pivots, info.astype(np.int32)


def _qr(a: np.ndarray) -> Arrays:
    """Compute geqrf: R, the vectors of the reflections below it, and their factors."""
    transposed, factors = np.linalg.qr(a, mode="raw")
    return transposed.swapaxes(-1, -2), factors


def _reflected(a: np.ndarray, factors: np.ndarray, c: np.ndarray, adjoint: bool) -> np.ndarray:
    """Multiply reflections 1 - factor v v^H, or their adjoint, with `c`."""
    count = factors.shape[-1]
    for step in range(count) if adjoint else reversed(range(count)):
        vector = a[..., step].copy()
        vector[..., :step] = 0
        vector[..., step] = 1
        factor = factors[..., step].conj() if adjoint else factors[..., step]
        row = vector[..., None, :].conj() @ c
        c = c - factor[..., None, None] * vector[..., :, None] * row
    return c


def _orthogonal(a: np.ndarray, factors: np.ndarray) -> Arrays:
    """Compute orgqr, ungqr: the columns of Q."""
    return (_reflected(a, factors, np.broadcast_to(np.eye(*a.shape[-2:]), a.shape), False),)


def _orthogonal_product(
    a: np.ndarray, factors: np.ndarray, c: np.ndarray, left: bool, transpose: bool
) -> Arrays:
    """Compute ormqr, unmqr: Q c, or c Q; with Q^H for Q if `transpose`."""
    if left:
        return (_reflected(a, factors, c, transpose),)
    return (_adjoint(_reflected(a, factors, _adjoint(c), not transpose)),)


def _singular_values(a: np.ndarray, mode: Literal["A", "S", "N"]) -> Arrays:
    """Compute gesdd, gesvd: None, singular values, left vectors, adjoint right vectors, info."""
    if mode == "N":
        values, info = _in_each(lambda x: (np.linalg.svd(x, compute_uv=False),), a)
        return None, values, None, None, info
    u, values, v, info = _in_each(lambda x: tuple(np.linalg.svd(x, mode == "A")), a)
    return None, values, u, v, info


def _hermitian_eigenvalues(
    a: np.ndarray, mode: Literal["V", "N"], uplo: Literal["L", "U"]
) -> Arrays:
    """Compute syevd, heevd: eigenvectors, eigenvalues, info."""
    if mode == "N":
        values, info = _in_each(lambda x: (np.linalg.eigvalsh(x, uplo),), a)
        return None, values, info
    values, vectors, info = _in_each(lambda x: tuple(np.linalg.eigh(x, uplo)), a)
    return vectors, values, info


def _eigenvalues(
    a: np.ndarray, compute_left: Literal["V", "N"], compute_right: Literal["V", "N"]
) -> Arrays:
    """Compute geev: eigenvalues (both parts if a is real), left and right vectors, info."""
    left = right = None
    if compute_left == compute_right == "N":
        values, info = _in_each(lambda x: (np.linalg.eigvals(x),), a)
    else:
        values, right, info = _in_each(lambda x: tuple(np.linalg.eig(x)), a)
        left = _left_vectors(right) if compute_left == "V" else None
        right = right if compute_right == "V" else None
    parts = (values,) if np.iscomplexobj(a) else (values.real, values.imag)
    return *parts, left, right, info


def _left_vectors(right: np.ndarray) -> np.ndarray:
    """Return left eigenvectors of length 1 with a real largest component."""
    rows, _ = _in_each(lambda x: (np.linalg.inv(x),), right)
    left = _adjoint(rows)
    left = left / np.linalg.norm(left, axis=-2, keepdims=True)
    greatest = np.take_along_axis(left, np.abs(left).argmax(-2)[..., None, :], -2)
    return left * (greatest.conj() / np.abs(greatest)) if np.iscomplexobj(left) else left


# SciPy has the routines that NumPy lacks; it takes single matrices.


def _by_scipy(name: str, arrays: Arrays, rank: int, take: Callable[..., Arrays]) -> Arrays:
    """Run a SciPy routine on stacks; elements of the first array have rank `rank`.

    `take` gets the routine and one element of each array, and returns the results.
    """
    from scipy.linalg import lapack  # loaded on first use, as it is slow

    routine = getattr(lapack, ("z" if np.iscomplexobj(arrays[0]) else "d") + name)
    batch = arrays[0].shape[: arrays[0].ndim - rank]
    flat = [array.reshape(-1, *array.shape[len(batch) :]) for array in arrays]
    # For an empty stack, get the shapes of the results from matrices of ones.
    members = zip(*flat, strict=True) if flat[0].size else [[np.ones(x.shape[1:]) for x in flat]]
    columns = [
        np.stack(column) for column in zip(*[take(routine, *x) for x in members], strict=True)
    ]
    return [column[: len(flat[0])].reshape((*batch, *column.shape[1:])) for column in columns]


def _schur(a: np.ndarray, mode: Literal["V", "N"], sort: Literal["N"]) -> Arrays:
    """Compute gees: the Schur form, its vectors, eigenvalues, the number of selected ones, info."""
    if not a.shape[-1]:
        empty, count = np.zeros(a.shape[:-1]), np.zeros(a.shape[:-2])
        return a, a, *[empty] * (1 if np.iscomplexobj(a) else 2), count, count

    def take(gees: Callable[..., Arrays], matrix: np.ndarray) -> Arrays:
        form, chosen, *values, vectors, _, info = gees(lambda *value: False, matrix)
        return form, vectors, *values, chosen, info

    return _by_scipy("gees", [a], 2, take)


def _hessenberg(a: np.ndarray, low: np.ndarray, high: np.ndarray) -> Arrays:
    """Compute gehrd: the Hessenberg form, vectors of reflections below it, factors, info."""
    return _by_scipy("gehrd", [a], 2, lambda gehrd, matrix: gehrd(matrix))


def _pivoted_qr(a: np.ndarray, pivots: np.ndarray) -> Arrays:
    """Compute geqp3: geqrf of a matrix with pivoted columns; their 1-based indices, factors."""

    def take(geqp3: Callable[..., Arrays], matrix: np.ndarray) -> Arrays:
        factored, numbers, factors, *_ = geqp3(matrix)
        return factored, numbers, factors

    return _by_scipy("geqp3", [a], 2, take)


def _tridiagonal_solution(
    below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, b: np.ndarray
) -> Arrays:
    """Compute gtsv: three times None, solutions, info. The first of `below` is not read."""

    def take(gtsv: Callable[..., Arrays], *arrays: np.ndarray) -> Arrays:
        below, diagonal, above, b = arrays
        return gtsv(below[1:], diagonal, above[:-1], b)[-2:]

    return None, None, None, *_by_scipy("gtsv", [below, diagonal, above, b], 1, take)


def _tridiagonal(a: np.ndarray, uplo: Literal["L", "U"]) -> Arrays:
    """Compute sytrd, hetrd: the form with vectors of reflections; diagonals, factors, info."""
    name = "hetrd" if np.iscomplexobj(a) else "sytrd"
    return _by_scipy(name, [a], 2, lambda trd, matrix: trd(matrix, lower=int(uplo == "L")))


#: Routines by name, without the letter of the element type.
ROUTINES: dict[str, Callable[..., Arrays]] = {
    "gees": _schur,
    "geev": _eigenvalues,
    "gehrd": _hessenberg,
    "geqp3": _pivoted_qr,
    "geqrf": _qr,
    "gesdd": _singular_values,
    "gesvd": _singular_values,
    "getrf": _lu,
    "gtsv": _tridiagonal_solution,
    "heevd": _hermitian_eigenvalues,
    "hetrd": _tridiagonal,
    "orgqr": _orthogonal,
    "ormqr": _orthogonal_product,
    "syevd": _hermitian_eigenvalues,
    "sytrd": _tridiagonal,
    "ungqr": _orthogonal,
    "unmqr": _orthogonal_product,
}
