"""Functions that move elements, of typed random keys: JAX's results, in every transformation."""

from __future__ import annotations

import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShapeError
from tests.selection import unless

MASK = np.array([True, False, True, False])
#: Of an array library, two keys and four.
ROWS = {
    "stack": lambda m, a, b, keys: m.stack([a, b]),
    "stack along the last axis": lambda m, a, b, keys: m.stack((keys, keys), axis=-1),
    "stack by name": lambda m, a, b, keys: m.stack(arrays=[a, b]),
    "where of a scalar": lambda m, a, b, keys: m.where(MASK[0], a, b),
    "where": lambda m, a, b, keys: m.where(MASK, keys, b),
    "concatenate": lambda m, a, b, keys: m.concatenate([keys, keys[:2]]),
    "concatenate nothing": lambda m, a, b, keys: m.concatenate([keys[:0], keys[:0]]),
    "concatenate all": lambda m, a, b, keys: m.concatenate([keys.reshape(2, 2), keys], axis=None),
    "reshape": lambda m, a, b, keys: m.reshape(keys, (2, -1)),
    "reshape in Fortran's order": lambda m, a, b, keys: m.reshape(keys, (2, 2), order="F"),
    "ravel": lambda m, a, b, keys: m.ravel(keys.reshape(2, 2)),
    "broadcast_to": lambda m, a, b, keys: m.broadcast_to(keys, (2, 4)),
    "broadcast_to of one": lambda m, a, b, keys: m.broadcast_to(a, (3,)),
    "squeeze": lambda m, a, b, keys: m.squeeze(keys.reshape(1, 4)),
    "expand_dims": lambda m, a, b, keys: m.expand_dims(keys, -1),
    "transpose": lambda m, a, b, keys: m.transpose(keys.reshape(2, 2)),
    "moveaxis": lambda m, a, b, keys: m.moveaxis(keys.reshape(4, 1), 0, -1),
    "swapaxes": lambda m, a, b, keys: m.swapaxes(keys.reshape(4, 1), 0, -1),
    "flip": lambda m, a, b, keys: m.flip(keys),
    "roll": lambda m, a, b, keys: m.roll(keys, 1),
    "repeat": lambda m, a, b, keys: m.repeat(keys, 2, axis=0),
    "tile": lambda m, a, b, keys: m.tile(keys, 2),
}
TRANSFORMED = {
    "at once": lambda f: f,
    "jit": mx.jit,
    "jit of JAX": jax.jit,
    "reference": mx.reference,
    "a branch": lambda f: lambda *keys: mx.cond(keys[0].shape == (), f, f, *keys),
}


def _keys(module, implementation):
    one, other = (module.key(seed, impl=implementation) for seed in (0, 1))
    return one, other, module.split(one, 4)


def _numbers(keys):
    return np.asarray(mx.random.key_data(keys))


#: Keys of JAX's and our own, of two generators; each row takes one of these in turn.
MADE = [(m, i) for m in (jax.random, mx.random) for i in ("threefry2x32", "rbg")]


@pytest.mark.parametrize(
    ("name", "module", "implementation"),
    [
        pytest.param(name, *made, marks=unless(row % len(MADE) == at))
        for row, name in enumerate(ROWS)
        for at, made in enumerate(MADE)
    ],
)
def test_keys_are_moved_as_in_jax(name, module, implementation):
    expected = ROWS[name](jnp, *_keys(jax.random, implementation))
    keys = _keys(module, implementation)
    for how, transformed in TRANSFORMED.items():
        found = transformed(lambda *keys: ROWS[name](mx.numpy, *keys))(*keys)
        assert (type(found), found.dtype) == (type(keys[0]), keys[0].dtype), how
        assert found.shape == expected.shape, how
        np.testing.assert_array_equal(_numbers(found), _numbers(expected), how)


@pytest.mark.parametrize("name", ["stack", "where", "reshape", "broadcast_to"])
def test_batches_of_keys_are_moved_as_each_is(name):
    a, b, keys = _keys(mx.random, "threefry2x32")
    expected = ROWS[name](mx.numpy, a, b, keys)
    batch = mx.numpy.stack([keys, keys[::-1]])
    mapped = mx.vmap(lambda keys: ROWS[name](mx.numpy, a, b, keys))
    for map_ in (mapped, mx.jit(mapped)):
        found = map_(batch)
        assert found.shape == (2, *expected.shape)
        np.testing.assert_array_equal(_numbers(found[0]), _numbers(expected))


def test_a_loop_chooses_among_keys():
    a, b, keys = _keys(mx.random, "threefry2x32")

    def step(carry, key):
        return mx.numpy.where(mx.random.bernoulli(key), carry, key), mx.numpy.stack([carry, key])

    last, pairs = mx.scan(step, a, keys)
    assert (last.shape, pairs.shape) == ((), (4, 2))
    np.testing.assert_array_equal(_numbers(pairs[:, 1]), _numbers(keys))
    slope = mx.grad(
        lambda x: x * mx.random.normal(mx.numpy.where(x > 0, a, b))  # a key that is chosen
    )(1.0)
    np.testing.assert_array_equal(slope, mx.random.normal(a))


def test_functions_are_found_by_pickle_and_keep_their_signatures():
    for name in ("stack", "where", "reshape"):
        function = getattr(mx.numpy, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)


REFUSED = {
    "a key and a number": (lambda k: mx.numpy.where(True, k, 0), ShapeError, "key<fry>"),
    "a number and a key": (lambda k: mx.numpy.where(True, 0, k), ShapeError, "key<fry>"),
    "one key to choose": (lambda k: mx.numpy.where(True, k), AttributeValueError, "x and y"),
    "keys of two kinds": (
        lambda k: mx.numpy.stack([k, mx.random.key(0, impl="rbg")]), ShapeError, "key<fry>",
    ),
    "keys of two shapes": (
        lambda k: mx.numpy.stack([k, mx.random.split(k)]), ShapeError, "equal shapes",
    ),
    "a wrong shape": (lambda k: mx.numpy.reshape(k, (3,)), ShapeError, "do not fit"),
    "an unknown argument": (lambda k: mx.numpy.ravel(k, nothing=1), TypeError, "nothing"),
    "what moves nothing": (lambda k: mx.numpy.sin(k), ShapeError, "key<fry>"),
}  # fmt: skip


@pytest.mark.parametrize("make", [jax.random.key, mx.random.key])
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_with_keys_is_refused(case, make):
    function, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        function(make(0))
