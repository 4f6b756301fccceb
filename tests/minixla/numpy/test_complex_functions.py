"""Functions of complex numbers: special values of C99's Annex G, sides of cuts, derivatives."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla_ops.elementwise.numpy_special import with_parts
from tests.harness import QUICKLY
from tests.oracles.compare import assert_same

INF, NAN, PI = math.inf, math.nan, math.pi

#: Operands and results of Annex G, as parts. Results for conjugates are conjugates.
SPECIAL_VALUES = {
    "arccos": [
        ((0.0, 0.0), (PI / 2, -0.0)),
        ((-0.0, 0.0), (PI / 2, -0.0)),
        ((0.0, NAN), (PI / 2, NAN)),
        ((-0.0, NAN), (PI / 2, NAN)),
        ((2.5, INF), (PI / 2, -INF)),
        ((2.5, NAN), (NAN, NAN)),
        ((-INF, 2.5), (PI, -INF)),
        ((INF, 2.5), (0.0, -INF)),
        ((-INF, INF), (3 * PI / 4, -INF)),
        ((INF, INF), (PI / 4, -INF)),
        ((INF, NAN), (NAN, INF)),
        ((-INF, NAN), (NAN, INF)),
        ((NAN, 2.5), (NAN, NAN)),
        ((NAN, INF), (NAN, -INF)),
        ((NAN, NAN), (NAN, NAN)),
        ((2.0, 0.0), (0.0, -math.acosh(2))),
        ((-2.0, 0.0), (PI, -math.acosh(2))),
    ],
    "arcsin": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((-0.0, 0.0), (-0.0, 0.0)),
        ((INF, 2.5), (PI / 2, INF)),
        ((2.5, INF), (0.0, INF)),
        ((INF, INF), (PI / 4, INF)),
        ((0.0, NAN), (0.0, NAN)),
        ((NAN, INF), (NAN, INF)),
        ((2.0, 0.0), (PI / 2, math.acosh(2))),
        ((-2.0, 0.0), (-PI / 2, math.acosh(2))),
    ],
    "arccosh": [
        ((0.0, 0.0), (0.0, PI / 2)),
        ((-0.0, 0.0), (0.0, PI / 2)),
        ((2.5, INF), (INF, PI / 2)),
        ((0.0, NAN), (NAN, PI / 2)),
        ((2.5, NAN), (NAN, NAN)),
        ((-INF, 2.5), (INF, PI)),
        ((INF, 2.5), (INF, 0.0)),
        ((-INF, INF), (INF, 3 * PI / 4)),
        ((INF, INF), (INF, PI / 4)),
        ((INF, NAN), (INF, NAN)),
        ((-INF, NAN), (INF, NAN)),
        ((NAN, 2.5), (NAN, NAN)),
        ((NAN, INF), (INF, NAN)),
        ((NAN, NAN), (NAN, NAN)),
        ((-2.0, 0.0), (math.acosh(2), PI)),
    ],
    "arcsinh": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((2.5, INF), (INF, PI / 2)),
        ((2.5, NAN), (NAN, NAN)),
        ((INF, 2.5), (INF, 0.0)),
        ((INF, INF), (INF, PI / 4)),
        ((INF, NAN), (INF, NAN)),
        ((NAN, 0.0), (NAN, 0.0)),
        ((NAN, 2.5), (NAN, NAN)),
        ((NAN, INF), (INF, NAN)),
        ((NAN, NAN), (NAN, NAN)),
        ((0.0, 2.0), (math.acosh(2), PI / 2)),
        ((-0.0, 2.0), (-math.acosh(2), PI / 2)),
    ],
    "arctanh": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((0.0, NAN), (0.0, NAN)),
        ((1.0, 0.0), (INF, 0.0)),
        ((2.5, INF), (0.0, PI / 2)),
        ((2.5, NAN), (NAN, NAN)),
        ((INF, 2.5), (0.0, PI / 2)),
        ((INF, INF), (0.0, PI / 2)),
        ((INF, NAN), (0.0, NAN)),
        ((NAN, 2.5), (NAN, NAN)),
        ((NAN, INF), (0.0, PI / 2)),
        ((NAN, NAN), (NAN, NAN)),
        ((2.0, 0.0), (math.atanh(0.5), PI / 2)),
        ((-2.0, 0.0), (-math.atanh(0.5), PI / 2)),
    ],
    "arctan": [
        ((0.0, 1.0), (0.0, INF)),
        ((0.0, 2.0), (PI / 2, math.atanh(0.5))),
        ((-0.0, 2.0), (-PI / 2, math.atanh(0.5))),
        ((INF, 2.5), (PI / 2, 0.0)),
        ((NAN, 0.0), (NAN, 0.0)),
    ],
    "cosh": [
        ((0.0, 0.0), (1.0, 0.0)),
        ((0.0, INF), (NAN, 0.0)),
        ((0.0, NAN), (NAN, 0.0)),
        ((2.5, INF), (NAN, NAN)),
        ((INF, 0.0), (INF, 0.0)),
        ((INF, 2.5), (-INF, INF)),
        ((INF, INF), (INF, NAN)),
        ((INF, NAN), (INF, NAN)),
        ((NAN, 0.0), (NAN, 0.0)),
        ((NAN, 2.5), (NAN, NAN)),
    ],
    "sinh": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((-0.0, 0.0), (-0.0, 0.0)),
        ((0.0, INF), (0.0, NAN)),
        ((0.0, NAN), (0.0, NAN)),
        ((2.5, INF), (NAN, NAN)),
        ((INF, 0.0), (INF, 0.0)),
        ((INF, 2.5), (-INF, INF)),
        ((INF, INF), (INF, NAN)),
        ((INF, NAN), (INF, NAN)),
        ((NAN, 0.0), (NAN, 0.0)),
        ((NAN, 2.5), (NAN, NAN)),
    ],
    "exp2": [
        ((0.0, -0.0), (1.0, -0.0)),
        ((2.5, INF), (NAN, NAN)),
        ((INF, 0.0), (INF, 0.0)),
        ((-INF, 2.5), (-0.0, 0.0)),
        ((INF, INF), (INF, NAN)),
        ((NAN, 0.0), (NAN, 0.0)),
    ],
    "square": [
        ((INF, 0.0), (INF, NAN)),
        ((0.0, INF), (-INF, NAN)),
        ((INF, 1e38), (INF, INF)),
        ((-1.0, 1.0), (0.0, -2.0)),
        ((1e30, -1e30), (0.0, -INF)),
    ],
}


def function(name: str) -> Callable[..., Any]:
    return getattr(mnp, name)


def parts(pairs: Any) -> np.ndarray:
    real, imag = np.array(pairs, np.float32).T
    return with_parts(real, imag)


OPERANDS = {name: parts([given for given, _ in rows]) for name, rows in SPECIAL_VALUES.items()}


@cache
def special_results() -> list[dict[str, Any]]:
    """Results for the operands and for their conjugates, in NumPy and compiled."""

    def everything(operands: dict[str, Any]) -> dict[str, Any]:
        return {name: function(name)(z) for name, z in operands.items()}

    both = {name: np.concatenate([z, np.conj(z)]) for name, z in OPERANDS.items()}
    runs = mx.reference(everything), mx.jit(everything, compiler_options=QUICKLY)
    return [run(both) for run in runs]


@pytest.mark.parametrize("name", SPECIAL_VALUES)
def test_special_values_are_those_of_annex_g(name: str) -> None:
    expected = parts([result for _, result in SPECIAL_VALUES[name]])
    expected = np.concatenate([expected, np.conj(expected)])
    operands = np.concatenate([OPERANDS[name], np.conj(OPERANDS[name])])
    # Beside NaN the sign of a zero or infinity is open.
    is_open = np.isnan(expected)
    for found in special_results():
        actual, wanted = (
            np.where(is_open, with_parts(np.abs(np.real(z)), np.abs(np.imag(z))), z)
            for z in (np.asarray(found[name]), expected)
        )
        assert_same(actual, wanted, ulp=3, inputs=[operands], name=name)


CANCELLING = [
    # Next to poles and below 0, where formulas for the right half-plane cancel.
    ("arctanh", -0.999 + 0.001j),
    ("arctanh", -0.9999 + 1e-4j),
    ("arctanh", 1 + 1e-30j),
    ("arctan", 0.999999999j),
    ("arctan", 1e-20 + 1j),
    ("arcsin", 1 + 1e-30j),
    ("arccos", 1 + 1e-30j),
    ("arccosh", -1 + 1e-10j),
    ("arcsin", 1e-30 + 1e-30j),
    ("arcsinh", 1e200 + 1e-200j),
    ("arccosh", -1e300 + 1e300j),
    ("square", 1 + (1 + 2**-30) * 1j),
    ("sinh", 710 + 1e-5j),
]


def test_values_next_to_poles_keep_their_digits() -> None:
    truths = [getattr(np, name)(np.clongdouble(z)).astype(np.complex128) for name, z in CANCELLING]
    with jax.enable_x64(True):
        found = mx.jit(
            lambda zs: [function(name)(z) for (name, _), z in zip(CANCELLING, zs, strict=True)],
            compiler_options=QUICKLY,
        )([np.complex128(z) for _, z in CANCELLING])
    for (name, z), actual, truth in zip(CANCELLING, found, truths, strict=True):
        assert_same(np.asarray(actual), np.asarray(truth), ulp=5, name=f"{name}({z})")


def slope_of_arcsin(z: complex) -> complex:
    # 1 - z would lose the sign of a zero.
    low, high = complex(1 - z.real, -z.imag), complex(1 + z.real, z.imag)
    return 1 / (cmath.sqrt(low) * cmath.sqrt(high))


def slope_of_arccosh(z: complex) -> complex:
    low, high = complex(z.real - 1, z.imag), complex(z.real + 1, z.imag)
    return 1 / (cmath.sqrt(low) * cmath.sqrt(high))


DERIVATIVES = {
    "arcsin": slope_of_arcsin,
    "arccos": lambda z: -slope_of_arcsin(z),
    "arccosh": slope_of_arccosh,
    "arcsinh": lambda z: slope_of_arcsin(complex(-z.imag, z.real)),
    "arctan": lambda z: 1 / (1 + z * z),
    "arctanh": lambda z: 1 / (1 - z * z),
    "sinh": cmath.cosh,
    "exp2": lambda z: math.log(2) * 2**z,
    "square": lambda z: 2 * z,
}
#: Points of all quadrants, and of both sides of the cuts.
POINTS = [
    *[complex(a, b) for a in (-3.0, -0.4, 0.7, 2.0) for b in (-1.5, 0.3)],
    *[complex(a, b) for a in (-2.0, 2.0) for b in (-0.0, 0.0)],
    *[complex(a, b) for a in (-0.0, 0.0) for b in (-2.0, 2.0)],
]


@cache
def slopes() -> dict[str, Any]:
    def of_each(z: Any, one: Any) -> dict[str, Any]:
        return {name: mx.jvp(function(name), (z,), (one,))[1] for name in DERIVATIVES}

    points = np.array(POINTS, np.complex64)
    return mx.jit(of_each, compiler_options=QUICKLY)(points, np.ones_like(points))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_right_on_both_sides_of_cuts(name: str) -> None:
    expected = [DERIVATIVES[name](z) for z in POINTS]
    np.testing.assert_allclose(slopes()[name], expected, rtol=2e-6, atol=2e-7)
