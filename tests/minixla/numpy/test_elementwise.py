"""Element-wise functions against jax.numpy: values, dtypes, derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.harness import QUICKLY, by_jax
from tests.minixla.numpy.tables import Table, assert_close, call, check, gradient, values

BF16 = ml_dtypes.bfloat16
TYPES = [np.float32, BF16, np.int32, np.bool_, np.complex64]
REAL_TYPES = TYPES[:-1]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, 3e38], np.float32)

UNARY = {
    "abs": (TYPES, -3, 3),
    "angle": (TYPES, -3, 3),
    "arccos": ([np.float32, BF16, np.complex64], -0.95, 0.95),
    "arccosh": ([np.float32, BF16, np.complex64], 1.1, 4),
    "arcsin": ([np.float32, BF16, np.complex64], -0.95, 0.95),
    "arcsinh": (TYPES, -3, 3),
    "arctan": (TYPES, -3, 3),
    "arctanh": ([np.float32, BF16, np.complex64], -0.9, 0.9),
    "bitwise_count": ([np.int32, np.uint8], -3, 3),
    "bitwise_not": ([np.int32, np.uint8, np.bool_], -3, 3),
    "cbrt": (REAL_TYPES, -3, 3),
    "ceil": (REAL_TYPES, -3, 3),
    "conj": (TYPES, -3, 3),
    "cos": (TYPES, -3, 3),
    "cosh": (TYPES, -3, 3),
    "deg2rad": (REAL_TYPES, -3, 3),
    "exp": (TYPES, -3, 3),
    "exp2": (REAL_TYPES, -3, 3),
    "expm1": (TYPES, -3, 3),
    "fabs": (REAL_TYPES, -3, 3),
    "floor": (REAL_TYPES, -3, 3),
    "imag": (TYPES, -3, 3),
    "iscomplex": (TYPES, -3, 3),
    "isfinite": (TYPES, -3, 3),
    "isinf": (TYPES, -3, 3),
    "isnan": (TYPES, -3, 3),
    "isneginf": (REAL_TYPES, -3, 3),
    "isposinf": (REAL_TYPES, -3, 3),
    "isreal": (TYPES, -3, 3),
    "log": (TYPES, 0.1, 3),
    "log10": (TYPES, 0.1, 3),
    "log1p": (TYPES, -0.9, 3),
    "log2": (TYPES, 0.1, 3),
    "logical_not": (TYPES, -3, 3),
    "modf": (REAL_TYPES, -3, 3),
    "nan_to_num": (TYPES, -3, 3),
    "negative": (TYPES[:-2] + TYPES[-1:], -3, 3),
    "positive": (TYPES, -3, 3),
    "rad2deg": (REAL_TYPES, -3, 3),
    "real": (TYPES, -3, 3),
    "reciprocal": (TYPES, 0.5, 3),
    "rint": (TYPES, -3, 3),
    "round": (TYPES[:-2] + TYPES[-1:], -3, 3),
    "sign": (TYPES[:-2] + TYPES[-1:], -3, 3),
    "signbit": (REAL_TYPES, -3, 3),
    "sin": (TYPES, -3, 3),
    "sinc": (TYPES, -3, 3),
    "sinh": (TYPES, -3, 3),
    "sqrt": (TYPES, 0, 3),
    "square": (TYPES, -3, 3),
    "tan": (TYPES, -1, 1),
    "tanh": (TYPES, -3, 3),
    "trunc": (REAL_TYPES, -3, 3),
}


VALUES = Table(
    {
        name: [
            *(call(name, values(dtype, 2, 3, low=low, high=high)) for dtype in types),
            call(name, values(types[0], 0, 2), jit=True),
        ]
        for name, (types, low, high) in UNARY.items()
    }
)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    VALUES.check(name)


AT_SPECIAL_VALUES = Table(
    {
        name: call(name, SPECIAL)
        for name in [
            "abs",
            "ceil",
            "exp",
            "floor",
            "isfinite",
            "isinf",
            "isnan",
            "log",
            "log1p",
            "nan_to_num",
            "round",
            "sign",
            "signbit",
            "sin",
            "sqrt",
            "tanh",
            "trunc",
            "arctan",
            "sinh",
            "arcsinh",
            "reciprocal",
        ]
    }
)


@pytest.mark.parametrize("name", AT_SPECIAL_VALUES.rows)
def test_special_values(name: str) -> None:
    AT_SPECIAL_VALUES.check(name)


@pytest.mark.parametrize("name", ["sin", "sqrt", "floor", "abs", "round", "reciprocal", "arcsin"])
def test_python_numbers_stay_weak(name: str) -> None:
    def weak(x):
        return getattr(mnp, name)(x) * np.ones(2, BF16)

    assert mx.reference(lambda: weak(0.5))().dtype == BF16
    assert getattr(jnp, name)(0.5).weak_type


GRADIENTS = Table(
    {
        name: gradient(name, values(np.float32, 3, low=0.2, high=0.9))
        for name in [
            "abs",
            "arccos",
            "arcsin",
            "arcsinh",
            "arctan",
            "arctanh",
            "cbrt",
            "cos",
            "cosh",
            "deg2rad",
            "exp",
            "exp2",
            "expm1",
            "log10",
            "log1p",
            "log2",
            "reciprocal",
            "sin",
            "sinc",
            "sinh",
            "sqrt",
            "square",
            "tan",
            "tanh",
            "rad2deg",
            "nan_to_num",
        ]
    }
    | {"arccosh": gradient("arccosh", values(np.float32, 3, low=1.2, high=3))}
)


@pytest.mark.parametrize("name", GRADIENTS.rows)
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


CORNERED = ["arcsin", "arccos", "arcsinh", "arctan", "sinh", "sinc"]


@functools.cache
def slopes_in_corners() -> list[dict[str, Any]]:
    """Derivatives at 0, 1 and -1 by name, ours compiled and JAX's."""
    places = np.array([0.0, 1.0, -1.0], np.float32)

    def slopes(api: Any, namespace: Any) -> Callable[..., dict[str, Any]]:
        return lambda x: {
            name: api.vmap(api.grad(getattr(namespace, name)))(x) for name in CORNERED
        }

    ours = mx.jit(slopes(mx, mnp), compiler_options=QUICKLY)(places)
    return [ours, by_jax(slopes(jax, jnp), places)]


@pytest.mark.parametrize("name", CORNERED)
def test_derivative_where_the_composition_has_none(name: str) -> None:
    actual, expected = (each[name] for each in slopes_in_corners())
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@functools.cache
def second_slopes_at_ends() -> dict[str, Any]:
    """Second derivatives at -1, 0 and 1, by name: forward over reverse and reverse twice."""
    places = np.array([-1.0, 0.0, 1.0], np.float32)

    def both(name: str) -> Callable[[Any], Any]:
        slope = mx.grad(getattr(mnp, name))
        return lambda x: (mx.grad(slope)(x), mx.jvp(slope, (x,), (1.0,))[1])

    names = ["arcsin", "arccos", "arccosh", "arctanh"]
    return mx.jit(
        lambda x: {name: mx.vmap(both(name))(x) for name in names}, compiler_options=QUICKLY
    )(places)


INFINITELY_CURVED = {
    "arcsin": [-np.inf, 0, np.inf],
    "arccos": [np.inf, 0, -np.inf],
    "arccosh": [np.nan, np.nan, -np.inf],
    "arctanh": [-np.inf, 0, np.inf],
}


@pytest.mark.parametrize("name", INFINITELY_CURVED)
def test_second_derivatives_are_infinite_at_the_ends(name: str) -> None:
    for found in second_slopes_at_ends()[name]:
        np.testing.assert_array_equal(found, np.float32(INFINITELY_CURVED[name]))


def test_arccosh_is_nan_below_1_with_its_derivative() -> None:
    x = np.float32([0.999, 0, -0.5, -1, -2, -5000, -1e10, -3e38, -np.inf])
    for run in (mx.reference, functools.partial(mx.jit, compiler_options=QUICKLY)):
        value, slope = run(lambda x: (mnp.arccosh(x), mx.vmap(mx.grad(mnp.arccosh))(x)))(x)
        assert np.isnan(value).all(), value
        assert np.isnan(slope).all(), slope


def test_the_least_normal_numbers_are_their_own_sines() -> None:
    x = np.float32([1.5, -1.5]) * np.finfo(np.float32).smallest_normal
    for name in ("sinh", "arcsinh", "arcsin", "arctan", "arctanh"):
        np.testing.assert_array_equal(mx.jit(getattr(mnp, name))(x), x)


def test_sinc_is_0_at_integers_and_keeps_its_digits_next_to_them() -> None:
    x = np.float32([1, -2, 1e6, 3e38])
    np.testing.assert_array_equal(np.abs(mnp.sinc(x)), 0)
    next_to_42 = np.float32(-42.000004)
    expected = np.sin(np.pi * (np.float64(next_to_42) + 42)) / (np.pi * np.float64(next_to_42))
    np.testing.assert_allclose(mnp.sinc(next_to_42), expected, rtol=1e-6)


def test_modf_of_infinities_and_of_negative_integers() -> None:
    x = np.float32([-2, 2, np.inf, -np.inf, -2.5, np.nan, -0.0])
    for actual, expected in zip(mnp.modf(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))
    assert mx.grad(lambda x: mnp.modf(x)[0])(-2.0) == 1


def test_round_of_large_numbers_and_to_tens() -> None:
    large = np.float32([3e38, -1e37])
    np.testing.assert_array_equal(mnp.round(large, 2), large)
    np.testing.assert_array_equal(
        mnp.round(np.float32([1234567, 25, -35]), -1), np.float32([1234570, 20, -40])
    )


def test_higher_derivatives_of_sinc_at_zero() -> None:
    second = mx.grad(mx.grad(mnp.sinc))(0.0)
    np.testing.assert_allclose(second, -(np.pi**2) / 3, rtol=1e-6)


@pytest.mark.parametrize("name", ["sinh", "arcsinh", "arccosh", "arctanh", "arcsin", "arctan"])
def test_accuracy_over_the_range(name: str) -> None:
    ranges = {
        "sinh": (-88, 88),
        "arcsinh": (-1e38, 1e38),
        "arccosh": (1, 3e38),
        "arctanh": (-1, 1),
        "arcsin": (-1, 1),
        "arctan": (-1e10, 1e10),
    }
    low, high = ranges[name]
    near = np.float32(1 if low == 1 else 0) + np.float32(10.0) ** np.arange(-6, 0, dtype=np.float32)
    spread = np.linspace(low, high, 50, dtype=np.float32)
    x = np.concatenate([near, spread[(spread >= low) & (spread <= high)]])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    actual = mx.reference(getattr(mnp, name))(x)
    np.testing.assert_allclose(actual, expected, rtol=6 * np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    "name", ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sinh"]
)
def test_complex_functions_against_numpy(name: str) -> None:
    parts = np.array([-2.0, -0.5, 0.3, 1.5])
    z = (parts[:, None] + 1j * parts).astype(np.complex64)
    expected = getattr(np, name)(z.astype(np.complex128)).astype(np.complex64)
    assert_close(mx.reference(getattr(mnp, name))(z), expected, 16)


CLIPS = {
    "numbers": ((0, 1), {}),
    "above": ((None, 1.5), {}),
    "below": ((), {"min": -1}),
    "array": ((np.float32([0, 1, 2]), 2), {}),
}
CLIPPED = Table(
    {
        key: [
            call("clip", values(dtype, 2, 3), *bounds, **named)
            for dtype in (np.float32, np.int32, BF16)
        ]
        for key, (bounds, named) in CLIPS.items()
    }
)


@pytest.mark.parametrize("bounds", CLIPS)
def test_clip(bounds: str) -> None:
    CLIPPED.check(bounds)


ROUNDED = Table(
    {
        decimals: [
            call("round", values(dtype, 5, low=-30, high=30), decimals)
            for dtype in (np.float32, np.float16, np.complex64)
        ]
        for decimals in [0, 1, 2, -1]
    }
)


@pytest.mark.parametrize("decimals", ROUNDED.rows)
def test_round_to_decimals(decimals: int) -> None:
    ROUNDED.check(decimals)


def test_nan_to_num_with_numbers() -> None:
    check(call("nan_to_num", SPECIAL, nan=1.0, posinf=2.0, neginf=-2.0, jit=True))


def test_complex_numbers_are_refused() -> None:
    for name in ("fabs", "signbit"):
        with pytest.raises(TypeError, match=f"{name}: .*complex"):
            mx.reference(getattr(mnp, name))(np.complex64(1j))
    with pytest.raises(TypeError, match="clip: complex numbers have no order"):
        mx.reference(lambda x: mnp.clip(x, 0, 1))(np.complex64(1j))


WHOLE_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


@pytest.mark.parametrize("dtype", WHOLE_TYPES)
def test_divisors_and_multiples_of_all_signs(dtype: Any) -> None:
    """Those of the least integer too, of which JAX's loop does not end."""
    limits = np.iinfo(dtype)
    wanted = [*range(-13, 14), 60, 100, -64, limits.max, limits.max - 1, limits.min, limits.min + 1]
    fitting = np.array([each for each in wanted if limits.min <= each <= limits.max], dtype)
    x, y = fitting[:, None], fitting
    for name in ("gcd", "lcm"):
        function = getattr(mnp, name)
        for evaluate in (mx.jit, mx.reference, lambda f: f, lambda f: mx.vmap(f, (0, None))):
            found = np.asarray(evaluate(function)(x, y))
            np.testing.assert_array_equal(found, getattr(np, name)(x, y), strict=True)


def test_divisors_of_no_and_other_numbers() -> None:
    assert mnp.gcd(np.zeros((0, 3), np.int32), 6).shape == (0, 3)
    assert mnp.lcm(np.int8(4), x2=6).dtype == np.int8
    for wrong in (1.5, True, 2j):
        with pytest.raises(mx.ShapeError, match="gcd: the operands must be integers"):
            mnp.gcd(wrong, wrong)


@pytest.mark.parametrize("dtype", WHOLE_TYPES)
def test_even_powers_beyond_the_width_are_zero(dtype: Any) -> None:
    x, y = np.array([[0], [2], [6]], dtype), np.array([0, 1, 63, 64, 65, 100, 127], dtype)
    for evaluate in (mx.jit, mx.reference, lambda f: f):
        found = np.asarray(evaluate(mnp.power)(x, y))
        np.testing.assert_array_equal(found, np.power(x, y), strict=True)
    found = np.asarray(mx.jit(lambda x, y: x**y)(x, y))
    np.testing.assert_array_equal(found, np.power(x, y), strict=True)


def test_nan_wins_among_complex_numbers() -> None:
    """As in NumPy: also where one part alone is NaN; of two the first operand's."""
    parts = (0.0, 1.0, -2.5, np.inf, np.nan)
    every = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    for name in ("maximum", "minimum"):
        expected = getattr(np, name)(every[:, None], every)
        for evaluate in (mx.jit, mx.reference, lambda f: f):
            found = np.asarray(evaluate(getattr(mnp, name))(every[:, None], every))
            np.testing.assert_array_equal(found, expected)
    rows = np.array([[1 + 2j, complex(0, np.nan), 3], [5, 1, complex(7, np.nan)]], np.complex64)
    for name in ("max", "min", "ptp", "argmax", "argmin"):
        function = getattr(mnp, name)
        for evaluate in (mx.jit, mx.reference):
            found = np.asarray(evaluate(lambda x, f=function: f(x, axis=1))(rows))
            np.testing.assert_array_equal(found, getattr(np, name)(rows, axis=1))
