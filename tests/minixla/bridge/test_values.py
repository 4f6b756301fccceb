"""Constants of JAX code inside our transformations."""

from __future__ import annotations

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx

CONSTANTS = {
    "jnp.asarray of a number": lambda: jnp.asarray(2.0),
    "jnp.asarray of an array": lambda: jnp.asarray(np.arange(3)),
    "jnp.array": lambda: jnp.array([1, 2]),
    "device_put of a number": lambda: jax.device_put(3),
    "device_put of an array": lambda: jax.device_put(np.arange(3.0, dtype=np.float32)),
    "a dtype of jax.numpy": lambda: jnp.int32(3),
    "a key": lambda: jax.random.split(jax.random.key(0)),
}
TRANSFORMATIONS = {
    "jit": lambda library, f: library.jit(f)(1.0),
    "grad": lambda library, f: library.grad(f)(1.0),
    "jit of grad": lambda library, f: library.jit(library.grad(f))(1.0),
    "vmap": lambda library, f: library.vmap(f)(jnp.ones(2)),
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_traced_where_they_are_in_jax(name, transformation):
    def seen(library):
        values = []

        def function(x):
            values.append(CONSTANTS[name]())
            return x * 2

        TRANSFORMATIONS[transformation](library, function)
        (value,) = values
        return isinstance(value, jax.core.Tracer), str(jax.typeof(value))

    assert seen(mx) == seen(jax)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.array([x]),
        lambda x: jnp.stack([x, 1.0]),
        lambda x: lax.convert_element_type(x, jnp.float32),
        lambda x: jnp.asarray(x),
        lambda x: jnp.array(x),
        lambda x: jnp.asarray(x, jnp.float32) * 2,
    ],
)
def test_results_are_weak_where_those_of_jax_are(function):
    expected = jax.jit(function)(1.5)
    for found in (
        mx.jit(function)(1.5),
        mx.jit(mx.vmap(function))(jnp.float32(1.5) * np.ones(2, np.float32))[0],
        mx.jvp(function, (1.5,), (1.0,))[0],
        mx.jit(lambda x: mx.jvp(function, (x,), (x,))[0])(1.5),
    ):
        np.testing.assert_array_equal(found, expected)
    assert mx.jit(function)(1.5).weak_type == expected.weak_type
    assert mx.jvp(function, (1.5,), (1.0,))[0].weak_type == expected.weak_type
