"""Gamma distributions and what is made of them: JAX's bits, both derivatives."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from tests.harness import by_jax, compiled_rows

A = np.array([0.3, 2.5], np.float32)
ROWS = {
    "gamma": ("gamma", A),
    "gamma of f16": ("gamma", 2.5, (2,), np.float16),
    "gamma of nothing": ("gamma", 2.5, (0,)),
    "loggamma": ("loggamma", A, (2, 2)),
    "beta": ("beta", A, 0.5),
    "dirichlet": ("dirichlet", np.array([1, 2, 0.5], np.float32), (2,)),
}


def _draw(module, name):
    function, *arguments = ROWS[name]
    return lambda key: getattr(module, function)(key, *arguments)


#: What `make test` draws; the others are made of the same.
FEW = ["gamma", "dirichlet"]


@functools.cache
def _results(side, implementation, names):
    module, jit = (mx.random, mx.jit) if side == "ours" else (jax.random, jax.jit)
    key = module.key(7, impl=implementation)
    return compiled_rows({name: (_draw(module, name), (key,)) for name in names}, jit)


def _assert_equal(name, *how):
    ours, theirs = (np.asarray(_results(side, *how)(name)) for side in ("ours", "jax"))
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", FEW)
def test_draws_are_those_of_jax(name):
    _assert_equal(name, "threefry2x32", tuple(FEW))


@pytest.mark.full
@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("name", ROWS)
def test_draws_of_all_implementations_are_those_of_jax(name, implementation):
    _assert_equal(name, implementation, tuple(ROWS))


@pytest.mark.full
@pytest.mark.parametrize("function", ["gamma", "loggamma", "dirichlet"])
def test_draws_of_f16_by_rbg_are_those_of_jax(function):
    # A small loop is one function for XLA:CPU, which does not round f16 within.
    a, shape = np.array([0.3, 2.5, 10], np.float16), (40,) if function == "dirichlet" else (40, 3)
    draws = [getattr(module, function) for module in (mx.random, jax.random)]
    ours = mx.jit(lambda key, a: draws[0](key, a, shape, np.float16))
    theirs = jax.jit(lambda key, a: draws[1](key, a, shape, np.float16))
    for seed in range(4):
        keys = (module.random.key(seed, impl="rbg") for module in (mx, jax))
        drawn, expected = (draw(key, a) for draw, key in zip((ours, theirs), keys, strict=True))
        np.testing.assert_array_equal(drawn, expected)


@pytest.mark.full
@pytest.mark.parametrize("function", ["beta", "f"])
def test_draws_of_numbers_are_those_of_jax_at_once_and_compiled(function):
    # Parameters are operands in one, constants in the other, which XLA rounds otherwise.
    ours, theirs = getattr(mx.random, function), getattr(jax.random, function)
    key, own = jax.random.key(5), mx.random.key(5)
    np.testing.assert_array_equal(ours(own, 2.0, 3.0, (1000,)), theirs(key, 2.0, 3.0, (1000,)))
    drawn, expected = (
        jit(lambda key, f=f: f(key, 2.0, 3.0, (1000,)))(key)
        for jit, f in ((mx.jit, ours), (jax.jit, theirs))
    )
    np.testing.assert_array_equal(drawn, expected)


def _losses(module, key, a):
    return {
        "gamma": lambda: module.gamma(key, a, (3,)).sum(),
        "loggamma": lambda: module.loggamma(key, a / 8, (3,)).sum(),
        "beta": lambda: (module.beta(key, a, a + 1, (3,)) ** 2).sum(),
    }


@pytest.mark.parametrize(
    "name",
    ["gamma", *[pytest.param(each, marks=pytest.mark.full) for each in ("loggamma", "beta")]],
)
def test_both_derivatives_are_those_of_jax(name):
    def ours(a):
        return _losses(mx.random, mx.random.key(4), a)[name]()

    def theirs(a):
        return _losses(jax.random, jax.random.key(4), a)[name]()

    a = np.float32(2)
    expected = by_jax(jax.grad(theirs), a)
    both = mx.jit(lambda a: (mx.grad(ours)(a), mx.jvp(ours, (a,), (mx.numpy.ones_like(a),))[1]))
    np.testing.assert_allclose(both(a), [expected] * 2, rtol=2e-5)


def test_a_batch_draws_what_each_draws():
    keys = mx.random.split(mx.random.key(1), 3)
    expected = by_jax(
        jax.vmap(lambda key, a: jax.random.gamma(key, a, (2,))),
        jax.random.split(jax.random.key(1), 3), np.float32([0.5, 1, 20]),
    )  # fmt: skip
    draw = mx.jit(mx.vmap(lambda key, a: mx.random.gamma(key, a, (2,))))
    np.testing.assert_allclose(draw(keys, np.float32([0.5, 1, 20])), expected, rtol=1e-6)


@pytest.mark.full
def test_the_reference_draws_the_same():
    key = mx.random.key(3)
    found = mx.reference(lambda key: mx.random.gamma(key, A))(key)
    np.testing.assert_allclose(found, mx.random.gamma(key, A), rtol=1e-5)


REFUSED = {
    "a dtype": (lambda key: mx.random.gamma(key, 1.0, dtype=np.int32), "type s32"),
    "a shape": (lambda key: mx.random.loggamma(key, A, (3,)), "shape|broadcast"),
    "a wide parameter": (
        lambda key: mx.random.beta(key, A, A, dtype=jnp.bfloat16),
        "fit into bf16",
    ),
    "a scalar": (lambda key: mx.random.dirichlet(key, 1.0), "alpha is a scalar"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_arguments_are_explained(case):
    function, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        function(mx.random.key(0))
