"""Typed random keys of JAX's in arguments and results of every transformation, and inside."""

from __future__ import annotations

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import DerivativeError, ShapeError, TransformError
from minixla.engine.random_keys import KeyNumbers, flatten, key_ranks

KEY = jax.random.key(3)
KEYS = jax.random.split(KEY, 4)
X = np.arange(3, dtype=np.float32)
ROWS = np.ones((4, 3), np.float32)
FLOAT0 = np.zeros((), jax.dtypes.float0)

normal, split = jax.random.normal, jax.random.split


def noisy(key, x):
    """The next key, and noise."""
    following, own = split(key)
    return following, normal(own, (3,)) * x


def noisy_in_jax(key, x):
    following, own = jax.random.split(key)
    return following, jax.random.normal(own, (3,)) * x


def loss(x, key):
    return (noisy(key, x)[1] ** 2).sum()


def loss_in_jax(x, key):
    return (noisy_in_jax(key, x)[1] ** 2).sum()


def next_key(key):
    return split(key)[0]


def next_in_jax(key):
    return jax.random.split(key)[0]


def three_times(key):
    return next_in_jax(next_in_jax(next_in_jax(key)))


def counted(key):
    return mx.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, next_key(c[1])), (0, key))[1]


def parts(keys):
    return keys[1], keys[1:3], keys.reshape(2, 2)[..., 0], keys.reshape((4, 1))[2, 0], list(keys)


BATCH = functools.partial(jax.vmap(noisy_in_jax, (0, None)), KEYS, X)
IN_TURN = functools.partial(jax.lax.scan, noisy_in_jax, KEY, ROWS)

# What ours gives, and what JAX gives.
SAME = {
    "evaluated": (lambda: noisy(KEY, X), lambda: noisy_in_jax(KEY, X)),
    "jit": (lambda: mx.jit(noisy)(KEY, X), lambda: noisy_in_jax(KEY, X)),
    "jit in jit": (
        lambda: mx.jit(lambda *a: mx.jit(noisy)(*a))(KEY, X),
        lambda: noisy_in_jax(KEY, X),
    ),
    "jax.jit": (lambda: jax.jit(mx.jit(noisy))(KEY, X), lambda: noisy_in_jax(KEY, X)),
    "jax.vmap": (lambda: jax.vmap(mx.jit(noisy), (0, None))(KEYS, X), BATCH),
    "checkpoint": (lambda: mx.jit(mx.checkpoint(noisy))(KEY, X), lambda: noisy_in_jax(KEY, X)),
    "reference": (lambda: mx.reference(next_key)(KEY), lambda: next_in_jax(KEY)),
    "reference in double": (
        lambda: mx.reference(noisy, precision="float64")(KEY, X)[0],
        lambda: noisy_in_jax(KEY, X)[0],
    ),
    "simulate": (lambda: mx.simulate(next_key, [[(KEY,)]])[0][0], lambda: next_in_jax(KEY)),
    "vmap": (lambda: mx.vmap(noisy, (0, None))(KEYS, X), BATCH),
    "vmap in jit": (lambda: mx.jit(mx.vmap(noisy, (-1, None)))(KEYS, X), BATCH),
    "vmap, last axis": (
        lambda: mx.jit(mx.vmap(noisy, (0, None), -1))(KEYS, X),
        lambda: jax.vmap(noisy_in_jax, (0, None), -1)(KEYS, X),
    ),
    "vmap of a key that is not mapped": (
        lambda: mx.vmap(lambda key: key, None, axis_size=3)(KEY),
        lambda: jax.vmap(lambda key: key, None, axis_size=3)(KEY),
    ),
    "pmap": (lambda: mx.pmap(noisy, in_axes=(0, None))(KEYS, X), BATCH),
    "grad": (lambda: mx.grad(loss)(X, KEY), lambda: jax.grad(loss_in_jax)(X, KEY)),
    "grad in jit": (lambda: mx.jit(mx.grad(loss))(X, KEY), lambda: jax.grad(loss_in_jax)(X, KEY)),
    "jax.grad": (lambda: jax.grad(loss)(X, KEY), lambda: jax.grad(loss_in_jax)(X, KEY)),
    "jacfwd": (lambda: mx.jacfwd(loss)(X, KEY), lambda: jax.grad(loss_in_jax)(X, KEY)),
    "auxiliary results": (
        lambda: mx.jit(mx.grad(lambda x, k: (loss(x, k), next_key(k)), has_aux=True))(X, KEY),
        lambda: (jax.grad(loss_in_jax)(X, KEY), next_in_jax(KEY)),
    ),
    "jvp": (
        lambda: mx.jvp(noisy, (KEY, X), (FLOAT0, X))[0],
        lambda: jax.jvp(noisy_in_jax, (KEY, X), (FLOAT0, X))[0],
    ),
    "jvp, tangents": (
        lambda: mx.jvp(noisy, (KEY, X), (FLOAT0, X))[1][1],
        lambda: jax.jvp(noisy_in_jax, (KEY, X), (FLOAT0, X))[1][1],
    ),
    "vjp": (
        lambda: mx.vjp(noisy, KEY, X)[1]((FLOAT0, X))[1],
        lambda: jax.vjp(noisy_in_jax, KEY, X)[1]((FLOAT0, X))[1],
    ),
    "linearize": (
        lambda: mx.linearize(noisy, KEY, X)[1](FLOAT0, X)[1],
        lambda: jax.jvp(noisy_in_jax, (KEY, X), (FLOAT0, X))[1][1],
    ),
    "scan": (lambda: mx.scan(noisy, KEY, ROWS), IN_TURN),
    "scan in jit": (lambda: mx.jit(lambda key: mx.scan(noisy, key, ROWS))(KEY), IN_TURN),
    "scan over keys": (
        lambda: mx.scan(lambda c, k: (c, noisy(k, X)), 0.0, KEYS, unroll=3)[1],
        BATCH,
    ),
    "map": (lambda: mx.map(lambda k: noisy(k, X), KEYS, batch_size=3), BATCH),
    "cond": (lambda: mx.cond(X[0] < 1, next_key, lambda k: k, KEY), lambda: next_in_jax(KEY)),
    "switch": (
        lambda: mx.jit(lambda i, k: mx.switch(i, [lambda k: k, next_key], k))(1, KEY),
        lambda: next_in_jax(KEY),
    ),
    "while_loop": (lambda: mx.jit(counted)(KEY), lambda: three_times(KEY)),
    "fori_loop": (
        lambda: mx.fori_loop(0, 3, lambda _, k: next_key(k), KEY),
        lambda: three_times(KEY),
    ),
    "fori_loop, unrolled": (
        lambda: mx.fori_loop(0, 3, lambda _, k: next_key(k), KEY, unroll=2),
        lambda: three_times(KEY),
    ),
    "members of an array of keys": (lambda: mx.jit(parts)(KEYS), lambda: parts(KEYS)),
    "read from outside": (
        lambda: mx.jit(lambda x: (KEY, normal(KEY, (3,)) * x))(X),
        lambda: (KEY, jax.random.normal(KEY, (3,)) * X),
    ),
    "another generator": (
        lambda: mx.jit(next_key)(jax.random.key(1, impl="rbg")),
        lambda: next_in_jax(jax.random.key(1, impl="rbg")),
    ),
    "exported and imported": (
        lambda: mx.jit(mx.import_stablehlo(mx.export(noisy, KEY, X)))(KEY, X),
        lambda: noisy_in_jax(KEY, X),
    ),
    "exported by JAX": (
        lambda: mx.import_stablehlo(jax.export.export(jax.jit(noisy_in_jax))(KEY, X))(KEY, X),
        lambda: noisy_in_jax(KEY, X),
    ),
    "with a number": (
        lambda: mx.jit(jax.random.fold_in)(KEY, 7),
        lambda: jax.random.fold_in(KEY, 7),
    ),
}


def assert_same(ours, theirs):
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if jnp.issubdtype(ours.dtype, jax.dtypes.prng_key):
        ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", SAME)
def test_keys_go_in_and_come_out(name):
    ours, theirs = SAME[name]
    jax.tree.map(assert_same, ours(), theirs())


def test_zero_tangents_and_cotangents_are_as_for_the_key():
    tangent, _ = mx.jvp(noisy, (KEY, X), (FLOAT0, X))[1]
    cotangent, _ = mx.vjp(noisy, KEY, X)[1]((FLOAT0, X))
    for zero in (tangent, cotangent):
        assert zero.dtype == jax.dtypes.float0
        assert zero.shape == ()


def test_shapes_and_graphs():
    graph, (key, _) = mx.make_graph(noisy, return_shape=True)(KEY, X)
    assert (key.shape, key.dtype) == ((), KEY.dtype)
    described = jax.ShapeDtypeStruct((), KEY.dtype)
    assert mx.make_graph(noisy)(described, X).input_shapes == graph.input_shapes
    assert str(graph.input_shapes[0]) == "u32[2]"
    assert mx.jit(noisy).eval_shape(KEY, X)[0].dtype == KEY.dtype
    assert mx.jit(noisy).graph(KEY, X).output_shapes == graph.output_shapes


def test_custom_rules():
    @mx.custom_vjp
    def own(key, x):
        return noisy(key, x)[1]

    for zero in (None, FLOAT0):
        own.defvjp(
            lambda key, x: (own(key, x), key),
            lambda key, given, zero=zero: (zero, given * normal(key)),
        )
        found = mx.jit(mx.grad(lambda x, key: own(key, x).sum()))(X, KEY)
        np.testing.assert_allclose(found, np.full(3, jax.random.normal(KEY)), rtol=1e-6)


# How it is called, the error, and what its message says.
REFUSED = {
    "mapped": (lambda: mx.vmap(next_key)(KEY), TransformError, "argument key is u32\\[\\]"),
    "mapped too far": (lambda: mx.vmap(next_key, 1)(KEYS), TransformError, "in_axes maps axis 1"),
    "given back along an axis too far": (
        lambda: mx.vmap(next_key, 0, 2)(KEYS),
        TransformError,
        "axis 2 for a result of rank 1",
    ),
    "mapped to devices": (
        lambda: mx.pmap(next_key)(KEY),
        TransformError,
        "which the argument lacks",
    ),
    "scanned": (lambda: mx.scan(lambda c, k: (c, k), 0, KEY), ShapeError, "must all have axis 0"),
    "differentiated": (lambda: mx.grad(lambda k: 1.0)(KEY), DerivativeError, "has no gradient"),
    "computed with": (lambda: mx.jit(mx.numpy.sin)(KEY), ShapeError, "key<fry>"),
    "added to": (lambda: mx.jit(lambda k: k + 1)(KEY), TypeError, "key<fry>"),
    "counted": (lambda: mx.jit(len)(KEY), TypeError, "unsized"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_key_is_no_array_of_numbers(name):
    call, error, phrase = REFUSED[name]
    with pytest.raises(error, match=phrase):
        call()


def test_what_holds_no_keys_is_taken_apart_as_jax_does():
    tree = {"a": X, "b": [1, "word", None], "c": jnp.ones(2)}
    leaves, structure = flatten(tree)
    assert structure == jax.tree.structure(tree)
    assert all(x is y for x, y in zip(leaves, jax.tree.leaves(tree), strict=True))
    assert key_ranks(structure) == ()
    leaves, structure = flatten({"a": KEYS, "b": 1})
    assert leaves[0].shape == (4, 2)
    assert key_ranks(structure) == (1, 0)
    made = jax.tree.unflatten(structure, ["anything", 2])["a"]
    assert isinstance(made, KeyNumbers)
    assert made.data == "anything"
