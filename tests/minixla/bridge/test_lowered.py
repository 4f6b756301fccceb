"""Primitives that another library defines, inside our transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

import minixla as mx
from minixla.core.errors import DerivativeError, UnsupportedError
from minixla.engine.jax_private import primitive_linearizations

X = np.linspace(0.1, 1.3, 5, dtype=np.float32)


@pytest.fixture
def primitive():
    """The square, without a lowering and a derivative."""
    made = Primitive("foreign_square")
    made.def_impl(lambda x: x * x)
    made.def_abstract_eval(lambda x: x)
    yield made
    for table in (ad.primitive_jvps, primitive_linearizations):
        table.pop(made, None)


def with_lowering(primitive):
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: x * x, multiple_results=False))


def linearized(is_vjp, nonzeros, x, *, primitive):
    """A rule that gives three times the derivative, so that it can be told from others."""
    return primitive.bind(x), nonzeros[0], x, lambda x, tangent: tangent * (6 * x)


@pytest.mark.parametrize("is_lowered", [True, False])
def test_a_rule_that_linearizes_gives_the_derivative(primitive, is_lowered):
    if is_lowered:
        with_lowering(primitive)
    primitive_linearizations[primitive] = lambda *args: linearized(*args, primitive=primitive)

    def loss(x):
        return primitive.bind(x).sum()

    np.testing.assert_allclose(mx.grad(loss)(X), jax.grad(loss)(X), rtol=1e-6)
    np.testing.assert_allclose(mx.grad(loss)(X), 6 * X, rtol=1e-6)
    np.testing.assert_allclose(mx.jvp(loss, (X,), (X,))[1], (6 * X * X).sum(), rtol=1e-6)
    if is_lowered:
        np.testing.assert_allclose(mx.jit(mx.grad(loss))(X), 6 * X, rtol=1e-6)
        second = mx.grad(lambda x: (mx.grad(loss)(x) * X).sum())(X)
        np.testing.assert_allclose(second, 6 * X, rtol=1e-6)


def test_a_primitive_that_is_not_lowered_runs_outside_of_programs(primitive):
    ad.primitive_jvps[primitive] = lambda p, t: (primitive.bind(*p), t[0] * (2 * p[0]))
    value, gradient = mx.value_and_grad(lambda x: primitive.bind(x).sum())(X)
    np.testing.assert_allclose([value, *gradient], [(X * X).sum(), *(2 * X)], rtol=1e-6)


@pytest.mark.parametrize("wrap", [mx.jit, mx.checkpoint], ids=["jit", "checkpoint"])
def test_a_program_with_a_primitive_that_is_not_lowered(primitive, wrap):
    def twice(x):
        return wrap(lambda y: primitive.bind(wrap(primitive.bind)(y)))(x)

    with pytest.raises(UnsupportedError, match="foreign_square has no program"):
        twice(jnp.asarray(X))


def test_a_primitive_without_a_derivative(primitive):
    with pytest.raises(DerivativeError, match="foreign_square has no derivative"):
        mx.grad(lambda x: primitive.bind(x).sum())(X)


@pytest.mark.parametrize("exponent", [2, 3, 5, -2])
def test_the_derivative_of_a_power_has_no_more_products_than_jax(exponent):
    def loss(x):
        return jnp.sum(jnp.power(x, exponent))

    texts = [library.jit(library.grad(loss)).lower(X).as_text() for library in (mx, jax)]
    ours, jaxs = [text.count("stablehlo.multiply") for text in texts]
    assert ours <= jaxs + (exponent == 2)  # of a square the two products are added
    np.testing.assert_array_equal(mx.jit(mx.grad(loss))(X), jax.jit(jax.grad(loss))(X))
