"""JAX functions that set shardings, inside our transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

MESH = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
PARTS = jax.NamedSharding(MESH, jax.P("i"))
FIXING = {
    "a constraint": lambda x: jax.lax.with_sharding_constraint(x * 2, PARTS),
    "in a loop": lambda x: jax.lax.fori_loop(
        0, 2, lambda _, c: jax.lax.with_sharding_constraint(c, PARTS), x
    ),
    "of a nested jit": lambda x: jax.jit(lambda x: x, out_shardings=PARTS)(x) * 2,
    "moved": lambda x: jax.device_put(x, PARTS),
    "of a nested jit of ours": lambda x: mx.jit(lambda x: x, in_shardings=PARTS)(x),
}


@pytest.mark.parametrize("name", FIXING)
def test_shardings_are_kept(name):
    x = np.arange(8, dtype=np.float32)
    function = FIXING[name]
    for call in (mx.jit(function), mx.jit(lambda x: mx.vmap(function)(x[None])[0])):
        found = call(x)
        np.testing.assert_array_equal(found, function(x))
        assert found.sharding.is_equivalent_to(PARTS, 1)
    slope = jax.jit(jax.grad(lambda x: (function(x) * x).sum()))(x)
    np.testing.assert_array_equal(mx.jit(mx.grad(lambda x: (function(x) * x).sum()))(x), slope)


def test_a_function_mapped_over_devices_is_an_instruction():
    def function(x):
        return jax.lax.psum(jnp.sin(x), "i") * jax.lax.axis_index("i")

    mapped = jax.shard_map(function, mesh=MESH, in_specs=jax.P("i"), out_specs=jax.P("i"))
    x = np.arange(8, dtype=np.float32)
    expected = jax.jit(mapped)(x)
    for call in (mx.jit(mapped), mx.reference(mapped)):
        np.testing.assert_allclose(call(x), expected, rtol=1e-5, atol=1e-6)
    slope = jax.jit(jax.grad(lambda x: mapped(x).sum()))(x)
    np.testing.assert_allclose(mx.jit(mx.grad(lambda x: mapped(x).sum()))(x), slope, rtol=1e-5)
    assert "sdy.manual_computation" in mx.make_graph(mapped)(x).stablehlo()


def test_resharding_in_explicit_mode():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), jax.P("i"))

        def function(x):
            return jax.reshard(x * 2, jax.P(None))

        found = mx.jit(function)(x)
        assert found.sharding.is_fully_replicated
        np.testing.assert_array_equal(found, 2 * np.arange(8))
        slope = mx.jit(mx.grad(lambda x: function(x).sum()))(x)
        np.testing.assert_array_equal(slope, np.full(8, 2))


@jax.custom_jvp
def tripled(x):
    return 2 * x


tripled.defjvp(lambda p, t: (tripled(p[0]), 3 * t[0]))


@jax.custom_vjp
def summed(x):
    return jax.lax.psum(jnp.sin(x), "i")


summed.defvjp(
    lambda x: (jax.lax.psum(jnp.sin(x), "i"), x),
    lambda x, g: (jax.lax.pcast(7 * g, "i", to="varying") * x,),
)

#: Functions with custom rules for one device's values: the function, and the result's spec.
RULES = {
    "custom_jvp": (tripled, jax.P("i")),
    "custom_jvp in a loop": (
        lambda x: jax.lax.fori_loop(0, 2, lambda _, y: tripled(y), x),
        jax.P("i"),
    ),
    "relu": (lambda x: jax.nn.relu(x - 1), jax.P("i")),
    "custom_vjp": (summed, jax.P()),
    "checkpointed": (lambda x: jax.checkpoint(lambda y: jnp.sin(tripled(y)))(x), jax.P("i")),
}


@pytest.mark.parametrize("name", RULES)
def test_custom_rules_of_mapped_functions(name):
    function, spec = RULES[name]
    mapped = jax.shard_map(function, mesh=MESH, in_specs=jax.P("i"), out_specs=spec)
    x = np.linspace(0.1, 1.9, 8, dtype=np.float32)

    def loss(x):
        return (mapped(x) ** 2).sum()

    expected = jax.jit(jax.grad(loss))(x)
    for slope in (mx.grad(loss), mx.jit(mx.grad(loss)), jax.jit(mx.grad(loss))):
        np.testing.assert_allclose(slope(x), expected, rtol=1e-5)
    batch = np.stack([x, 2 * x])
    both = jax.jit(jax.vmap(jax.grad(loss)))(batch)
    np.testing.assert_allclose(mx.jit(mx.vmap(mx.grad(loss)))(batch), both, rtol=1e-5)
    if name != "custom_vjp":  # JAX has no forward derivative of it
        pairs = zip(mx.jvp(mapped, (x,), (x,)), jax.jvp(mapped, (x,), (x,)), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def drawn(keys):
    return jnp.array([jax.random.normal(keys[0])])


#: Functions over a part of the mesh's axes: the function, and what to call it with.
PARTLY = {
    "keys": (drawn, lambda: jax.random.split(jax.random.key(0), 2)),
    "keys as they are": (lambda keys: keys, lambda: jax.random.split(jax.random.key(0), 4)),
    "a constraint": (
        lambda x: jax.lax.ppermute(
            jax.lax.with_sharding_constraint(x, jax.NamedSharding(GRID, jax.P("j"))),
            "i",
            [(0, 1), (1, 0)],
        ),
        lambda: jnp.arange(8.0),
    ),
    "an inner map": (
        lambda x: jax.shard_map(
            lambda y: jnp.sin(y) * jax.lax.axis_index("j") + jax.lax.psum(y, "j"),
            mesh=jax.sharding.get_abstract_mesh(),
            in_specs=jax.P("j"),
            out_specs=jax.P("j"),
            axis_names={"j"},
            check_vma=False,
        )(x),
        lambda: jnp.arange(8.0),
    ),
}
GRID = jax.make_mesh((2, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@pytest.mark.parametrize("name", PARTLY)
def test_functions_mapped_over_some_axes(name):
    function, argument = PARTLY[name]
    mapped = jax.shard_map(
        function,
        mesh=GRID,
        in_specs=jax.P("i"),
        out_specs=jax.P("i"),
        axis_names={"i"},
        check_vma=False,
    )
    found, expected = mx.jit(mapped)(argument()), jax.jit(mapped)(argument())
    assert found.dtype == expected.dtype
    if jnp.issubdtype(found.dtype, jax.dtypes.prng_key):
        found, expected = jax.random.key_data(found), jax.random.key_data(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@jax.custom_vjp
def first(x, numbers):
    return x


first.defvjp(lambda x, n: (x, n), lambda n, g: (g, jnp.zeros(n.shape, n.dtype)))


@jax.custom_vjp
def pair(x, numbers):
    return x, numbers


pair.defvjp(
    lambda x, n: jax.vjp(lambda x, n: (x, n), x, n), lambda pull, cotangents: pull(cotangents)
)


def test_custom_rules_with_integer_arguments():
    both = {"mesh": MESH, "in_specs": (jax.P("i"), jax.P()), "check_vma": False}
    inner = jax.shard_map(pair, out_specs=(jax.P("i"), jax.P()), **both)
    outer = jax.shard_map(
        lambda x, n: jax.lax.psum(first(x, n).sum(), "i"), out_specs=jax.P(), **both
    )
    x, numbers = np.ones(4, np.float32), np.arange(4, dtype=np.int32)
    for slope in (mx.grad, lambda f: mx.jit(mx.grad(f))):
        found = slope(lambda x, n: outer(*inner(x, n)))(x, numbers)
        np.testing.assert_array_equal(found, jax.grad(lambda x: outer(*inner(x, numbers)))(x))


def test_a_rule_without_cotangent_in_explicit_mode():
    @jax.custom_vjp
    def constant(x):
        return x

    constant.defvjp(lambda x: (x, None), lambda _, g: (None,))
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        mapped = jax.shard_map(constant, out_specs=jax.P("i"), check_vma=False)
        x = jax.device_put(jnp.arange(8.0), jax.P("i"))
        for slope in (mx.grad, lambda f: mx.jit(mx.grad(f))):
            found = slope(lambda x: mapped(x).sum())(x)
            np.testing.assert_array_equal(found, np.zeros(8))
