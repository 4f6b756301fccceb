"""What JAX's functions say of our tracers: the line to write instead."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import minixla as mx
from minixla.core.errors import ConcretizationError, ForeignCallError

X = np.ones((2, 3), np.float32)
KEY = jax.random.key(0)
LINEAR = eqx.nn.Linear(3, 3, key=KEY)
PERCEPTRON = eqx.nn.MLP(3, 1, 4, 2, key=KEY)
OPTIMIZER = optax.adam(0.1)
STATE = OPTIMIZER.init(X)


def softmax(x):
    # Over several lines, with letters of several bytes before the call: "é".
    return "é", jax.nn.softmax(
        x,
        axis=-1,
    )


# A function of an array, and the line that the error tells to write.
CALLS = {
    "jnp": (lambda x: jnp.sort(x), "mx.from_jax(jnp.sort)(x)"),
    "operands and options": (
        lambda x: jnp.matmul(x, x.T, precision="highest"),
        "mx.from_jax(jnp.matmul)(x, x.T, precision='highest')",
    ),
    "lax": (lambda x: jax.lax.sin(x), "mx.from_jax(jax.lax.sin)(x)"),
    "asked for the type first": (
        lambda x: jnp.einsum("ij,kj->ik", x, x),
        "mx.from_jax(jnp.einsum)('ij,kj->ik', x, x)",
    ),
    "made an array": (lambda x: jnp.asarray(x), "mx.from_jax(jnp.asarray)(x)"),
    "updates": (
        lambda x: jnp.ones(3).at[0].set(x[0, 0]),
        "mx.from_jax(jnp.ones(3).at[0].set)(x[0, 0])",
    ),
    "a transformation": (lambda x: jax.vmap(jnp.sin)(x), "mx.from_jax(jax.vmap(jnp.sin))(x)"),
    "several lines": (softmax, "mx.from_jax(jax.nn.softmax)(x, axis=-1)"),
    "Equinox": (lambda x: PERCEPTRON(x[0]), "mx.from_jax(PERCEPTRON)(x[0])"),
    "Optax": (
        lambda x: OPTIMIZER.update(x, STATE),
        "mx.from_jax(OPTIMIZER.update)(x, STATE)",
    ),
    "a random key's numbers": (
        lambda x: jax.random.normal(x[0].astype("uint32")[:2], (3,)),
        "mx.from_jax(jax.random.normal)(x[0].astype('uint32')[:2], (3,))",
    ),
    "a function given to ours": (lambda x: mx.grad(jnp.sin)(x[0, 0]), "mx.from_jax(f)(x) for f(x)"),
    "no call": (lambda x: jnp.arange(3.0)[x[0, 0].astype("int32")], "mx.from_jax(f)(x) for f(x)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_the_line_to_write(name):
    function, line = CALLS[name]
    with pytest.raises(ForeignCallError) as caught:
        mx.jit(function)(X)
    assert f"Write {line}, which makes JAX's function one of ours." in str(caught.value)
    assert "test_foreign.py:" in str(caught.value)
    if not line.endswith("f(x)"):
        called = line.removeprefix("mx.from_jax(").partition(")(")[0]
        assert str(caught.value).startswith(f"{called}: its argument is a minixla tracer")


def test_the_line_that_is_named_works():
    assert mx.jit(lambda x: mx.from_jax(jnp.sort)(x))(X).shape == (2, 3)
    found = mx.jit(lambda x: mx.from_jax(PERCEPTRON)(x[0]))(X)
    np.testing.assert_allclose(found, PERCEPTRON(X[0]), rtol=1e-6)
    updates, _ = mx.jit(lambda x: mx.from_jax(OPTIMIZER.update)(x, STATE))(X)
    np.testing.assert_allclose(updates, OPTIMIZER.update(X, STATE)[0], rtol=1e-6)


def test_keys_too():
    with pytest.raises(ForeignCallError) as caught:
        mx.jit(lambda key: jax.random.normal(key, (3,)))(KEY)
    assert "Write mx.from_jax(jax.random.normal)(key, (3,))," in str(caught.value)
    assert "RandomKey<key<fry>[]" in str(caught.value)


def test_code_without_source_and_other_libraries():
    exec_scope = {"jnp": jnp}
    exec(compile("def typed(x): return jnp.sort(x)", "<typed in>", "exec"), exec_scope)
    with pytest.raises(ForeignCallError, match=r"a JAX function: (?s:.*)mx\.from_jax\(f\)\(x\)"):
        mx.jit(exec_scope["typed"])(X)
    with pytest.raises(ConcretizationError):  # it is NumPy that asks, not JAX
        mx.jit(lambda x: np.asarray(x))(X)


def test_what_equinox_takes_for_static():
    """It hashes what is no array."""
    with pytest.raises(ValueError, match="Non-hashable static arguments") as caught:
        mx.jit(lambda x: eqx.filter_jit(jnp.sin)(x))(X)
    assert "Write mx.from_jax(eqx.filter_jit(jnp.sin))(x), which" in str(caught.value)
    with pytest.raises(TypeError, match="unhashable type: 'GraphTracer'"):
        mx.jit(lambda x: {x: 1}[x])(X)


def test_operators_of_jax_arrays_are_left_to_tracers():
    weights = jnp.full((3, 3), 2.0)
    found = mx.jit(lambda x: (weights @ x[0] + jnp.ones(3)) * LINEAR.weight[0])(X)
    np.testing.assert_allclose(found, 7 * LINEAR.weight[0], rtol=1e-6)
