"""Lu: its equation, row exchanges, derivatives against JAX and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ShapeError
from minixla_ops.linear_algebra.lu import permutation_of
from tests.harness import by_jax, check_batching, check_derivatives, check_rejected
from tests.minixla_ops.linear_algebra.test_eigen import TYPES, assert_close, normal, results

SIZES = [(4, 4), (5, 3), (3, 5), (2, 4, 4), (2, 3, 5, 3), (1, 1)]
MATRICES = {(sizes, dtype): normal(sizes, dtype) for sizes in SIZES for dtype in TYPES}


def parts(lu):
    """l and u."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    return np.tril(lu[..., :k], -1) + np.eye(m, k, dtype=lu.dtype), np.triu(lu[..., :k, :])


def test_fact_products_of_the_factors_are_the_matrix_with_other_rows():
    with jax.enable_x64(True):
        expected = by_jax(lambda xs: [lax.linalg.lu(x) for x in xs], list(MATRICES.values()))
    for evaluated in results(lambda xs: [ops.lu(x) for x in xs], list(MATRICES.values())):
        for ((_, dtype), a), found, wanted in zip(
            MATRICES.items(), evaluated, expected, strict=True
        ):
            lu, pivots, permutation = found
            assert (lu.dtype, pivots.dtype, permutation.dtype) == (dtype, np.int32, np.int32)
            lower, upper = parts(lu)
            moved = np.take_along_axis(a, permutation[..., None], -2)
            assert_close(lower @ upper, moved, dtype)
            assert np.all(np.abs(lower.real) + np.abs(lower.imag) <= 2)
            for one, other in zip(found[1:], wanted[1:], strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0), (0, 3), (2, 3, 0), (0, 3, 3), (2, 0, 2, 2)])
def test_matrices_without_elements(sizes):
    for lu, pivots, permutation in results(ops.lu, np.zeros(sizes, np.float32)):
        assert lu.shape == sizes
        assert pivots.shape == (*sizes[:-2], min(sizes[-2:]))
        expected = np.broadcast_to(np.arange(sizes[-2]), sizes[:-1])
        np.testing.assert_array_equal(permutation, expected)


def test_singular_matrices_have_factors_and_nan_stays_with_its_own():
    a = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[np.nan, 1], [1, 1]], [[0, 1], [1, 0]]])
    for lu, _, _ in results(ops.lu, a):
        np.testing.assert_array_equal(lu[:2], [[[2, 4], [0.5, 0]], [[0, 0], [0, 0]]])
        assert np.isnan(lu[2]).any()
        np.testing.assert_array_equal(lu[3], np.eye(2))


def test_exchanges_make_a_permutation():
    pivots = np.array([[2, 1, 3], [0, 3, 2]], np.int32)
    found = mx.jit(lambda x: permutation_of(x, 5))(pivots)
    np.testing.assert_array_equal(
        found, by_jax(lambda p: lax.linalg.lu_pivots_to_permutation(p, 5), pivots)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_derivatives(sizes, dtype):
    a = normal(sizes, dtype)
    # The sine makes JAX's of tangents that are NumPy's, which JAX's rule cannot index.
    theirs = lambda a: lax.linalg.lu(jnp.sin(a))[0]  # noqa: E731
    order = 2 if sizes == (3, 3) else 1
    check_derivatives(lambda a: ops.lu(ops.sin(a))[0], [a], theirs, order=order)


def test_batching():
    check_batching(ops.lu, [normal((3, 2))])


def test_rejected():
    for a, *phrases in (
        (np.ones(3), "(C1) a must be a matrix or a stack of matrices"),
        (
            np.ones((2, 2), np.float16),
            "(C1) the element type must be one of f32, f64, c64, c128, not f16",
            "Convert",
        ),
        (np.ones((2, 2), np.int32), "(C1) the element type must be one of f32"),
    ):
        check_rejected(lambda a: ops.lu(a), [a], ShapeError, *phrases)
