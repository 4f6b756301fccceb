"""LuSolve: its equation, transposes, derivatives that use the same factors, batches."""

import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ShapeError
from tests.harness import check_batching, check_derivatives, check_rejected
from tests.minixla_ops.linear_algebra.test_eigen import (
    TYPES,
    adjoint,
    assert_close,
    normal,
    results,
)

TURNED = {
    "NO_TRANSPOSE": lambda a: a,
    "TRANSPOSE": lambda a: a.swapaxes(-1, -2),
    "ADJOINT": adjoint,
}


def solution(a, b, transpose_a="NO_TRANSPOSE"):
    lu, _, permutation = ops.lu(mx.stop_gradient(a))
    return ops.lu_solve(a, lu, permutation, b, transpose_a)


@pytest.mark.parametrize("transpose_a", TURNED)
def test_fact_solutions_solve_their_systems(transpose_a):
    pairs = [(normal((2, 4, 4), dtype), normal((2, 4, 3), dtype)) for dtype in TYPES]
    found = results(lambda xs: [solution(a, b, transpose_a) for a, b in xs], pairs)
    for evaluated in found:
        for x, (a, b) in zip(evaluated, pairs, strict=True):
            product = TURNED[transpose_a](a) @ x
            np.testing.assert_allclose(product, b, atol=2000 * np.finfo(a.dtype).eps)


@pytest.mark.parametrize("transpose_a", TURNED)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives(transpose_a, dtype):
    check_derivatives(
        lambda a, b: solution(a, b, transpose_a),
        [normal((3, 3), dtype) + 3 * np.eye(3), normal((3, 2), dtype)],
        lambda a, b: jnp.linalg.solve(TURNED[transpose_a](a), b),
        order=2 if transpose_a == "ADJOINT" else 1,
    )


def test_batching():
    a = normal((3, 3))
    check_batching(solution, [a + 4 * np.eye(3), normal((3, 2))])
    stack = normal((3, 4, 2))
    one = results(mx.vmap(solution, (None, 1), 1), a, stack)[0]
    for at in range(4):
        assert_close(a @ one[:, at], stack[:, at], np.float32)
    assert results(mx.vmap(solution, (None, 1), 1), a, stack[:, :0])[0].shape == (3, 0, 2)


def test_rejected():
    a, b, permutation = np.ones((3, 3)), np.ones((3, 2)), np.zeros(3, np.int32)
    solve = lambda *xs: ops.lu_solve(*xs)  # noqa: E731
    check_rejected(solve, [a, a[:2], permutation, b], ShapeError, "(C1) a and lu are not square")
    check_rejected(solve, [b, b, permutation, b], ShapeError, "(C1) a and lu are not square")
    check_rejected(solve, [a, a, permutation[:2], b], ShapeError, "(C2) permutation does not fit")
    check_rejected(solve, [a, a, permutation, b[:2]], ShapeError, "(C3) a and b differ")
    check_rejected(
        solve, [a, a, permutation, b.astype(np.float32)], ShapeError, "(C3) a and b differ"
    )
