"""Arguments that are not arrays: the error names the argument and the option to use."""

from __future__ import annotations

import datetime
import functools

import jax
import numpy as np
import pytest

import minixla as mx

X = np.ones(3, np.float32)


class Settings:
    """Not a pytree."""


VALUES = {
    "a string": "relu",
    "bytes": b"relu",
    "an object": Settings(),
    "a function": abs,
    "a class": int,
    "a date": datetime.date(2020, 1, 1),
    "a set": {1},
    "strings": np.array(["a"]),
    "objects": np.array([Settings()]),
    "a time": np.datetime64("2020"),
    "a dtype": np.dtype("f4"),
    "a slice": slice(1),
    "a range": range(3),
    "a module": np,
    "a dtype of JAX": jax.numpy.float32,
}


def model(x, activation):
    return x


class Model:
    """Not a pytree, with a jitted method."""

    @functools.partial(mx.jit)
    def __call__(self, x):
        return x


# Calls with a value, and the advice in the error.
CALLS = {
    "jit": (lambda v: mx.jit(model)(X, v), 'static_argnames="activation"'),
    "jit, by name": (lambda v: mx.jit(model)(X, activation=v), 'static_argnames="activation"'),
    "jit in jit": (lambda v: mx.jit(lambda x: mx.jit(model)(x, v))(X), "static_argnames"),
    "grad of jit": (lambda v: mx.grad(lambda x: mx.jit(model)(x, v).sum())(X), "static_argnames"),
    "lower": (lambda v: mx.jit(model).lower(X, v), 'static_argnames="activation"'),
    "trace": (lambda v: mx.jit(model).trace(X, v), 'static_argnames="activation"'),
    "eval_shape of jit": (lambda v: mx.jit(model).eval_shape(X, v), "static_argnames"),
    "graph": (lambda v: mx.jit(model).graph(X, v), 'static_argnames="activation"'),
    "make_graph": (lambda v: mx.make_graph(model)(X, v), "static_argnums"),
    "checkpoint": (lambda v: mx.checkpoint(model)(X, v), "static_argnums"),
    "pmap": (lambda v: mx.pmap(model)(X[None], v), "static_broadcasted_argnums"),
    "vmap": (lambda v: mx.vmap(model)(X, v), "functools.partial(f, activation=...)"),
    "jvp": (lambda v: mx.jvp(model, (X, v), (X, X)), "functools.partial(f, activation=...)"),
    "vjp": (lambda v: mx.vjp(model, X, v), "functools.partial(f, activation=...)"),
    "linearize": (lambda v: mx.linearize(model, X, v), "functools.partial(f, activation=...)"),
    "eval_shape": (lambda v: mx.eval_shape(model, X, v), "functools.partial(f, activation=...)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_string_is_refused_with_advice(name):
    call, advice = CALLS[name]
    for value, place in (("relu", "activation"), ({"a": [1, "b"]}, "activation['a'][1]")):
        with pytest.raises(mx.ShapeError) as caught:
            call(value)
        text = str(caught.value)
        assert f"argument {place} of type str is not an array" in text and advice in text
        assert "test_not_arrays.py" in text


@pytest.mark.parametrize("value", VALUES)
def test_jit_names_its_option_for_other_values(value):
    for method in ("__call__", "lower"):
        with pytest.raises(mx.ShapeError) as caught:
            getattr(mx.jit(model), method)(X, VALUES[value])
        assert 'static_argnames="activation"' in str(caught.value)
        assert "argument activation" in str(caught.value)


def test_a_jitted_method_says_that_self_is_no_array():
    with pytest.raises(mx.ShapeError, match='static_argnames="self"'):
        Model.__call__(Model(), X)


def test_what_is_marked_is_accepted():
    for options in ({"static_argnames": "activation"}, {"static_argnums": 1}):
        for value in ("relu", Settings(), abs, None):
            assert mx.jit(model, **options)(X, value).shape == (3,)
    assert mx.jit(model)(X, None).shape == (3,)
    assert mx.grad(lambda x, name: x.sum())(X, "relu").shape == (3,)
    assert mx.jit(model).lower(jax.ShapeDtypeStruct((3,), np.float32), X)
