"""Functions of JAX and of its libraries read our tracers."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import minixla as mx

X = np.ones((2, 3), np.float32)
KEY = jax.random.key(0)
LINEAR = eqx.nn.Linear(3, 3, key=KEY)
PERCEPTRON = eqx.nn.MLP(3, 1, 4, 2, key=KEY)
OPTIMIZER = optax.adam(0.1)
STATE = OPTIMIZER.init(X)
CALLS = {
    "jnp": lambda x: jnp.sort(x),
    "operands and options": lambda x: jnp.matmul(x, x.T, precision="highest"),
    "lax": lambda x: jax.lax.sin(x),
    "an array of it": lambda x: jnp.asarray(x),
    "updates": lambda x: jnp.ones(3).at[0].set(x[0, 0]),
    "a transformation": lambda x: jax.vmap(jnp.sin)(x),
    "Equinox": lambda x: PERCEPTRON(x[0]),
    "Equinox, jitted": lambda x: eqx.filter_jit(jnp.sin)(x),
    "Optax": lambda x: OPTIMIZER.update(x, STATE)[0],
    "a random key's numbers": lambda x: jax.random.normal(x[0].astype("uint32")[:2], (3,)),
    "an array indexed by it": lambda x: jnp.arange(3.0)[x[0, 0].astype("int32")],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name):
    function = CALLS[name]
    expected = function(jnp.asarray(X))
    np.testing.assert_allclose(mx.jit(function)(X), expected, rtol=1e-6)


def test_a_function_given_to_ours():
    assert mx.jit(lambda x: mx.grad(jnp.sin)(x[0, 0]))(X) == pytest.approx(np.cos(1))


def test_keys():
    found = mx.jit(lambda key: jax.random.normal(key, (3,)))(KEY)
    np.testing.assert_array_equal(found, jax.random.normal(KEY, (3,)))


def test_tracers_cannot_be_hashed():
    with pytest.raises(TypeError, match="unhashable type: 'GraphTracer'"):
        mx.jit(lambda x: {x: 1}[x])(X)


def test_operators_of_jax_arrays_are_left_to_tracers():
    weights = jnp.full((3, 3), 2.0)
    found = mx.jit(lambda x: (weights @ x[0] + jnp.ones(3)) * LINEAR.weight[0])(X)
    np.testing.assert_allclose(found, 7 * LINEAR.weight[0], rtol=1e-6)
