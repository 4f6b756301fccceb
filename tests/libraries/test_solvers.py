"""Differentiate JAX libraries' solvers of differential equations, roots, minima, linear systems."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import jaxopt
import lineax
import numpy as np
import optimistix
import pytest

from tests.libraries.beside_jax import assert_same

pytestmark = pytest.mark.full


def _lotka_volterra(t: Any, y: Any, args: Any) -> Any:
    prey, predator = y
    return jnp.stack([prey * (args[0] - args[1] * predator), predator * (args[2] * prey - args[3])])


@pytest.mark.parametrize("adjoint", ["RecursiveCheckpointAdjoint", "BacksolveAdjoint"])
def test_diffrax(adjoint: str) -> None:
    """Compute the gradient of a solution with adaptive steps."""
    times = jnp.linspace(0.0, 4.0, 9)

    def loss(args: Any, start: Any) -> Any:
        solution: Any = diffrax.diffeqsolve(
            diffrax.ODETerm(_lotka_volterra),
            diffrax.Tsit5(),
            t0=0.0,
            t1=4.0,
            dt0=0.1,
            y0=start,
            args=args,
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
            adjoint=getattr(diffrax, adjoint)(),
        )
        return jnp.mean(jnp.log(solution.ys) ** 2)

    args, start = jnp.array([1.1, 0.4, 0.1, 0.4]), jnp.array([10.0, 10.0])

    def run(library: Any) -> Any:
        return library.jit(library.value_and_grad(loss, argnums=(0, 1)))(args, start)

    assert_same(run, rtol=1e-3, atol=1e-4)


def test_diffrax_forward_mode_in_a_batch() -> None:
    def solved(rate: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, args: -args * y)
        adjoint = diffrax.ForwardMode()
        solution: Any = diffrax.diffeqsolve(
            term, diffrax.Dopri5(), 0.0, 1.0, 0.1, jnp.array(1.0), args=rate, adjoint=adjoint
        )
        return solution.ys[0]

    rates = jnp.array([0.5, 1.0, 2.0])
    found = assert_same(lambda library: library.vmap(library.jacfwd(solved))(rates))
    np.testing.assert_allclose(found, -np.exp(-rates), rtol=1e-2)


def test_diffrax_stochastic() -> None:
    """Differentiate a path of a stochastic equation by its drift."""

    def final(drift: Any, key: Any) -> Any:
        path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: args * y),
            diffrax.ControlTerm(lambda t, y, args: 0.3 * y, path),
        )
        start = jnp.array(1.0)
        solution: Any = diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.1, start, drift)
        return solution.ys[0]

    keys = jax.random.split(jax.random.key(0), 3)

    def run(library: Any) -> Any:
        mapped = library.vmap(library.value_and_grad(final), (None, 0))
        return library.jit(mapped)(jnp.array(0.2), keys)

    assert_same(run, rtol=1e-4)


def test_optimistix_root() -> None:
    """Compute the implicit derivative of a root."""

    def root(a: Any) -> Any:
        def residual(y: Any, args: Any) -> Any:
            return jnp.stack([y[0] ** 3 + args * y[1] - 1, y[1] + jnp.tanh(y[0]) - args])

        solver = optimistix.Newton(rtol=1e-6, atol=1e-6)
        return optimistix.root_find(residual, solver, jnp.array([0.5, 0.5]), args=a).value

    def run(library: Any) -> Any:
        derived = library.value_and_grad(lambda a: jnp.sum(root(a) ** 2))
        return library.jit(derived)(0.7), library.jacfwd(root)(0.7)

    assert_same(run, rtol=1e-4)


def test_optimistix_minimum() -> None:
    def least(a: Any) -> Any:
        def valley(y: Any, args: Any) -> Any:
            return args * (y[1] - y[0] ** 2) ** 2 + (1 - y[0]) ** 2 + 0.1 * jnp.sum(y**2)

        solver = optimistix.BFGS(rtol=1e-5, atol=1e-5)
        return optimistix.minimise(valley, solver, jnp.array([0.2, 0.1]), args=a).value

    assert_same(lambda library: library.grad(lambda a: least(a)[0])(5.0), rtol=1e-2)


def test_jaxopt() -> None:
    """Differentiate the minimum of ridge regression by its penalty."""
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(8, 3)).astype("f4"), draws.normal(size=8).astype("f4")

    def ridge(weights: Any, penalty: Any) -> Any:
        return jnp.mean((x @ weights - y) ** 2) + penalty * jnp.sum(weights**2)

    def run(library: Any) -> Any:
        def norm(penalty: Any) -> Any:
            solver = jaxopt.LBFGS(ridge, tol=1e-6, implicit_diff=True)
            return jnp.sum(solver.run(jnp.zeros(3), penalty).params ** 2)

        root = jaxopt.Bisection(lambda y, a: y**3 + y - a, 0.0, 4.0, check_bracket=False)
        return library.value_and_grad(norm)(0.1), library.grad(lambda a: root.run(a=a).params)(2.0)

    assert_same(run, rtol=1e-3)


def test_lineax() -> None:
    draws = np.random.default_rng(0)
    matrix, vector = draws.normal(size=(4, 4)).astype("f4"), draws.normal(size=4).astype("f4")

    def solved(matrix: Any, vector: Any) -> Any:
        operator = lineax.MatrixLinearOperator(matrix @ matrix.T + 2 * jnp.eye(4))
        symmetric = lineax.TaggedLinearOperator(operator, lineax.positive_semidefinite_tag)
        direct = lineax.linear_solve(operator, vector, lineax.LU()).value
        iterated = lineax.linear_solve(symmetric, vector, lineax.CG(1e-6, 1e-6)).value
        return jnp.sum(direct * iterated)

    def run(library: Any) -> Any:
        derived = library.value_and_grad(solved, argnums=(0, 1))
        mapped = library.vmap(library.grad(solved, argnums=1), (None, 0))
        return library.jit(derived)(matrix, vector), mapped(matrix, np.stack([vector, -vector]))

    assert_same(run, rtol=1e-3, atol=1e-4)
