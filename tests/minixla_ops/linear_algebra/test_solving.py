"""LuSolve, LyapunovSolve: equations, transposes, derivatives by the same factors, batches."""

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
    check_rejected(solve, [a, a[:2], permutation, b], ShapeError, "(C1) a and lu must be square")
    check_rejected(solve, [b, b, permutation, b], ShapeError, "(C1) a and lu must be square")
    check_rejected(
        solve, [a, a, permutation[:2], b], ShapeError, "(C2) permutation must have one s32"
    )
    check_rejected(solve, [a, a, permutation, b[:2]], ShapeError, "(C3) a and b must have equal")
    check_rejected(
        solve, [a, a, permutation, b.astype(np.float32)], ShapeError, "(C3) a and b must have equal"
    )


def lyapunov_solution(p, c, transpose_a="NO_TRANSPOSE"):
    p = (p + mx.numpy.conj(p.swapaxes(-1, -2))) / 2
    w, v = ops.eigh(mx.stop_gradient(p))
    sums = (w[..., :, None] + w[..., None, :]).astype(p.dtype)
    return ops.lyapunov_solve(p, sums, v, c, transpose_a)


def positive(shape, dtype):
    a = normal(shape, dtype)
    return a @ adjoint(a) + np.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("transpose_a", TURNED)
def test_fact_solutions_solve_lyapunov_equations(transpose_a):
    pairs = [(positive((2, 4, 4), dtype), normal((2, 4, 4), dtype)) for dtype in TYPES]
    found = results(lambda xs: [lyapunov_solution(p, c, transpose_a) for p, c in xs], pairs)
    for evaluated in found:
        for x, (p, c) in zip(evaluated, pairs, strict=True):
            p = TURNED[transpose_a](p)
            np.testing.assert_allclose(p @ x + x @ p, c, atol=2000 * np.finfo(p.dtype).eps)


@pytest.mark.parametrize("transpose_a", TURNED)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("is_equal", [False, True])
def test_derivatives_of_lyapunov_solutions(transpose_a, dtype, is_equal):
    def of_rows(p, c):
        p = TURNED[transpose_a]((p + p.T.conj()) / 2)
        system = jnp.kron(p, jnp.eye(3)) + jnp.kron(jnp.eye(3), p.T)
        return jnp.linalg.solve(system, c.ravel()).reshape(3, 3)

    p = 2 * np.eye(3, dtype=dtype) if is_equal else positive((3, 3), dtype)
    check_derivatives(
        lambda p, c: lyapunov_solution(p, c, transpose_a),
        [p, normal((3, 3), dtype)],
        of_rows,
        order=2 if transpose_a == "NO_TRANSPOSE" else 1,
    )


def test_batching_of_lyapunov_solutions():
    check_batching(lyapunov_solution, [positive((3, 3), np.float32), normal((3, 3), np.float32)])


def test_sums_of_zero():
    p, v, c = (
        np.zeros((2, 2), np.float32),
        np.eye(2, dtype=np.float32),
        np.float32([[0, 1], [0, 0]]),
    )
    for evaluate in (mx.jit, mx.reference):
        solve = evaluate(lambda c: ops.lyapunov_solve(p, p, v, c))
        np.testing.assert_array_equal(solve(p), p)
        assert np.isnan(solve(c)).any()


def test_rejected_lyapunov_equations():
    p, wide = np.ones((3, 3), np.float32), np.ones((2, 3), np.float32)
    solve = lambda *xs: ops.lyapunov_solve(*xs)  # noqa: E731
    for operands in ([wide] * 4, [p, p, p, wide], [p, p.astype(np.float64), p, p]):
        check_rejected(solve, operands, ShapeError, "(C1) operands must be square matrices")
