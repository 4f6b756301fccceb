"""Typed random keys of JAX in primitives that move values."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import minixla as mx

KEYS = jax.random.split(jax.random.key(0), 3)

MOVES = {
    "stop_gradient": jax.lax.stop_gradient,
    "checkpoint_name": lambda key: checkpoint_name(key, "key"),
    "optimization_barrier": jax.lax.optimization_barrier,
    "copy": jnp.copy,
    "device_put": jax.device_put,
    "all_gather": lambda key: jax.lax.all_gather(key, "i"),
    "ppermute": lambda key: jax.lax.ppermute(key, "i", [(0, 1), (1, 2), (2, 0)]),
    "all_to_all": lambda key: jax.lax.all_to_all(key[None].repeat(3, 0), "i", 0, 0),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_moved_key_stays_a_key(name):
    def mapped(library):
        return library.vmap(MOVES[name], axis_name="i")(KEYS)

    found, expected = mapped(mx), mapped(jax)
    assert found.dtype == expected.dtype == KEYS.dtype
    assert jnp.array_equal(found, expected)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def sample(shape, scale, key):
    return scale * jax.random.uniform(key, shape)


@sample.defjvp
def sample_jvp(shape, key, primals, tangents):
    return sample(shape, *primals, key), tangents[0] * jax.random.uniform(key, shape)


USES = {
    "vmap": lambda library: library.vmap(lambda key: sample((2,), 1.5, key))(KEYS),
    "vmap of both": lambda library: library.vmap(lambda x, key: sample((2,), x, key))(
        jnp.arange(3.0), KEYS
    ),
    "jit of vmap": lambda library: library.jit(library.vmap(lambda key: sample((2,), 1.5, key)))(
        KEYS
    ),
    "vmap of grad": lambda library: library.vmap(
        lambda key: library.grad(lambda x: sample((2,), x, key).sum())(1.5)
    )(KEYS),
}


@pytest.mark.parametrize("name", USES)
def test_a_key_that_is_not_differentiated(name):
    with jax.legacy_prng_key("error"):
        np.testing.assert_allclose(USES[name](mx), USES[name](jax), rtol=1e-6)
