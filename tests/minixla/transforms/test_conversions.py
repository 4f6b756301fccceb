"""closure_convert, custom_gradient and linear_transpose."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.errors import TransformError
from tests.harness import by_jax

X = np.array([0.3, -1.2, 0.7], np.float32)


@mx.custom_gradient
def sine(x):
    inner = mnp.cos(x)
    return mnp.sin(x), lambda cotangent: cotangent * inner * 10


# The derivative is said to be ten times what it is, so that it is the given one that is found.
WAYS = {
    "grad": (mx.grad(lambda x: sine(x).sum()), X),
    "jit of grad": (mx.jit(mx.grad(lambda x: sine(x).sum())), X),
    "vmap of grad": (mx.vmap(mx.grad(sine)), X),
    "reference": (mx.reference(mx.grad(lambda x: sine(x).sum())), X),
    "jax.grad": (jax.grad(lambda x: sine(x).sum()), X),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_gives_its_own_gradient(way):
    function, x = WAYS[way]
    np.testing.assert_allclose(function(x), by_jax(lambda x: 10 * jnp.cos(x), X), rtol=1e-5)


def test_a_custom_gradient_of_several_arguments():
    @mx.custom_gradient
    def product(x, y):
        return {"xy": x * y["b"]}, lambda ct: (ct["xy"] * 7, {"b": ct["xy"] * x})

    found = mx.jit(mx.grad(lambda x, y: product(x, y)["xy"], (0, 1)))(2.0, {"b": 3.0})
    assert found == (7.0, {"b": 2.0})
    assert mx.jit(product)(2.0, {"b": 3.0}) == {"xy": 6.0}


def test_closure_convert_makes_arguments_of_what_may_be_differentiated():
    seen = []

    def function(y, count):
        converted, values = mx.closure_convert(lambda t: {"z": t * y + count}, 2.0)
        seen.append(len(values))
        return converted(2.0, *values)["z"]

    assert mx.jit(function)(3.0, 4) == 10.0
    assert mx.grad(function)(3.0, 4) == 2.0
    assert seen == [1, 1]  # y, but not the integer
    converted, values = mx.closure_convert(lambda t: t * X, 1.0)
    assert values == []
    np.testing.assert_array_equal(converted(2.0), 2 * X)
    with pytest.raises(TransformError, match="the structure of the example"):
        converted((2.0,))


def test_the_transpose_of_a_linear_function():
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)

    def function(x, y):
        return {"out": mx.jit(lambda x: matrix @ x)(x) + 2 * y}

    shapes = mx.ShapeDtypeStruct((3,), "float32"), mx.ShapeDtypeStruct((2,), "float32")
    cotangent = {"out": np.array([1, 10], np.float32)}
    expected = jax.linear_transpose(lambda x, y: {"out": matrix @ x + 2 * y}, *shapes)(cotangent)
    for transposed in (
        mx.linear_transpose(function, *shapes),
        mx.jit(lambda c: mx.linear_transpose(function, *shapes)(c)),
        mx.reference(mx.linear_transpose(function, *shapes)),
    ):
        found = transposed(cotangent)
        jax.tree.map(np.testing.assert_allclose, found, expected)
    with pytest.raises(TransformError, match="cotangent"):
        mx.linear_transpose(function, *shapes)(X)


def of_closure(y):
    """Multiply x by y with the gradient 10 g y, from a rule that closes over y."""
    return mx.custom_gradient(lambda x: (x * y, lambda g: g * y * 10))


def with_integers(x):
    return (x * 2, mnp.round(x).astype(np.int32)), lambda g: g[0] * 10


V = np.arange(1, 4, dtype=np.float32)
#: The results of jax.custom_gradient.
CUSTOM_GRADIENTS = {
    "integer output": (lambda: mx.grad(lambda x: mx.custom_gradient(with_integers)(x)[0])(1.3), 10),
    "integer output in jit": (
        lambda: mx.jit(mx.grad(lambda x: mx.custom_gradient(with_integers)(x)[0]))(1.3),
        10,
    ),
    "integer output in a batch": (
        lambda: mx.vmap(mx.grad(lambda x: mx.custom_gradient(with_integers)(x)[0]))(V),
        [10, 10, 10],
    ),
    "boolean in a dictionary": (
        lambda: mx.grad(
            lambda x: mx.custom_gradient(
                lambda x: ({"a": x * 2, "b": x > 1}, lambda g: g["a"] * 7)
            )(x)["a"]
        )(1.3),
        7,
    ),
    "nothing but an integer": (
        lambda: mx.grad(
            lambda x: x * mx.custom_gradient(lambda x: (mnp.round(x).astype(int), lambda g: g))(x)
        )(1.3),
        1,
    ),
    "closure over a batch": (lambda: mx.vmap(lambda y: of_closure(y)(2.0))(V), [2, 4, 6]),
    "gradient in a batch": (lambda: mx.vmap(lambda y: mx.grad(of_closure(y))(2.0))(V), 10 * V),
    "gradient around a batch": (
        lambda: mx.grad(lambda x: mx.vmap(lambda y: of_closure(y)(x))(V).sum())(2.0),
        60,
    ),
    "gradient around a batch in jit": (
        lambda: mx.jit(mx.grad(lambda x: mx.vmap(lambda y: of_closure(y)(x))(V).sum()))(2.0),
        60,
    ),
    "closure over what is differentiated": (
        lambda: mx.grad(lambda y: mx.grad(of_closure(y))(2.0))(3.0),
        10,
    ),
    "second derivative": (
        lambda: mx.grad(mx.grad(mx.custom_gradient(lambda x: (x, lambda g: g * x**3))))(2.0),
        12,
    ),
}


@pytest.mark.parametrize("name", CUSTOM_GRADIENTS)
def test_custom_gradients_with_integers_and_closures(name):
    found, expected = CUSTOM_GRADIENTS[name]
    np.testing.assert_allclose(found(), expected, rtol=1e-6)
