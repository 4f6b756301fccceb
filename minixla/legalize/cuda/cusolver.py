"""Linear algebra with cuSOLVER."""

from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple, full_like
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.linear_algebra.eigen import Eig, Eigh
from minixla_ops.linear_algebra.factorization import has_elements
from minixla_ops.linear_algebra.gaps import over_columns
from minixla_ops.linear_algebra.lu import Lu
from minixla_ops.linear_algebra.matrices import adjoint, columns
from minixla_ops.linear_algebra.matrix_calls import library_call
from minixla_ops.linear_algebra.qr import Geqrf, HouseholderProduct
from minixla_ops.linear_algebra.svd import Svd
from minixla_ops.linear_algebra.triangular_systems import Cholesky, wide_type

#: Limits as in JAX: cuSOLVER's Jacobi method supports up to 1,024 rows and columns. Its batched
#: form for sizes up to 32 has no reduced results.
_MOST_BY_JACOBI = 1024
_MOST_IN_BATCHES = 32


def _info(a: Shape) -> Shape:
    """Return the shape of cuSOLVER's status of each matrix: 0 for success."""
    return Shape("s32", a.dimensions[:-2])


def _flag(value: bool) -> str:
    return str(value).lower()


@legalize(Cholesky, "cuda", when=has_elements)
def cholesky_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU runs one kernel per row; cuSOLVER factorizes the whole matrix, as in JAX."""
    (a,) = operands
    wide = array_shape(a).with_element_type(wide_type(a))
    options = {"lower": _flag(operation.lower)}
    values = [convert(a, wide.element_type)]
    results = library_call("cusolver_potrf_ffi", options, values, [wide, _info(wide)])
    return convert(operation.finish(*results), array_shape(a).element_type)


@legalize((Geqrf, HouseholderProduct), "cuda", when=has_elements)
def reflections_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER does."""
    shapes = operation.infer(tuple(map(array_shape, operands)))
    target_name = f"cusolver_{operation.routines[0]}_ffi"
    results = library_call(target_name, {}, operands, as_tuple(shapes))
    return as_results(results)


@legalize(Lu, "cuda", when=has_elements)
def lu_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER does.

    jaxlib's kernel computes the permutation, because loops are slow on GPUs.
    """
    a = array_shape(operands[0])
    _, pivots, permutation = operation.infer((a,))
    lu, pivots_found, _ = library_call("cusolver_getrf_ffi", {}, operands, [a, pivots, _info(a)])
    exchange = CustomCall("cu_lu_pivots_to_permutation", (permutation,))
    return lu, pivots_found - 1, *exchange(pivots_found - 1)


def _is_wide(operation: Any, operands: Operands, target: Target) -> bool:
    m, n = operands[0].shape.dimensions[-2:]
    return m < n and n > _MOST_BY_JACOBI


@legalize(Svd, "cuda", when=_is_wide)
def svd_of_adjoint(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER's method for large matrices requires tall ones."""
    factors = operation(adjoint(operands[0]))
    if not operation.vectors:
        return factors
    u, s, vh = factors
    return adjoint(vh), s, adjoint(u)


@legalize(Svd, "cuda", when=has_elements)
def svd_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER does."""
    a = array_shape(operands[0])
    m, n = a.dimensions[-2:]
    k, by_jacobi = min(m, n), max(m, n) <= _MOST_BY_JACOBI
    is_full = operation.vectors and operation.full_matrices
    is_full = is_full or (by_jacobi and k <= _MOST_IN_BATCHES)
    u, s, v, vh, info = operation.library_shapes(a, is_full)
    options = {"full_matrices": _flag(is_full), "compute_uv": _flag(operation.vectors)}
    if not by_jacobi:
        options["transposed"] = "false"
        return operation.finish(
            *library_call("cusolver_gesvd_ffi", options, operands, [a, s, u, vh, info])
        )
    factors = library_call("cusolver_gesvdj_ffi", options, operands, [a, s, u, v, info])
    _, values, left, right, failed = factors
    if not operation.full_matrices:
        left, right = columns(left, 0, k), columns(right, 0, k)
    return operation.finish(a, values, left, adjoint(right), failed)


@legalize(Eigh, "cuda", when=has_elements)
def eigh_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER does."""
    a = array_shape(operands[0])
    values = Shape(a.element_type.real, a.dimensions[:-1])
    options = {"lower": _flag(operation.lower), "algorithm": "0 : ui8"}
    return operation.finish(
        *library_call("cusolver_syevd_ffi", options, operands, [a, values, _info(a)])
    )


@legalize(Eig, "cuda", when=has_elements)
def eig_by_cusolver(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no such operation; cuSOLVER does."""
    a = array_shape(operands[0])
    values = Shape(a.element_type.complex, a.dimensions[:-1])
    options = {"left": "false", "right": _flag(operation.vectors)}
    shapes = [a, values, a, a, _info(a)]
    _, eigenvalues, _, vectors, info = library_call("cusolver_geev_ffi", options, operands, shapes)
    return operation.where_found(info, eigenvalues, complex_vectors(eigenvalues, vectors))


def complex_vectors(values: Any, vectors: Any) -> Any:
    """Return the eigenvectors from cuSOLVER's result; real arrays store them in pairs."""
    shape = array_shape(vectors)
    if not shape.element_type.is_complex:
        # For two conjugate vectors, the first column has the real parts of the first vector, and
        # the second has its imaginary parts.
        at, flags = shape.rank - 1, ops.imag(values) != 0
        in_pair, is_first = (over_columns(x, shape) for x in (flags, _opens_pair(flags)))
        zero, nothing = np.zeros((), shape.dtype), [(0, 0, 0)] * at
        before, after = (ops.pad(vectors, zero, [*nothing, (step, -step, 0)]) for step in (1, -1))
        parts = ops.select(in_pair & ~is_first, before, vectors)
        rest = ops.select(is_first, after, -vectors)
        vectors = ops.complex(parts, ops.select(in_pair, rest, full_like(rest, 0)))
    return vectors


def _opens_pair(flags: Any) -> Any:
    """Return which of the set flags, which come in adjacent pairs, are the first of a pair."""
    *batch, n = array_shape(flags).dimensions
    ones, padding = [1] * len(batch), [(0, 0)] * len(batch)
    numbers = ops.convert_element_type(flags, "s32")
    zero, window, steps = np.int32(0), [*ones, n], [*ones, 1]
    counts = ops.reduce_window([numbers], [zero], ops.add, window, steps, [*padding, (n - 1, 0)])
    return flags & ((counts & full_like(counts, 1)) == full_like(counts, 1))
