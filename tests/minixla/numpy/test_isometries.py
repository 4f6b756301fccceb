"""Derivatives of nuclear norms and isometries, which JAX loses where singular values are equal."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.numpy.isometries import isometry, nuclear_norm
from tests.selection import diagonal

T = np.array([[1.0, 2, -1], [0.5, -3, 4], [2, 1, 0.25]])
Q = np.linalg.qr(T + np.eye(3))[0]


def _of_isometry(q: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The derivative of q (q^T q)^-1/2, q with orthonormal columns, along t."""
    within = q.T @ t
    return t - q @ within + q @ (within - within.T) / 2


@pytest.mark.parametrize("value", [1.0, 2.0])
@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("apart", [0.0, 1e-15])
def test_second_derivatives_at_equal_singular_values(value, columns, apart) -> None:
    q, t = Q[:, :columns], T[:, :columns]
    a = value * q * (1 + apart * np.arange(columns))
    for turn in (lambda x: x, lambda x: x.T):
        with jax.enable_x64(True):
            forward = mx.jit(lambda a, t: mx.jvp(mx.grad(nuclear_norm), (a,), (t,)))
            found, moved = forward(turn(a), turn(t))
            hessian = mx.jit(mx.hessian(nuclear_norm))(turn(a))
        np.testing.assert_allclose(found, turn(q), atol=1e-14)
        np.testing.assert_allclose(moved, turn(_of_isometry(q, t)) / value, atol=1e-13)
        np.testing.assert_allclose(np.tensordot(hessian, turn(t), 2), moved, atol=1e-13)


def test_singular_values_that_are_0_have_derivative_0() -> None:
    a = np.diag([2.0, 2.0, 0.0])
    t = np.where(np.diag([0, 0, 1]), 0, T)  # along which the rank would grow at once
    with jax.enable_x64(True):
        found, moved = mx.jit(lambda a, t: mx.jvp(mx.grad(nuclear_norm), (a,), (t,)))(a, t)
        of_change = mx.jvp(mx.grad(nuclear_norm), (a,), (T,))[1]
    np.testing.assert_array_equal(found, np.diag([1, 1, 0]))
    expected = t / 2
    expected[:2, :2] = (t - t.T)[:2, :2] / 4
    np.testing.assert_allclose(moved, expected, atol=1e-15)
    assert np.isnan(of_change).any()


def test_complex_matrices_and_stacks() -> None:
    stack = np.stack([Q, 2 * Q @ np.diag([1, 1, 0.5])]) + 0j
    t = np.stack([T, T.T]) * (1 + 1j)
    with jax.enable_x64(True):
        slope = mx.jit(lambda a, t: mx.jvp(lambda a: nuclear_norm(a).sum(), (a,), (t,))[1])
        found = mx.jit(lambda a, t: mx.jvp(lambda a: slope(a, t), (a,), (t,))[1])(stack, t)
        step = 1e-5
        near = [slope(stack + sign * step * t, t) for sign in (1, -1)]
        together = mx.grad(lambda a: nuclear_norm(a).sum())(stack)
        apart = list(map(mx.grad(nuclear_norm), stack))
    np.testing.assert_allclose(together, apart, atol=1e-14)
    np.testing.assert_allclose(found, (near[0] - near[1]) / (2 * step), rtol=1e-7)


@pytest.mark.parametrize(("shape", "by_rank"), diagonal([(3, 3), (3, 2), (2, 3)], [False, True]))
def test_derivatives_of_isometries_of_every_order(by_rank, shape) -> None:
    m, n = shape
    a, t = 2 * Q[:m, :m] @ np.eye(m, n), T[:m, :n]
    with jax.enable_x64(True):
        along = lambda f: lambda a: mx.jvp(f, (a,), (t,))[1]  # noqa: E731
        function, back = lambda a: isometry(a, by_rank), lambda a: (isometry(a, by_rank) * t).sum()
        for _ in range(2):
            function, back = along(function), along(back)
            # With reduced steps the error of a quotient is known: it is the fourth part.
            coarse, fine = (
                (np.asarray(function(a + h * t)) - function(a - h * t)) / (2 * h)
                for h in (2e-3, 1e-3)
            )
            found = mx.jit(along(function))(a)
            np.testing.assert_allclose(found, (4 * fine - coarse) / 3, atol=2e-8)
            pulled = mx.jit(mx.grad(back))(a)
            np.testing.assert_allclose((pulled * t).sum(), (found * t).sum(), rtol=1e-9)


EXTREMES = {
    "2": (lambda a: mx.numpy.linalg.norm(a, 2), (3, 1, 1, 0.5)),
    "-2": (lambda a: mx.numpy.linalg.norm(a, -2), (2, 2, 2, 0.5)),
    "condition": (mx.numpy.linalg.cond, (4, 1, 1, 0.5)),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("is_diagonal", [False, True])
def test_second_derivatives_of_extremes_beside_equal_values(name, is_diagonal) -> None:
    function, values = EXTREMES[name]
    q, t = np.linalg.qr(np.sqrt(np.arange(16.0)).reshape(4, 4) + np.eye(4))[0], np.ones((4, 4))
    t[1:, 0], t[0, 2] = -2, 0.5
    a = np.diag(values) @ (np.eye(4) if is_diagonal else q)
    with jax.enable_x64(True):
        slope = mx.jit(mx.grad(function))
        forward = mx.jit(lambda a: mx.jvp(slope, (a,), (t,))[1])(a)
        back = mx.jit(mx.grad(lambda a: (slope(a) * t).sum()))(a)
        near = [slope(a + sign * 1e-5 * t) for sign in (1, -1)]
    for found in (forward, back):
        np.testing.assert_allclose(found, (near[0] - near[1]) / 2e-5, atol=1e-6)
