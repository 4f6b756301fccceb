"""Samplers of NumPyro and BlackJAX, with log densities that minixla differentiates."""

from __future__ import annotations

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as distributions
import pytest
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import initialize_model

import minixla as mx
from tests.libraries.beside_jax import assert_same

pytestmark = pytest.mark.full

_X = np.linspace(-1, 1, 12, dtype=np.float32)
_Y = (0.5 + 1.5 * _X + 0.1 * np.cos(9 * _X)).astype(np.float32)


def regression(x: Any, y: Any) -> None:
    """Define a linear regression in NumPyro."""
    offset = numpyro.sample("offset", distributions.Normal(0.0, 1.0))
    slope = numpyro.sample("slope", distributions.StudentT(4.0, 0.0, 1.0))
    noise = numpyro.sample("noise", distributions.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", distributions.Normal(offset + slope * x, noise), obs=y)


def differentiated_by(library: Any, density: Any) -> Any:
    """Return the function with the library's derivative as its custom VJP rule."""
    wrapped = jax.custom_vjp(density)

    def forward(x: Any) -> Any:
        return library.value_and_grad(density)(x)

    def backward(gradient: Any, cotangent: Any) -> Any:
        return (jax.tree.map(lambda g: cotangent * g, gradient),)

    wrapped.defvjp(forward, backward)
    return wrapped


def _potential() -> tuple[Any, Any]:
    info = initialize_model(jax.random.key(0), regression, model_args=(_X, _Y))
    return info.potential_fn, info.param_info.z


def test_numpyro_log_density() -> None:
    """Compute values, gradients and Hessians of a model's potential energy, also in a batch."""
    potential, start = _potential()
    batch = jax.tree.map(lambda x: jnp.stack([x, x + 0.1, x - 0.2]), start)

    def run(library: Any) -> Any:
        derived = library.value_and_grad(potential)
        mapped = library.jit(library.vmap(derived))
        return derived(start), mapped(batch), library.hessian(potential)(start)

    assert_same(run, rtol=1e-4, atol=1e-4)


def test_numpyro_sampler() -> None:
    """Run NumPyro's NUTS with a potential energy that minixla differentiates."""
    potential, start = _potential()

    def run(library: Any) -> Any:
        sampler = MCMC(
            NUTS(potential_fn=differentiated_by(library, potential)),
            num_warmup=20,
            num_samples=10,
            progress_bar=False,
        )
        sampler.run(jax.random.key(1), init_params=start)
        return sampler.get_samples()

    assert_same(run, rtol=1e-2, atol=1e-2)


def test_numpyro_variational() -> None:
    """Run steps of stochastic variational inference inside `mx.jit`."""
    guide = AutoNormal(regression)
    inference = SVI(regression, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    start = inference.init(jax.random.key(0), _X, _Y)

    def run(library: Any) -> Any:
        step, state, losses = library.jit(inference.update), start, []
        for _ in range(5):
            state, loss = step(state, _X, _Y)
            losses.append(loss)
        return losses

    assert_same(run)


def _density(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2) - (x[0] ** 2 - x[1]) ** 2


def _samples(density: Any, jit: Any) -> Any:
    sampler = blackjax.nuts(density, step_size=0.3, inverse_mass_matrix=jnp.ones(2))
    start = sampler.init(jnp.array([0.5, 0.5]))

    def chain(state: Any, keys: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            info: Any
            state, info = sampler.step(key, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(step, state, keys)[1]

    return jit(chain)(start, jax.random.split(jax.random.key(0), 10))


def test_blackjax_sampler_with_a_density_of_minixla() -> None:
    assert_same(lambda library: _samples(differentiated_by(library, _density), jax.jit), 1e-3, 1e-4)


def test_blackjax_sampler_inside_minixla() -> None:
    """Run the whole chain, with its loops and JAX's derivatives, in `mx.jit`."""
    assert_same(lambda library: _samples(_density, library.jit), 1e-3, 1e-4)


def test_blackjax_density_in_terms_of_minixla() -> None:
    """Run a JAX chain with a density written with `mx.numpy`."""

    def density_of(library: Any) -> Any:
        numpy = library.numpy
        return lambda x: -0.5 * numpy.sum(x**2) - numpy.square(x[0] ** 2 - x[1])

    assert_same(lambda library: _samples(density_of(library), jax.jit), 1e-3, 1e-4)


def test_distributions() -> None:
    """Differentiate log densities and reparametrized samples of distributions."""
    x = jnp.array([0.2, 0.5, 0.9])

    def total(a: Any) -> Any:
        key = jax.random.key(3)
        gamma = distributions.Gamma(1 + a, 2.0)
        normal = distributions.MultivariateNormal(jnp.zeros(3), jnp.eye(3) * (1 + a))
        beta = distributions.Beta(1 + a, 2.0).log_prob(x).sum()
        return beta + gamma.sample(key, (4,)).sum() + normal.log_prob(normal.sample(key) + a)

    assert_same(lambda library: library.jit(library.value_and_grad(total))(0.5), rtol=1e-4)
    assert mx.grad(total)(0.5).dtype == jax.grad(total)(0.5).dtype
