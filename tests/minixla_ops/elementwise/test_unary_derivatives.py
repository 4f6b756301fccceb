"""Derivatives of element-wise operations of one operand, against finite differences and JAX."""

import functools

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from tests.harness import (
    DerivativesTogether,
    check_derivatives,
    compiled_together,
)
from tests.oracles.values import random_values

JAX_FUNCTIONS = {
    "abs": lax.abs,
    "cbrt": lax.cbrt,
    "cos": lax.cos,
    "cosh": lax.cosh,
    "erf": lax.erf,
    "exp": lax.exp,
    "expm1": lax.expm1,
    "imag": lax.imag,
    "log": lax.log,
    "log1p": lax.log1p,
    "logistic": lax.logistic,
    "neg": lax.neg,
    "real": lax.real,
    "rsqrt": lax.rsqrt,
    "sin": lax.sin,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
}
HOLOMORPHIC = [
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "logistic",
    "neg",
    "rsqrt",
    "sin",
    "sqrt",
    "tan",
    "tanh",
]
POSITIVE = ("log", "rsqrt", "sqrt")
PIECEWISE_CONSTANT = {
    "ceil": lax.ceil,
    "floor": lax.floor,
    "round": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "sign": lax.sign,
}


def rows_of(functions, operand_of):
    """Rows of `DerivativesTogether`: functions of JAX by the names of ours."""
    return DerivativesTogether(
        {
            name: (getattr(ops, name), [operand_of(name)], function, {})
            for name, function in functions.items()
        }
    )


# Away from 0, where abs has a kink and cbrt no derivative.
NEAR_ONE = random_values(np.float64, (2, 3), 1, 0.3, 0.9)
REAL = rows_of(
    {n: function for n, function in JAX_FUNCTIONS.items() if n not in ("imag", "real")},
    lambda name: NEAR_ONE * ([1, 1, 1] if name in POSITIVE else [1, -1, 1]),
)
COMPLEX = rows_of(
    {name: JAX_FUNCTIONS[name] for name in ["abs", "imag", "real", *HOLOMORPHIC]},
    lambda name: random_values(np.complex128, (5,), 2, 0.3, 0.9),
)
CONSTANT = rows_of(PIECEWISE_CONSTANT, lambda name: np.array([-1.3, 0.2, 2.4]))


@pytest.mark.parametrize("name", REAL.rows)
def test_of_real_numbers(name):
    REAL.check(name)


@pytest.mark.parametrize("name", COMPLEX.rows)
def test_of_complex_numbers(name):
    COMPLEX.check(name)


def test_cube_root_of_complex_numbers():
    # JAX has none.
    check_derivatives(ops.cbrt, [random_values(np.complex128, (5,), 3, 0.3, 0.9)])


def test_sign_of_complex_numbers():
    # JAX calls it piecewise constant, which z / |z| is not.
    check_derivatives(ops.sign, [random_values(np.complex128, (5,), 4, 0.3, 0.9)])


@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts_of_real_numbers(name):
    check_derivatives(getattr(ops, name), [random_values(np.float64, (3,), 5)])


@pytest.mark.parametrize("name", CONSTANT.rows)
def test_piecewise_constant(name):
    CONSTANT.check(name)


def test_reasons_for_zero_derivatives():
    constant = {
        o.name for o in REGISTRY.values() if o.zero_derivative == "it is piecewise constant"
    }
    assert {"Ceil", "Floor", "RoundNearestAfz", "RoundNearestEven"} <= constant
    for name in ("Clz", "IsFinite", "Not", "PopulationCount"):
        assert REGISTRY[name].zero_derivative


def logistic_slope(x):
    return 1 / (1 + np.exp(-x)) / (1 + np.exp(x))


def erf_slope(x):
    return 2 / np.sqrt(np.pi) * np.exp(-x * x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "slope"), [("logistic", logistic_slope), ("erf", erf_slope)])
def test_slopes_of_narrow_types_are_rounded_once(name, slope, kind):
    x = np.arange(2**16, dtype=np.uint16).view(kind)
    x = x[np.abs(x.astype(np.float64)) < 9]
    wanted, limits = slope(x.astype(np.float64)), ml_dtypes.finfo(kind)
    bound = 0.51 * float(limits.eps) * wanted + float(limits.smallest_normal)
    function = getattr(ops, name)
    derivatives = [mx.vmap(mx.grad(function)), lambda x: mx.jvp(function, (x,), (x * 0 + 1,))[1]]
    for evaluate in (mx.reference, mx.jit):
        for found in evaluate(lambda x: [each(x) for each in derivatives])(x):
            assert found.dtype == kind
            assert (np.abs(np.asarray(found).astype(np.float64) - wanted) <= bound).all()


SPECIAL_POINTS = {
    # Where the derivative is a convention, infinite or undefined.
    "abs": [0.0, -0.0, np.inf, -np.inf, np.nan],
    "cbrt": [0.0, -0.0, np.inf],
    "cos": [np.inf, 0.0],
    "cosh": [np.inf, -np.inf],
    "erf": [np.inf, -np.inf, 0.0, 30.0],
    "exp": [np.inf, -np.inf, np.nan],
    "expm1": [np.inf, -np.inf],
    "log": [0.0, -0.0, np.inf, -1.0],
    "log1p": [-1.0, np.inf, -2.0],
    "logistic": [np.inf, -np.inf, 800.0, -800.0],
    "neg": [np.inf, np.nan],
    "rsqrt": [0.0, np.inf, -1.0],
    "sign": [0.0, np.nan],
    "sin": [np.inf, 0.0],
    "sqrt": [0.0, -0.0, np.inf, -1.0],
    "tan": [np.inf, 0.0],
    "tanh": [np.inf, -np.inf, 400.0],
}


def twice(of, function):
    """The second derivatives, forwards and in reverse."""

    def forward(x):
        return of.jvp(function, (x,), (np.ones(x.shape),))[1]

    def reverse(x):
        return of.vjp(function, x)[1](np.ones(x.shape))[0]

    return lambda x: (
        of.jvp(forward, (x,), (np.ones(x.shape),))[1],
        of.vjp(reverse, x)[1](np.ones(x.shape))[0],
    )


@functools.cache
def derivatives_by_jax():
    """From a name to JAX's first derivative at the special points and the second ones."""

    def derivatives(name):
        function = JAX_FUNCTIONS.get(name) or PIECEWISE_CONSTANT[name]

        def of(points):
            x = points[name]
            return jax.jvp(function, (x,), (np.ones(x.shape),))[1], twice(jax, function)(x)

        return of

    points = {name: np.array(values) for name, values in SPECIAL_POINTS.items()}
    with jax.enable_x64(True):
        return compiled_together({n: derivatives(n) for n in SPECIAL_POINTS}, points, jit=jax.jit)


@pytest.mark.parametrize("name", SPECIAL_POINTS)
def test_special_points_as_jax_has_them(name):
    points = np.array(SPECIAL_POINTS[name])
    with jax.enable_x64(True):
        expected, _ = derivatives_by_jax()(name)
        actual = mx.reference(
            lambda x: mx.jvp(getattr(ops, name), (x,), (np.ones_like(points),))[1]
        )
        np.testing.assert_array_equal(actual(points), expected)
        pulled = mx.reference(lambda x: mx.vjp(getattr(ops, name), x)[1](np.ones_like(points))[0])
        np.testing.assert_array_equal(pulled(points), expected)


@pytest.mark.parametrize("name", SPECIAL_POINTS)
def test_second_derivatives_at_special_points_as_jax_has_them(name):
    points = np.array(SPECIAL_POINTS[name])
    with jax.enable_x64(True):
        _, expected = derivatives_by_jax()(name)
        actual = mx.reference(twice(mx, getattr(ops, name)))(points)
    if name == "erf":  # NaN in JAX where the square is infinite; the limit is 0
        expected = np.nan_to_num(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_modulus_and_sign_at_complex_zero():
    zero = np.zeros(2, np.complex128)
    direction = np.full(2, 3 - 1j)
    with jax.enable_x64(True):
        expected = jax.jvp(lax.abs, (zero,), (direction,))[1]
        for function in (ops.abs, ops.sign):
            slope = mx.reference(lambda x, f=function: mx.jvp(f, (x,), (direction,))[1])(zero)
            np.testing.assert_array_equal(slope, np.zeros_like(slope))
            np.testing.assert_array_equal(np.real(slope), expected)


def test_gradient_of_a_modulus_points_as_in_jax():
    operand = np.array([3 + 4j, -1 + 0.5j])

    def total(absolute, add):
        return lambda z: add(absolute(z))

    with jax.enable_x64(True):
        expected = jax.grad(total(lax.abs, lambda x: x.sum()))(operand)
        weights = np.ones(2)
        actual = mx.reference(lambda z: mx.vjp(ops.abs, z)[1](weights)[0])(operand)
    np.testing.assert_allclose(actual, expected, rtol=1e-15)


EXTREMES = [
    # Op, operands, the derivative's values in another form.
    ("cosh", [1e-300, 1e-9, 5.0, 709.9], np.sinh),
    ("erf", [1e-300, 1e-9, 5.0, 26.0], lambda x: np.exp(-x * x) * (2 / np.sqrt(np.pi))),
    ("expm1", [-5.0, 1e-9, 5.0, 709.0], np.exp),
    ("log1p", [-1 + 1e-16, 1e-300, 1e300], lambda x: 1 / (1 + x)),
    ("tanh", [1e-300, 1e-9, 5.0], lambda x: 1 / np.cosh(x) ** 2),
]


@pytest.mark.parametrize(("name", "operands", "derivative"), EXTREMES)
def test_derivatives_neither_overflow_nor_cancel(name, operands, derivative):
    points = np.array(operands)
    with jax.enable_x64(True):
        ones = np.ones_like(points)
        slope = mx.reference(lambda x: mx.jvp(getattr(ops, name), (x,), (ones,))[1])(points)
    np.testing.assert_allclose(slope, derivative(points), rtol=1e-12)


@pytest.mark.parametrize("way", [mx.reference, mx.jit])
def test_second_derivative_of_cosh_overflows_where_cosh_does(way):
    slope = mx.grad(ops.cosh)
    both = way(lambda x: (mx.grad(slope)(x), mx.jvp(slope, (x,), (np.ones_like(x),))[1]))
    with jax.enable_x64(True):
        for x in np.array([710.4, -710.4, 709.9]):
            second = both(x)
            # e ** x of an x near 710 multiplies its rounding by 710.
            np.testing.assert_allclose(second, [np.cosh(x)] * 2, rtol=1e-12)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_accuracy_is_asked_of_the_derivative_too(name):
    graph = mx.make_graph(lambda x: mx.jvp(lambda y: getattr(ops, name)(y, "HIGHEST"), (x,), (x,)))(
        np.float32(1)
    )
    assert graph.stablehlo().count("<HIGHEST>") == 2
