"""Draws of bits, floats, integers, orders and categories: bit for bit those of jax.random."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import by_jax, compiled_rows
from tests.selection import IS_LONG, quick_rows

X = np.arange(12, dtype=np.float32).reshape(3, 4)
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)

#: By name: the function, and its arguments after the key.
ROWS = {
    "bits": ("bits", (5,)),
    "bits of 8": ("bits", (5,), np.uint8),
    "bits of one element": ("bits",),
    "bits of three dimensions": ("bits", (2, 3, 2), np.uint16),
    "uniform": ("uniform", (5,)),
    "uniform of a list of sizes": ("uniform", [2, 2]),
    "uniform between": ("uniform", (2, 3), np.float32, -1.5, np.array([1, 2, 3])),
    "uniform of bf16": ("uniform", (5,), jnp.bfloat16),
    "uniform of f16": ("uniform", (5,), np.float16, 1, 3),
    "uniform without elements": ("uniform", (2, 0)),
    "normal": ("normal", (5,)),
    "normal of f16": ("normal", (5,), np.float16),
    "normal of bf16": ("normal", (5,), jnp.bfloat16),
    "normal of c64": ("normal", (2,), np.complex64),
    "truncated_normal": ("truncated_normal", -1.0, np.array([0.5, 2], np.float32)),
    "truncated_normal of a shape": ("truncated_normal", -1, 2, (2, 2), jnp.bfloat16),
    "lognormal": ("lognormal", 0.5, (3,)),
    "exponential": ("exponential", (5,)),
    "laplace": ("laplace", (5,)),
    "logistic": ("logistic", (5,)),
    "cauchy": ("cauchy", (5,)),
    "gumbel": ("gumbel", (5,)),
    "gumbel, high": ("gumbel", (5,), np.float32, "high"),
    "gumbel, highest": ("gumbel", (40,), np.float32, "highest"),
    "randint": ("randint", (5,), 0, 10),
    "randint between arrays": ("randint", (2, 2), np.array([-3, 0]), np.array([3, 100])),
    "randint of 8 bits": ("randint", (9,), -1000, 1000, np.int8),
    "randint of all": ("randint", (5,), -(2**31), 2**31 - 1),
    "randint up to the end": ("randint", (5,), 0, np.uint32(2**32 - 1), np.uint32),
    "randint of nothing": ("randint", (3,), 5, 5),
    "randint of floats": ("randint", (3,), 0.5, 5.5),
    "bernoulli": ("bernoulli",),
    "bernoulli of a shape": ("bernoulli", 0.3, (6,)),
    "bernoulli, high": ("bernoulli", P, (2, 4), "high"),
    "rademacher": ("rademacher", (6,)),
    "rademacher of floats": ("rademacher", (6,), np.float32),
    "permutation of a number": ("permutation", 7),
    "permutation of one": ("permutation", 1),
    "permutation": ("permutation", X),
    "permutation of columns": ("permutation", X, 1),
    "permutation of each row": ("permutation", X, -1, True),
    "permutation in two rounds": ("permutation", 2000),
    "choice": ("choice", 10, (4,)),
    "choice of one": ("choice", X),
    "choice of columns": ("choice", X, (2,), True, None, 1),
    "choice without replacement": ("choice", X, (2,), False),
    "choice with weights": ("choice", 4, (3, 2), True, P),
    "choice with weights, without replacement": ("choice", X, (3,), False, P, 1),
    "choice of nothing": ("choice", 5, (0,)),
    "categorical": ("categorical", X / 4),
    "categorical of columns": ("categorical", X / 4, 0, (2, 4)),
    "categorical without replacement": ("categorical", X / 4, -1, (2, 3), False),
    "categorical, high": ("categorical", X / 4, -1, None, True, "high"),
}


#: Each function, without some of its options.
QUICK = [
    "bits",
    "bits of three dimensions",
    "uniform",
    "uniform between",
    "uniform of bf16",
    "normal",
    "normal of c64",
    "truncated_normal",
    "lognormal",
    "exponential",
    "laplace",
    "logistic",
    "cauchy",
    "gumbel",
    "gumbel, high",
    "randint",
    "randint between arrays",
    "bernoulli",
    "bernoulli of a shape",
    "rademacher",
    "permutation of a number",
    "permutation of columns",
    "permutation of each row",
    "choice",
    "choice without replacement",
    "choice with weights",
    "categorical",
    "categorical without replacement",
]


def _row(module, name):
    function, *arguments = ROWS[name]
    return lambda key: getattr(module, function)(key, *arguments)


@functools.cache
def _results(side, implementation):
    module, jit = (mx.random, mx.jit) if side == "ours" else (jax.random, jax.jit)
    key = module.key(7, impl=implementation)
    names = ROWS if IS_LONG else QUICK
    return compiled_rows({name: (_row(module, name), (key,)) for name in names}, jit)


def assert_equal_bits(found, expected):
    """Asserts equal types, shapes and bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes(), f"{found} instead of {expected}"


@pytest.mark.parametrize("name", quick_rows(ROWS, QUICK))
def test_draws_are_those_of_jax(name):
    ours, theirs = (_results(side, "threefry2x32")(name) for side in ("ours", "jax"))
    assert_equal_bits(ours, theirs)


@pytest.mark.full
@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("name", ROWS)
def test_draws_of_other_implementations_are_those_of_jax(name, implementation):
    ours, theirs = (_results(side, implementation)(name) for side in ("ours", "jax"))
    assert_equal_bits(ours, theirs)


FLOATS = ["uniform", "normal", "exponential", "laplace", "logistic", "cauchy", "gumbel"]


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), [
    *itertools.product(FLOATS, ["float16", "bfloat16", "float32", "float64"]),
    *itertools.product(["bits"], ["uint8", "uint16", "uint32", "uint64"]),
    ("normal", "complex64"), ("normal", "complex128"),
])  # fmt: skip
def test_draws_compiled_as_for_users_and_at_once(name, dtype):
    with jax.enable_x64(True):
        for shape in ((), (0, 3), (1000,), (7, 3, 5)):
            theirs = jax.jit(lambda key, s=shape: getattr(jax.random, name)(key, s, dtype))
            expected = theirs(jax.random.key(2))
            assert_equal_bits(getattr(mx.random, name)(mx.random.key(2), shape, dtype), expected)


@pytest.mark.full
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_integers_of_every_type(dtype):
    # JAX takes no larger number of Python's.
    info, most = np.iinfo(dtype), min(np.iinfo(dtype).max, 2**63 - 1)
    with jax.enable_x64(True):
        for low, high in ((0, 7), (info.min, most), (np.array(0, dtype), np.array(info.max))):
            expected = jax.random.randint(jax.random.key(5), (300,), low, high, dtype)
            found = mx.random.randint(mx.random.key(5), (300,), low, high, dtype)
            assert_equal_bits(found, expected)


def test_one_draw_at_once_is_that_of_jax():
    for name in ("normal", "uniform"):
        expected = getattr(jax.random, name)(jax.random.key(1), (1000,))
        assert_equal_bits(getattr(mx.random, name)(mx.random.key(1), (1000,)), expected)


def test_counts_beyond_32_bits_are_of_64():
    """The numbers of elements, of which the last are drawn alone."""
    from minixla.random.implementations import _counts

    program = mx.make_graph(lambda: _counts((3, 1 << 31)))()
    text = str(program)
    assert "u64[3,2147483648]" in text
    assert "u64" not in str(mx.make_graph(lambda: _counts((2, 1 << 31)))())


def test_the_reference_draws_the_same():
    key = mx.random.key(3)
    for name in ("bits", "uniform", "randint", "permutation", "bernoulli of a shape"):
        found = mx.reference(_row(mx.random, name))(key)
        assert_equal_bits(found, _row(mx.random, name)(key))
    for draw in (mx.random.rademacher, lambda k, n: mx.random.choice(k, 10, n)):
        assert_equal_bits(mx.reference(lambda k, f=draw: f(k, (9,)))(key), draw(key, (9,)))
    normal = _row(mx.random, "normal")
    np.testing.assert_allclose(mx.reference(normal)(key), normal(key), rtol=2e-6)
    rbg = mx.random.key(3, impl="rbg")
    assert_equal_bits(mx.reference(_row(mx.random, "bits"))(rbg), _row(mx.random, "bits")(rbg))


SLOPES = {
    "uniform, minval": lambda r, key, x: r.uniform(key, (3,), minval=x, maxval=5.0).sum(),
    "uniform, maxval": lambda r, key, x: r.uniform(key, (3,), maxval=x).sum(),
    "truncated_normal": lambda r, key, x: r.truncated_normal(key, x - 2, 2 * x, (3,)).sum(),
    "lognormal": lambda r, key, x: r.lognormal(key, x, (3,)).sum(),
    "normal": lambda r, key, x: (r.normal(key, (3,)) * x).sum(),
}


def test_derivatives_are_those_of_jax():
    def slopes_of(gradient, module, key):
        functions = {name: functools.partial(f, module, key) for name, f in SLOPES.items()}
        return lambda x: {name: gradient(f)(x) for name, f in functions.items()}

    x, key = np.float32(0.7), mx.random.key(4)
    values = mx.jit(slopes_of(mx.grad, mx.random, key))(x)
    slopes = by_jax(slopes_of(jax.grad, jax.random, jax.random.key(4)), x)
    for name, slope in slopes.items():
        np.testing.assert_allclose(values[name], slope, rtol=1e-5, err_msg=name)
    forward = mx.jvp(lambda x: SLOPES["lognormal"](mx.random, key, x), (0.7,), (1.0,))[1]
    np.testing.assert_allclose(forward, slopes["lognormal"], rtol=1e-5)


KEY = mx.random.key(0)
r = mx.random
REFUSED = {
    "a dtype of integers": (lambda: r.normal(KEY, (2,), np.int32), ValueError, "type s32"),
    "a dtype of complex numbers": (lambda: r.uniform(KEY, (), np.complex64), ValueError, "c64"),
    "a dtype of floats": (lambda: r.randint(KEY, (), 0, 2, float), TypeError, "type f32"),
    "signed bits": (lambda: r.bits(KEY, (), np.int32), ValueError, "kind unsigned"),
    "a negative size": (lambda: r.normal(KEY, (-1,)), AttributeValueError, "a size is negative"),
    "limits that do not fit": (
        lambda: r.uniform(KEY, (2,), minval=np.zeros(3)), ValueError, "broadcast",
    ),
    "a shape that is too small": (
        lambda: r.bernoulli(KEY, P, ()), ValueError, "bernoulli: shape is too small",
    ),
    "p of integers": (lambda: r.bernoulli(KEY, 1), TypeError, "p is of type s32"),
    "a mode": (lambda: r.bernoulli(KEY, 0.5, mode="higher"), ValueError, "mode 'higher'"),
    "gumbel's mode": (lambda: r.gumbel(KEY, mode="best"), ValueError, "mode 'best'"),
    "a wide parameter": (
        lambda: r.lognormal(KEY, np.float32(1), dtype=np.float16), ValueError, "fit into f16",
    ),
    "p of another size": (
        lambda: r.choice(KEY, 3, (), True, P), ValueError, "p must have one probability for",
    ),
    "more than there are": (lambda: r.choice(KEY, 3, (4,), False), ValueError, "cannot draw 4"),
    "nothing to draw": (lambda: r.choice(KEY, 0, (4,)), ValueError, "no elements to draw"),
    "an order of a float": (lambda: r.permutation(KEY, 2.5), TypeError, "x is not an integer"),
    "an axis": (lambda: r.permutation(KEY, X, 2), ValueError, "axis 2 is out of bounds"),
    "too many categories": (
        lambda: r.categorical(KEY, X, shape=(5, 3), replace=False), ValueError, "cannot draw 5",
    ),
    "a shape without the batch": (
        lambda: r.categorical(KEY, X, shape=(4,)), ValueError, "shape",
    ),
    "no shape": (lambda: r.randint(KEY), TypeError, "missing a required argument: 'shape'"),
    "an unknown name": (lambda: r.normal(KEY, size=3), TypeError, "unexpected keyword argument"),
    "one argument twice": (lambda: r.normal(KEY, (2,), shape=3), TypeError, "multiple values"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_arguments_are_explained(case):
    function, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message) as caught:
        function()
    if isinstance(caught.value, (ShapeError, AttributeValueError)):
        assert "test_draws.py" in str(caught.value)


def test_a_draw_is_one_call_in_a_program():
    graph = mx.make_graph(lambda key: mx.random.normal(key, (3,)) + mx.random.normal(key, (3,)))
    names = [step.op.name for step in graph(mx.random.key(0)).instructions]
    assert names == ["Call", "Call", "Add"]


def test_draws_lie_over_devices_as_they_are_told():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    key, expected = mx.random.key(8), mx.random.normal(mx.random.key(8), (8,))

    def draw(key):
        return mx.random.normal(key, (8,), out_sharding=layout)

    for found in (draw(key), mx.jit(draw)(key)):
        assert found.sharding.is_equivalent_to(layout, 1)
        assert_equal_bits(found, expected)
