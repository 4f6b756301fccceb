"""from_jax: what it compiles, what it traces, and what it rejects."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from tests.harness import compiled_rows

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
INDICES = np.array([2, 0], np.int32)
KEY = jax.random.key(7)
MODEL = eqx.nn.MLP(3, 2, 4, 1, key=KEY)

# JAX functions with arguments that are not arrays.
KNOWN = {
    "an axis by name": (jnp.sum, (X,), {"axis": 1}),
    "an axis by position": (jnp.sum, (X, 0), {}),
    "several axes and a flag": (jnp.mean, (X,), {"axis": (0, 1), "keepdims": True}),
    "no axis": (jnp.max, (X,), {"axis": None}),
    "a length": (jnp.fft.irfft, (X, 8), {}),
    "a shape": (jax.random.normal, (KEY, (3,)), {}),
    "a shape and a dtype": (jax.random.randint, (KEY, (2, 2), 0, 9), {"dtype": jnp.int16}),
    "a number of classes": (jax.nn.one_hot, (INDICES, 4), {}),
    "a dtype by name": (lambda x, dtype: x.astype(dtype), (X, "float16"), {}),
    "a dtype of NumPy": (lambda x, dtype: x.astype(dtype), (X, np.dtype("int8")), {}),
    "dimensions": (jnp.reshape, (X, (3, -1)), {}),
    "a string": (jnp.pad, (X, ((1, 0), (0, 2))), {"mode": "edge"}),
    "strings before arrays": (jnp.einsum, ("ij,kj->ik", X, X), {}),
    "a function": (jnp.apply_along_axis, (jnp.cumsum, 1, X), {}),
    "numbers only": (jnp.linspace, (0.0, 1.0, 5), {}),
    "a choice in Python": (lambda x, n, flag: x * n if flag and n > 1 else x, (X, 2, True), {}),
    "functions in a pytree": (lambda model, x: model(x), (MODEL, X[0]), {}),
}


def of_arrays(function, args, kwargs):
    """The function by from_jax, of its array arguments; and these."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (np.ndarray, jax.Array))]
    ours = mx.from_jax(function)

    def called(*arrays):
        given = dict(zip(at, arrays, strict=True))
        full = [given.get(index, leaf) for index, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(tree, full)
        return ours(*args, **kwargs)

    return called, [leaves[index] for index in at]


@functools.cache
def known_together():
    """From a name to the result inside mx.jit, all in one program."""
    return compiled_rows({name: of_arrays(*row) for name, row in KNOWN.items()})


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_not_an_array_or_a_float_is_static(name):
    function, args, kwargs = KNOWN[name]
    expected = function(*args, **kwargs)
    for found in (mx.from_jax(function)(*args, **kwargs), known_together()(name)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_function_is_compiled_once():
    traced = []

    def scaled(x, n, rate=1.0, name="a"):
        traced.append((n, name))
        return x * n * rate

    for n, name in [(1, "a"), (1, "a"), (2, "a"), (1, "b"), (2, "a")]:
        mx.from_jax(scaled)(X, n, rate=n / 2, name=name)
    assert traced == [(1, "a"), (2, "a"), (1, "b")]
    for n in (5, 6):
        mx.from_jax(scaled)(X, np.int32(n))
    assert len(traced) == 4


def test_a_function_that_cannot_be_hashed_is_compiled_once_for_each_from_jax():
    traced = []

    class Scaled:
        __hash__ = None  # type: ignore[assignment]  # as arrays

        def __call__(self, x):
            traced.append(x)
            return x * 2

    ours = mx.from_jax(Scaled())
    for _ in range(3):
        np.testing.assert_array_equal(ours(X), 2 * X)
    assert len(traced) == 1


def test_methods():
    class Scaled:
        def scale(self, x):
            return x * 2

    scaled = Scaled()
    first, second = mx.from_jax(scaled.scale), mx.from_jax(scaled.scale)
    np.testing.assert_array_equal(first(X), second(X))
    del first
    gc.collect()
    np.testing.assert_array_equal(second(X[0]), 2 * X[0])


def test_neither_functions_nor_arrays_are_kept():
    def called():
        def function(x, n):
            return jnp.sin(x) * n

        x = jnp.arange(3.0)
        mx.from_jax(function)(x, 2)
        mx.grad(lambda x: mx.from_jax(function)(x, 2).sum())(x)
        return weakref.ref(function), weakref.ref(x)

    kept = called()
    gc.collect()
    assert [each() for each in kept] == [None, None]


def test_inside_transformations_the_function_is_called():
    seen = []

    def function(x, number):
        seen.append(number)
        return jnp.sin(x) * number

    ours = mx.from_jax(function)
    calls = [
        lambda: mx.jit(lambda x: ours(x, 2.5))(X),
        lambda: mx.vmap(lambda x: ours(x, 2.5))(X),
        lambda: mx.reference(lambda x: ours(x, 2.5))(X),
        lambda: mx.simulate([[lambda x: ours(x, 2.5)]], [[(X,)]])[0][0],
    ]
    for call in calls:
        np.testing.assert_allclose(call(), np.sin(X) * np.float32(2.5), rtol=1e-6)
    assert {*map(type, seen)} == {float}
    slope = mx.jit(mx.grad(lambda x: ours(x, 2.0).sum()))(X)
    np.testing.assert_allclose(slope, 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: ours(x, 2.0).sum())(X), slope, rtol=1e-6)
    assert mx.jit(lambda x: ours(x, 2.5))(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_the_graph():
    def attention(x, n):
        return jax.nn.softmax(x @ x.T) @ x * n

    ours: Any = mx.from_jax(attention)
    graph = ours.graph(X, 2)
    assert (graph.name, len(graph.inputs)) == ("attention", 1)
    assert ours.graph(mx.ShapeDtypeStruct(X.shape, X.dtype), 2) == graph
    assert ours.__name__ == "attention"


def test_static_arguments():
    class Config:
        def __init__(self, scale):
            self.scale = scale

    config = Config(jnp.float32(3))
    for options in ({"static_argnums": 1}, {"static_argnames": "config"}):
        ours = mx.from_jax(lambda x, config, n: x * config.scale + n, **options)
        for call in (ours, mx.jit(lambda x, config, n, ours=ours: ours(x, config, n), **options)):
            np.testing.assert_allclose(call(X, config, 2), 3 * X + 2, rtol=1e-6)
        np.testing.assert_allclose(ours(X, n=2, config=config), 3 * X + 2, rtol=1e-6)
    whole = mx.from_jax(lambda x, rates: x * len(rates) if rates[0] > 0 else x, static_argnums=-1)
    np.testing.assert_allclose(whole(X, (0.5, 1.0)), 2 * X)


def test_equal_numbers_of_other_types_are_other_arguments():
    ours = mx.from_jax(lambda x, a: x.astype(jnp.int8) if a is True else x * a)
    whole = np.arange(3, dtype=np.int32)
    for number in (1, 1.0, True, 1):
        wanted = whole.astype(np.int8) if number is True else whole * jnp.asarray(number)
        assert ours(whole, number).dtype == wanted.dtype


def test_slices_are_static():
    for function in (jnp.delete, lambda x, where: x[where]):
        ours = mx.from_jax(function)
        for each in (slice(0, 1), slice(2), slice(None, None, -1)):
            np.testing.assert_array_equal(ours(X, each), function(X, each))


@pytest.mark.parametrize("value", [{1, 2}, slice([])], ids=repr)
def test_static_arguments_must_be_hashable(value):
    with pytest.raises(mx.TransformError, match="is not hashable") as caught:
        mx.from_jax(lambda x, value: x)(X, value)
    assert repr(value) in str(caught.value)
    assert "test_from_jax.py" in str(caught.value)


#: Options that were removed, and what the error says instead.
REMOVED = {
    "derivatives": ("program", "follow the function's custom rules"),
    "shardings": ("drop", "shardings='drop'"),
    "platform": ("tpu", "lowering_platforms"),
}


@pytest.mark.parametrize("name", REMOVED)
def test_removed_options(name):
    value, replacement = REMOVED[name]
    with pytest.raises(mx.AttributeValueError, match=f"the option {name} was removed") as caught:
        mx.from_jax(jnp.sin, **{name: value})
    assert replacement in str(caught.value)
    assert "mx.import_stablehlo" in str(caught.value)


def test_the_replacements_work():
    x = np.float32(3)
    lowered = jax.jit(lambda x: x * jax.lax.stop_gradient(x)).lower(x)
    assert mx.grad(mx.import_stablehlo(lowered.as_text()))(x) == 6
    traced = jax.jit(jnp.sin).trace(x)
    program = mx.import_stablehlo(traced.lower(lowering_platforms=("cuda",)).as_text())
    assert program(x) == np.sin(x)


def test_other_mistakes():
    with pytest.raises(TypeError, match="unexpected keyword argument 'platfrom'"):
        mx.from_jax(jnp.sin, platfrom="tpu")
    with pytest.raises(mx.TransformError, match="from_jax"):
        mx.from_jax(3)
    with pytest.raises(KeyError, match="spoon"):
        mx.from_jax({}.__getitem__)("spoon")
