"""A function that is transformed again in each call, `mx.jit(f)(x)` in a loop, is traced once."""

import functools
import gc
import weakref

import jax
import numpy as np
import pytest

import minixla as mx

X = np.ones(3, np.float32)
BATCH = X[None]


class Model:
    """A callable object."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)


#: Calls that transform a function of an array; the function returns a scalar.
WAYS = {
    "jit": lambda f: mx.jit(f)(X),
    "jit with options": lambda f: mx.jit(f, keep_unused=True)(X),
    "jit with a static argument": lambda f: mx.jit(f, static_argnums=1)(X, 3),
    "jit with a static name": lambda f: mx.jit(f, static_argnames="scale")(X, scale=3),
    "lower": lambda f: mx.jit(f).lower(X).compile()(X),
    "jit of grad": lambda f: mx.jit(mx.grad(f))(X),
    "jit of value_and_grad": lambda f: mx.jit(mx.value_and_grad(f, argnums=(0,)))(X)[0],
    "jit of hessian": lambda f: mx.jit(mx.hessian(f))(X),
    "jit of jacfwd": lambda f: mx.jit(mx.jacfwd(f))(X),
    "jit of vmap": lambda f: mx.jit(mx.vmap(f))(BATCH),
    "jit of vmap with axes": lambda f: mx.jit(mx.vmap(f, in_axes=[0], out_axes=0))(BATCH),
    "jit of vmap of grad": lambda f: mx.jit(mx.vmap(mx.grad(f)))(BATCH),
    "jit of grad of jit": lambda f: mx.jit(mx.grad(mx.jit(f)))(X),
    "jit of grad of checkpoint": lambda f: mx.jit(mx.grad(mx.checkpoint(f)))(X),
    "grad of jit": lambda f: mx.grad(mx.jit(f))(X),
    "vmap of jit": lambda f: mx.vmap(mx.jit(f))(BATCH),
    "jit in jax.jit": lambda f: jax.jit(mx.jit(f))(X),
}


def counted():
    calls = []

    def function(x, scale=2):
        calls.append(scale)
        return (x * scale).sum()

    return function, calls


@pytest.mark.parametrize("name", WAYS)
def test_it_is_traced_once(name):
    function, calls = counted()
    first = WAYS[name](function)
    traced = len(calls)
    for _ in range(3):
        np.testing.assert_array_equal(WAYS[name](function), first)
    assert len(calls) == traced


def test_a_callable_object_is_traced_once():
    function, calls = counted()
    model = Model(function)
    for _ in range(3):
        mx.jit(model)(X)
    assert len(calls) == 1


def test_other_ways_are_told_apart():
    function, _ = counted()
    rows = {
        "value": (mx.jit(function)(X), 6),
        "gradient": (mx.jit(mx.grad(function))(X), [2, 2, 2]),
        "both": (mx.jit(mx.value_and_grad(function))(X)[0], 6),
        "static": (mx.jit(function, static_argnums=1)(X, 3), 9),
        "float static": (mx.jit(function, static_argnums=1)(X, 3.0), 9),
        "tuple of gradients": (mx.jit(mx.grad(function, argnums=(0,)))(X)[0], [2, 2, 2]),
        "batch": (mx.jit(mx.vmap(function))(BATCH), [6]),
        "axis 1": (mx.jit(mx.vmap(function, in_axes=1))(BATCH), [2, 2, 2]),
        "True is not 1": (mx.jit(mx.grad(lambda x: function(x)))(X), [2, 2, 2]),
    }
    for name, (found, expected) in rows.items():
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_a_wrapper_is_not_taken_for_what_it_wraps():
    function, _ = counted()
    for gradient in (mx.grad(function), mx.jit(mx.grad(function))):

        @functools.wraps(gradient)
        def wrapper(x, gradient=gradient):
            return gradient(x) + 1

        np.testing.assert_array_equal(mx.jit(wrapper)(X), X + 2)
        np.testing.assert_array_equal(mx.jit(mx.vmap(wrapper))(BATCH), BATCH + 2)


def test_clear_cache_has_it_traced_again():
    function, calls = counted()
    mx.jit(function)(X)
    mx.jit(function).clear_cache()
    mx.jit(function)(X)
    assert len(calls) == 2


def test_what_is_shared_is_freed_with_the_function():
    function, _ = counted()
    mx.jit(mx.grad(mx.jit(function)))(X)
    lower = mx.jit(function).lower  # a method also holds the function
    dead = weakref.ref(function)
    del function
    assert lower(X).compile()(X) == 6
    del lower
    gc.collect()
    assert dead() is None
