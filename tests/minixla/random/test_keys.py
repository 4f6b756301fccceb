"""Random keys: made, split, folded into, opened, and in arguments and results of everything."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShapeError

IMPLEMENTATIONS = "threefry2x32", "rbg", "unsafe_rbg"
r = mx.random
KEY, THEIRS = r.key(3), jax.random.key(3)
KEYS, THEIR_KEYS = r.split(KEY, 4), jax.random.split(THEIRS, 4)


def numbers(key):
    """The numbers of a key of any kind; other values as they are."""
    if isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(key)
    return key


def assert_same(found, expected):
    """Asserts equal keys, or equal numbers, in pytrees."""
    one, other = (jax.tree.leaves(jax.tree.map(numbers, each)) for each in (found, expected))
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), strict=True)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_keys_are_those_of_jax(implementation):
    ours, theirs = (each.key(5, impl=implementation) for each in (r, jax.random))
    assert ours.dtype == theirs.dtype == r.key_dtype(implementation)
    assert r.key_impl(ours) == r.key_impl(theirs) == implementation
    assert (ours.shape, ours.ndim, ours.size) == ((), 0, 1)
    for function in (
        lambda m, key: key,
        lambda m, key: m.split(key),
        lambda m, key: m.split(key, (2, 3)),
        lambda m, key: m.split(key, 0),
        lambda m, key: m.fold_in(key, 2**31 + 5),
        lambda m, key: m.clone(key),
        lambda m, key: m.key_data(key),
        lambda m, key: m.wrap_key_data(m.key_data(key), impl=implementation),
    ):
        assert_same(function(r, ours), function(jax.random, theirs))
    raw = r.PRNGKey(5, impl=implementation)
    assert_same(raw, jax.random.PRNGKey(5, impl=implementation))
    assert_same(
        mx.jit(lambda key: r.split(r.fold_in(key, 1)))(ours),
        jax.random.split(jax.random.fold_in(theirs, 1)),
    )


@pytest.mark.parametrize("seed", [0, -1, 2**31 + 1, -(2**40) + 3, np.int32(-7), np.uint8(200)])
@pytest.mark.parametrize("wide", [False, True])
def test_seeds(seed, wide):
    with jax.enable_x64(wide):
        assert_same(r.key(seed), jax.random.key(seed))
        if isinstance(seed, np.generic):
            assert_same(mx.jit(r.key)(seed), jax.random.key(seed))


def test_raw_keys_stay_raw_and_follow_the_configuration():
    raw = r.PRNGKey(9)
    assert isinstance(r.split(raw), jax.Array)
    assert_same(r.split(raw), jax.random.split(raw))
    assert_same(r.fold_in(raw, 3), jax.random.fold_in(raw, 3))
    assert_same(r.bits(np.asarray(raw), (3,)), jax.random.bits(raw, (3,)))
    with jax.default_prng_impl("rbg"):
        raw = r.PRNGKey(9)
        assert raw.shape == (4,)
        assert r.key_impl(r.key(1)) == "rbg"
        assert_same(r.split(raw), jax.random.split(raw))
    assert r.key_impl(r.key(1)) == "threefry2x32"


def test_keys_of_jax_give_keys_of_jax():
    found = r.split(THEIRS)
    assert isinstance(found, jax.Array) and found.dtype == THEIRS.dtype
    assert_same(found, jax.random.split(THEIRS))
    assert isinstance(mx.jit(lambda key: r.fold_in(key, 1))(THEIRS), jax.Array)
    assert_same(r.normal(THEIRS, (2,)), r.normal(KEY, (2,)))


def test_arrays_of_keys():
    assert (KEYS.shape, KEYS.ndim, KEYS.size, len(KEYS)) == ((4,), 1, 4, 4)
    assert_same(list(KEYS), list(THEIR_KEYS))
    assert_same(KEYS[1], THEIR_KEYS[1])
    assert_same(KEYS[1:3], THEIR_KEYS[1:3])
    assert_same(KEYS.reshape(2, 2)[..., 0], THEIR_KEYS.reshape(2, 2)[..., 0])
    first, second = r.split(KEY)
    assert_same([first, second], list(jax.random.split(THEIRS)))
    np.testing.assert_array_equal(KEYS[2] == KEYS, [False, False, True, False])
    np.testing.assert_array_equal(KEYS[2] != KEYS, [True, True, False, True])
    assert isinstance(KEYS, jax.Array)


def noisy(m, key, x):
    """The next key, and noise."""
    following, own = m.split(key)
    return following, m.uniform(own, (3,)) * x


X, ROWS = np.arange(3, dtype=np.float32), np.ones((4, 3), np.float32)
theirs = jax.random
# What ours gives, and what JAX gives.
NESTED = {
    "jit": (lambda: mx.jit(noisy, static_argnums=0)(r, KEY, X), lambda: noisy(theirs, THEIRS, X)),
    "jit makes a key": (
        lambda: mx.jit(lambda seed: r.split(r.key(seed)))(3), lambda: jax.random.split(THEIRS),
    ),
    "jax.jit": (
        lambda: jax.jit(lambda key: noisy(r, key, X))(KEY), lambda: noisy(theirs, THEIRS, X),
    ),
    "vmap": (
        lambda: mx.vmap(lambda key: noisy(r, key, X))(KEYS),
        lambda: jax.vmap(lambda key: noisy(theirs, key, X))(THEIR_KEYS),
    ),
    "vmap over seeds": (
        lambda: mx.vmap(r.key)(np.arange(3)), lambda: jax.vmap(jax.random.key)(np.arange(3)),
    ),
    "vmap over numbers": (
        lambda: mx.vmap(r.fold_in, (None, 0))(KEY, np.arange(3)),
        lambda: jax.vmap(jax.random.fold_in, (None, 0))(THEIRS, np.arange(3)),
    ),
    "vmap, last axis": (
        lambda: mx.jit(mx.vmap(r.split, -1, -1))(KEYS),
        lambda: jax.vmap(jax.random.split, -1, -1)(THEIR_KEYS),
    ),
    "pmap": (
        lambda: mx.pmap(lambda key: noisy(r, key, X))(KEYS),
        lambda: jax.vmap(lambda key: noisy(theirs, key, X))(THEIR_KEYS),
    ),
    "scan": (
        lambda: mx.scan(lambda key, x: noisy(r, key, x), KEY, ROWS),
        lambda: jax.lax.scan(lambda key, x: noisy(theirs, key, x), THEIRS, ROWS),
    ),
    "scan over keys": (
        lambda: mx.scan(lambda c, key: (c, r.fold_in(key, 1)), 0, KEYS)[1],
        lambda: jax.lax.scan(lambda c, key: (c, jax.random.fold_in(key, 1)), 0, THEIR_KEYS)[1],
    ),
    "cond": (
        lambda: mx.cond(X[0] == 0, r.split, lambda key: r.split(r.fold_in(key, 1)), KEY),
        lambda: jax.random.split(THEIRS),
    ),
    "while": (
        lambda: mx.fori_loop(0, 3, lambda _, key: r.split(key)[0], KEY),
        lambda: jax.lax.fori_loop(0, 3, lambda _, key: jax.random.split(key)[0], THEIRS),
    ),
    "grad": (
        lambda: mx.grad(lambda x, key: (noisy(r, key, x)[1] ** 2).sum())(X, KEY),
        lambda: jax.grad(lambda x, key: (noisy(theirs, key, x)[1] ** 2).sum())(X, THEIRS),
    ),
    "grad of checkpoint, auxiliary key": (
        lambda: mx.grad(
            mx.checkpoint(lambda x, key: (noisy(r, key, x)[1].sum(), r.split(key))), has_aux=True
        )(X, KEY),
        lambda: jax.grad(
            lambda x, key: (noisy(theirs, key, x)[1].sum(), jax.random.split(key)), has_aux=True
        )(X, THEIRS),
    ),
    "reference": (
        lambda: mx.reference(lambda key: noisy(r, key, X))(KEY), lambda: noisy(theirs, THEIRS, X),
    ),
    "from_jax": (
        lambda: mx.from_jax(lambda key: noisy(theirs, key, X))(KEY),
        lambda: noisy(theirs, THEIRS, X),
    ),
    "from_jax in jit": (
        lambda: mx.jit(mx.from_jax(lambda key: noisy(theirs, key, X)))(KEY),
        lambda: noisy(theirs, THEIRS, X),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NESTED)
def test_keys_in_transformations(case):
    ours, expected = NESTED[case]
    assert_same(ours(), expected())


REFUSED = {
    "no key": (lambda: r.normal(3), TypeError, "the key is not a random key"),
    "floats": (lambda: r.normal(np.zeros(2, np.float32)), TypeError, "not the numbers of a key"),
    "too many numbers": (lambda: r.split(np.zeros(3, np.uint32)), TypeError, "It has 2 numbers"),
    "several keys": (lambda: r.normal(KEYS), ValueError, "mx.vmap\\(mx.random.normal\\)\\(keys\\)"),
    "several raw keys": (
        lambda: r.split(np.zeros((3, 2), np.uint32)), ValueError, "the key is an array of keys",
    ),
    "a key as a seed": (lambda: r.key(KEY), TypeError, "the seed is a random key"),
    "JAX's key as a seed": (lambda: r.key(THEIRS), TypeError, "the seed is a random key"),
    "several seeds": (lambda: r.key(np.arange(2)), TypeError, "the seed is not a single integer"),
    "a float as a seed": (lambda: r.PRNGKey(1.5), TypeError, "the seed is not a single integer"),
    "a large seed": (lambda: r.key(2**63), OverflowError, "too large|out of bounds"),
    "an implementation": (lambda: r.key(0, impl="mt19937"), ValueError, '"threefry2x32" or "rbg"'),
    "two types": (lambda: r.key(0, impl="rbg", dtype="rbg"), ValueError, "both given"),
    "several numbers to fold in": (lambda: r.fold_in(KEY, np.arange(2)), TypeError, "not a single"),
    "a negative number to fold in": (lambda: r.fold_in(KEY, -1), OverflowError, "-1"),
    "other numbers": (
        lambda: r.wrap_key_data(np.zeros(2, np.uint32), impl="rbg"), TypeError, "It has 4 numbers",
    ),
    "another implementation of JAX's": (
        lambda: r.normal(jax.random.key(0, impl="philox2x32")), ValueError, "are not supported",
    ),
    "a negative count": (lambda: r.split(KEY, -1), AttributeValueError, "a size is negative"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_keys_are_explained(case):
    function, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message) as caught:
        function()
    if isinstance(caught.value, (ShapeError, AttributeValueError)):
        assert "test_keys.py" in str(caught.value)


def test_a_batch_of_other_keys_draws_what_each_draws():
    """JAX's own batches of these draw other numbers."""
    for implementation in IMPLEMENTATIONS[1:]:
        keys = r.split(r.key(3, impl=implementation), 3)
        found = mx.vmap(lambda key: r.bits(key, (2,)))(keys)
        assert_same(found, np.stack([r.bits(key, (2,)) for key in keys]))
