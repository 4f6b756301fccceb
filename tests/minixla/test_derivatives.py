"""Functions of one number and two derivatives against values of higher precision."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from tests.harness import compiled_rows
from tests.minixla.derivative_rows import (
    FUNCTIONS,
    TYPES,
    bounds,
    measured,
    truth,
    values,
)

#: Functions whose usual formulas lose digits.
SOME = "expm1 tanh sigmoid silu mish gelu gelu_tanh soft_sign squareplus selu erf logit hypot"
SOME += " logaddexp arcsinh i0 i1 xlogy xlog1py spence boxcox expi log_ndtr sqrt power_3"
FULL = [(name, kind) for name in FUNCTIONS for kind in ("f32", "f64")]
FULL += [(name, kind) for name in SOME.split() for kind in ("f16", "bf16")]


@pytest.mark.parametrize("name", SOME.split())
def test_values_and_derivatives(name: str) -> None:
    check(name, "f32")


@pytest.mark.full
@pytest.mark.parametrize("name, kind", FULL)
def test_values_and_derivatives_of_all_types(name: str, kind: str) -> None:
    check(name, kind)


def check(name: str, kind: str) -> None:
    found = [float(each.max()) for each in measured(name, kind)]
    assert all(map(float.__le__, found, bounds()[name, kind])), found


def test_every_function_has_a_truth_and_bounds() -> None:
    assert {*FUNCTIONS} == {*truth()}
    assert {*bounds()} == {(name, kind) for name in FUNCTIONS for kind in TYPES}


S, N = mx.scipy.special, mx.nn
#: Functions at points where the derivative is infinite or one-sided, and the expected result.
ENDS = {
    "sqrt at 0": (mx.numpy.sqrt, 0.0, np.inf),
    "cbrt at 0": (mx.numpy.cbrt, 0.0, np.inf),
    "log at 0": (mx.numpy.log, 0.0, np.inf),
    "arcsin at 1": (mx.numpy.arcsin, 1.0, np.inf),
    "arcsin at -1": (mx.numpy.arcsin, -1.0, np.inf),
    "arccos at 1": (mx.numpy.arccos, 1.0, -np.inf),
    "arccosh at 1": (mx.numpy.arccosh, 1.0, np.inf),
    "arctanh at 1": (mx.numpy.arctanh, 1.0, np.inf),
    "entr at 0": (S.entr, 0.0, np.inf),
    "xlogy at 0, 0": (lambda x: S.xlogy(x, 0.0), 0.0, -np.inf),
    "hypot at 0": (lambda x: mx.numpy.hypot(x, 0.0), 0.0, 0.0),
    "spence at 1": (S.spence, 1.0, -1.0),
    "i0e at 0": (S.i0e, 0.0, 0.0),
    "i1e at 0": (S.i1e, 0.0, 0.5),
    "gelu of the largest": (lambda x: N.gelu(x, False), 3e38, 1.0),
    "gelu of the least": (lambda x: N.gelu(x, True), -3e38, 0.0),
    "tanh at infinity": (mx.numpy.tanh, np.inf, 0.0),
    "sigmoid at infinity": (N.sigmoid, -np.inf, 0.0),
    "softplus at infinity": (N.softplus, np.inf, 1.0),
    "squareplus of the largest": (N.squareplus, 3e38, 1.0),
    "power 0 at 0": (lambda x: x**0, 0.0, 0.0),
    "power 1 at 0": (lambda x: mx.numpy.power(x, 1.0), 0.0, 1.0),
    "power 2 at 0": (lambda x: mx.numpy.power(x, 2.0), 0.0, 0.0),
    "sinc at 0": (mx.numpy.sinc, 0.0, 0.0),
    "logaddexp of -inf": (lambda x: mx.numpy.logaddexp(x, 0.0), -np.inf, 0.0),
}


@functools.cache
def derivatives_at_ends() -> Any:
    """Return the derivatives in both modes."""
    rows: dict[Any, Any] = {}
    for name, (function, point, _) in ENDS.items():

        def pushed(x: Any, function: Any = function) -> Any:
            return mx.jvp(function, (x,), (np.float32(1),))[1]

        for mode, derivative in (("reverse", mx.grad(function)), ("forward", pushed)):
            rows[name, mode] = derivative, (np.float32(point),)
    return compiled_rows(rows)


@pytest.mark.parametrize("name", ENDS)
def test_derivatives_where_they_are_infinite_or_one_sided(name: str) -> None:
    for mode in ("reverse", "forward"):
        found = derivatives_at_ends()((name, mode))
        np.testing.assert_allclose(found, ENDS[name][2], rtol=1e-6)


def test_a_product_of_0_with_a_logarithm_is_constant() -> None:
    for function, point in ((S.xlogy, 0.0), (S.xlog1py, -1.0)):
        assert mx.grad(function, 1)(0.0, point) == function(0.0, point) == 0
        assert np.isnan(function(0.0, np.nan)) and function(2, 0) == (-np.inf if point == 0 else 0)


def test_derivatives_of_bessel_functions_of_every_order() -> None:
    function, found = S.i1, []
    for _ in range(5):
        function = mx.grad(function)
        found.append(float(function(0.0)))
    # x / 2 + x**3 / 16 + x**5 / 384 + ...
    np.testing.assert_allclose(found, [0.5, 0, 3 / 8, 0, 5 / 16], rtol=1e-6)


def test_reference_and_engine_agree() -> None:
    x = np.float32([-6, -1, -0.5, 0, 0.5, 1, 6])
    for name in ("i0", "gelu", "tanh", "squareplus", "mish"):
        one, other = mx.reference(lambda x, name=name: values(name, x))(x), values(name, x)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_wrong_derivative_is_far() -> None:
    def wrong(function):
        return lambda x: [each * (1 + 1e-4) for each in mx.jit(function)(x)]

    assert measured("tanh", "f32", wrong)[1].max() > 500
    with jax.enable_x64(True):
        assert measured("i0", "f64", wrong)[2].max() > 1e10
