"""mx.random: the names and signatures of jax.random, and the functions that are JAX's own."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.random import sampling
from tests.harness import by_jax
from tests.selection import diagonal, unless

NAMES = sorted(name for name in dir(jax.random) if name[0] != "_")
KEY, THEIRS = mx.random.key(11), jax.random.key(11)


def test_every_function_of_jax_is_there_and_no_other():
    assert dir(mx.random) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name != "random_gamma_p"])
def test_signatures_are_those_of_jax(name):
    ours, theirs = (
        [(each.name, each.kind, each.default) for each in inspect.signature(f).parameters.values()]
        for f in (getattr(mx.random, name), getattr(jax.random, name))
    )
    assert ours == theirs
    function = getattr(mx.random, name)
    assert function.__name__ == name
    assert function.__module__.startswith(("minixla.random", "jax."))
    assert function.__doc__.strip()


def test_docstrings_say_what_every_parameter_is():
    for name in ("normal", "uniform", "gamma", "randint", "rademacher", "choice"):
        function = getattr(mx.random, name)
        for parameter in inspect.signature(function).parameters:
            assert f"\n    {parameter}: " in function.__doc__, (name, parameter)
        assert function.__doc__.count("Args:") == 1


WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
COVARIANCE = np.array([[2, 0.5], [0.5, 1]], np.float32)
TABLE = {
    "ball": (3,),
    "binomial": (10.0, 0.3, (2,)),
    "chisquare": (2.5,),
    "double_sided_maxwell": (0.0, 1.0, (2,)),
    "f": (2.0, 3.0),
    "generalized_normal": (1.5, (2,)),
    "geometric": (0.3, (2,)),
    "maxwell": ((2,),),
    "multinomial": (10.0, WEIGHTS),
    "multivariate_normal": (np.zeros(2, np.float32), COVARIANCE),
    "orthogonal": (3,),
    "pareto": (2.0,),
    "poisson": (3.0, (3,)),
    "rayleigh": (np.float32(1),),
    "t": (3.0,),
    "triangular": (0.0, 0.5, 1.0),
    "wald": (np.float32(1), (3,)),
    "weibull_min": (1.0, 2.0, (2,)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", TABLE)
def test_functions_that_are_jaxs_draw_what_they_draw_there(name):
    ours, theirs = getattr(mx.random, name), getattr(jax.random, name)
    expected = jax.jit(lambda key: theirs(key, *TABLE[name]))(THEIRS)
    for found in (ours(KEY, *TABLE[name]), mx.jit(lambda key: ours(key, *TABLE[name]))(KEY)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=3e-6)


@pytest.mark.parametrize(("name", "given"), [
    # It draws from the other one.
    pytest.param("ball", (3, 2.0), marks=pytest.mark.full),
    ("generalized_normal", (1.5,)),
])  # fmt: skip
def test_parameters_that_jax_calls_numbers_are_operands_as_there(name, given):
    ours, theirs = getattr(mx.random, name), getattr(jax.random, name)
    expected = theirs(THEIRS, *given, (300,))
    for key in (KEY, THEIRS):
        np.testing.assert_array_equal(ours(key, *given, (300,)), expected)
    compiled = jax.jit(lambda key: theirs(key, *given, (300,)))(THEIRS)
    np.testing.assert_array_equal(mx.jit(lambda key: ours(key, *given, (300,)))(KEY), compiled)


@pytest.mark.parametrize(("name", "given"), [
    # The other one draws from it.
    pytest.param("maxwell", (), marks=pytest.mark.full),
    ("double_sided_maxwell", (0.5, 2.0)),
])  # fmt: skip
def test_sums_of_squares_are_rounded_as_in_jax(name, given):
    # As Threefry's rounds are a loop there: written out, XLA fuses them with the sums.
    draws = [getattr(module, name) for module in (mx.random, jax.random)]
    ours = mx.jit(lambda key: draws[0](key, *given, (1000,)))
    theirs = jax.jit(lambda key: draws[1](key, *given, (1000,)))
    np.testing.assert_array_equal(ours(KEY), theirs(THEIRS))


def test_functions_that_are_jaxs_take_keys_of_all_kinds():
    expected = by_jax(lambda key: jax.random.geometric(key, 0.3, (4,)), THEIRS)
    raw = mx.random.PRNGKey(11)
    for key in (KEY, THEIRS, raw):
        np.testing.assert_array_equal(mx.random.geometric(key, 0.3, (4,)), expected)
        drawn = mx.jit(lambda k: mx.random.geometric(key=k, p=0.3, shape=(4,)))(key)
        np.testing.assert_array_equal(drawn, expected)
    with pytest.raises(ValueError, match="accepts a single key"):  # an error of JAX
        mx.random.geometric(mx.random.split(KEY), 0.3)


def test_derivatives_of_functions_that_are_jaxs():
    slope = mx.grad(lambda scale: mx.random.rayleigh(KEY, scale, (3,)).sum())(np.float32(2))
    expected = jax.grad(lambda s: jax.random.rayleigh(THEIRS, s, (3,)).sum())(np.float32(2))
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("implementation", "make"),
    diagonal(["threefry2x32", "rbg"], [jax.random.key, mx.random.key]),
)
def test_kept_programs_draw_the_same(make, implementation):
    key, theirs = (each(3, impl=implementation) for each in (make, jax.random.key))
    for _ in range(3):  # later times from programs that are kept
        found = mx.random.split(key)
        assert type(found) is type(key)
        np.testing.assert_array_equal(
            mx.random.key_data(found), jax.random.key_data(jax.random.split(theirs))
        )
        for dtype in (np.float32, np.float16):
            draw = mx.random.normal(key, (2,), dtype)
            np.testing.assert_array_equal(draw, jax.random.normal(theirs, (2,), dtype))
        for shape in ((True,), (1,), [1]):  # equal, but not the same
            assert mx.random.uniform(key, shape).shape == (1,)
        with pytest.raises(mx.AttributeValueError, match="uniform: shape is not an integer"):
            mx.random.uniform(key, (1.0,))
        with jax.enable_x64(True):
            assert mx.random.uniform(key, (1,)).dtype == np.float64
        with pytest.raises(mx.ShapeError, match="uniform: the key is an array of keys"):
            mx.random.uniform(found, (1,))


#: Draws whose arguments are numbers or arrays, the same ones each time and others.
_DRAWS = {
    "uniform of integers": lambda r, key, n: r.uniform(key, (3,), minval=0, maxval=n),
    "uniform of floats": lambda r, key, n: r.uniform(key, (3,), np.float32, -0.5, float(n)),
    "uniform of NumPy's": lambda r, key, n: r.uniform(key, (3,), maxval=np.float32(n)),
    "uniform of an array": lambda r, key, n: r.uniform(key, (3,), maxval=np.arange(3.0) + n),
    "randint": lambda r, key, n: r.randint(key, (3,), 0, n),
    "bernoulli": lambda r, key, n: r.bernoulli(key, 1 / n, (9,)),
    "truncated_normal": lambda r, key, n: r.truncated_normal(key, -1, n, (3,)),
    "bernoulli of a list of sizes": lambda r, key, n: r.bernoulli(
        key, jax.numpy.float32(1 / n), [3]
    ),
    "permutation": lambda r, key, n: r.permutation(key, n),
    "permutation of an array": lambda r, key, n: r.permutation(key, np.arange(n)),
    "permutation of a size": lambda r, key, n: r.permutation(key, jax.numpy.int32(n)),
    "choice": lambda r, key, n: r.choice(key, n, (3,), p=np.full(n, 1 / n, np.float32)),
    "categorical": lambda r, key, n: r.categorical(key, np.ones(n, np.float32)),
}


#: Each takes its arguments as one of the others does.
_SELDOM = {"uniform of an array", "permutation of an array", "permutation of a size", "choice"}


@pytest.mark.parametrize(
    ("name", "x64"),
    [
        *[pytest.param(name, False, marks=unless(name not in _SELDOM)) for name in _DRAWS],
        ("uniform of integers", True),
        ("randint", True),
    ],
)
def test_draws_of_numbers_are_the_same_each_time(name, x64):
    draw = _DRAWS[name]
    with jax.enable_x64(x64):
        for n in (4, 4, 7, 4):
            expected = draw(jax.random, THEIRS, n)
            for key in (KEY, THEIRS):
                found = draw(mx.random, key, n)
                assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
                np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_numbers_are_operands_of_kept_programs():
    key, made = jax.random.key(0), []
    for number in (0.25, 0.5, np.float32(0.75), np.float32(0.875)):
        before = sampling._program.cache_info().misses
        mx.random.bernoulli(key, number, (11,))
        mx.random.bernoulli(key, number, (11,))
        made.append(sampling._program.cache_info().misses - before)
    assert made[1] == made[3] == 0
