"""Special functions: values against the truth and SciPy, derivatives, the ends of domains."""

from __future__ import annotations

import itertools
import warnings
from functools import cache
from typing import Any

import jax
import jax.scipy.special as of_jax
import numpy as np
import pytest
import scipy.special as of_scipy

import minixla as mx
from tests.harness import QUICKLY, by_jax, compiled_rows
from tests.minixla.scipy.accuracy import BOUNDS, SLACK, arguments, errors, known

special = mx.scipy.special
DRAWN = np.random.default_rng(0)
_TWO = DRAWN.uniform(0.2, 9, (2, 6))

#: Functions of our own and operands at which they have derivatives.
OWN = {
    "gamma": [DRAWN.uniform(-4.5, 12, 6)],
    "gammaln": [DRAWN.uniform(0.1, 6, 6)],
    "factorial": [DRAWN.uniform(0, 6, 6)],
    "logit": [DRAWN.uniform(0.1, 0.9, 6)],
    "erfc": [DRAWN.uniform(-3, 9, 6)],
    "erfcx": [DRAWN.uniform(-3, 9, 6)],
    "ndtr": [DRAWN.uniform(-9, 3, 6)],
    "log_ndtr": [DRAWN.uniform(-9, 5, 6)],
    "erfinv": [DRAWN.uniform(-0.9, 0.9, 6)],
    "expi": [DRAWN.uniform(-6, 60, 6)],
    "exp1": [DRAWN.uniform(0.1, 6, 6)],
    "beta": [*_TWO],
    "betaln": [*_TWO],
    "gammainc": [*_TWO],
    "gammaincc": [*_TWO],
    "rel_entr": [*_TWO],
    "entr": [_TWO[0]],
    "kl_div": [*_TWO],
    "betainc": [*_TWO, DRAWN.uniform(0.1, 0.9, 6)],
    "zeta": [1 + _TWO[0], _TWO[1]],
    "expn": [np.array([0, 1, 2, 3, 4, 7]), DRAWN.uniform(0.1, 5, 6)],
    "polygamma": [np.array([0, 1, 2, 3, 4, 7]), DRAWN.uniform(0.1, 5, 6)],
}
#: Their first operands are whole numbers, by which they have no derivatives.
_OF_ORDERS = ("expn", "polygamma")
_EDGES = [-np.inf, -3, -2.5, -1, -0.5, -0.0, 0.0, 1e-30, 0.5, 1, 2, 3.5, 50, 1e5, np.inf, np.nan]


@cache
def _found(kind: str) -> Any:
    with jax.enable_x64(kind == "float64"):
        names = BOUNDS if kind == "float64" else OWN
        return compiled_rows(
            {name: (getattr(special, name), arguments(name, kind)) for name in names}
        )


def _check_bound(name: str, kind: str) -> None:
    with jax.enable_x64(kind == "float64"):
        found = errors(name, _found(kind)(name), kind)
    bound = SLACK * BOUNDS[name][kind == "float64"]
    at = int(found.argmax())
    given = [each[at] for each in known()[name][0]]
    assert found[at] <= bound, f"{name}{tuple(given)}: {found[at]:.3g} ULP"


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_bounds(name: str) -> None:
    _check_bound(name, "float64")


@pytest.mark.full
@pytest.mark.parametrize("name", OWN)
def test_errors_are_within_bounds_in_f32(name: str) -> None:
    _check_bound(name, "float32")


@pytest.mark.full
@pytest.mark.parametrize("name", BOUNDS)
def test_the_reference_is_as_near(name: str) -> None:
    with jax.enable_x64(True):
        found = mx.reference(getattr(special, name))(*arguments(name, "float64"))
    assert errors(name, found, "float64").max() <= 2 * BOUNDS[name][1] + 5


def _edge_operands(count: int) -> list[np.ndarray]:
    rows = list(itertools.product(_EDGES if count < 3 else _EDGES[1::2], repeat=count))
    return [np.array(each, float) for each in zip(*rows, strict=True)]


def _ends(name: str) -> list[np.ndarray]:
    """Return the operands at which a function is compared with SciPy's."""
    operands = _edge_operands(len(OWN[name]))
    if name in _OF_ORDERS:
        is_order = (
            np.isfinite(operands[0]) & (operands[0] >= 0) & (operands[0] == np.trunc(operands[0]))
        )
        operands = [operands[0][is_order].astype(int), operands[1][is_order]]
    if name in ("zeta", "polygamma"):
        # SciPy has infinities at poles, where XLA's are NaN, and none for infinite exponents.
        is_inside = (operands[1] > 0) & (operands[0] < 1e5)
        is_inside &= (operands[0] > 1) | (name == "polygamma")
        operands = [each[is_inside] for each in operands]
    if name in ("beta", "betaln", "gammaln"):
        # At poles SciPy chooses signs; of two infinite numbers it gives NaN, not the limit.
        is_inside = np.all([each > 0 for each in operands], axis=0)
        is_inside &= ~np.all([each == np.inf for each in operands], axis=0)
        operands = [each[is_inside] for each in operands]
    return operands


@cache
def _found_at_ends() -> Any:
    return compiled_rows({name: (getattr(special, name), _ends(name)) for name in OWN})


@pytest.mark.parametrize("name", OWN)
def test_ends_of_the_domain_are_scipys(name: str) -> None:
    operands = _ends(name)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = np.asarray(_found_at_ends()(name))
        expected = getattr(of_scipy, name)(*operands)
    if name == "betaln":  # SciPy loses digits of differences of large logarithms
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def _slope(function: Any, operands: list[np.ndarray], at: int) -> tuple[Any, Any]:
    """The derivative by one operand in both modes."""

    def of_one(x: Any) -> Any:
        return function(*operands[:at], x, *operands[at + 1 :])

    x = operands[at]
    tangent = mx.jvp(of_one, (x,), (np.ones_like(x),))[1]
    return tangent, mx.grad(lambda x: of_one(x).sum())(x)


@cache
def _slopes() -> Any:
    rows: dict[Any, Any] = {}
    for name, operands in OWN.items():
        for at in range(name in _OF_ORDERS, len(operands)):
            function = getattr(special, name)
            rows[name, at] = (lambda *x, f=function, at=at: _slope(f, [*x], at)), operands
            steps = [1e-5 * (number == at) for number in range(len(operands))]
            for sign in (-1, 1):
                pairs = zip(operands, steps, strict=True)
                moved = [x + sign * step if step else x for x, step in pairs]
                rows[name, at, sign] = function, moved
    return compiled_rows(rows)


_SLOPES = [(name, at) for name, x in OWN.items() for at in range(name in _OF_ORDERS, len(x))]


@pytest.mark.full
@pytest.mark.parametrize(("name", "at"), _SLOPES)
def test_derivatives_are_those_of_differences(name: str, at: int) -> None:
    with jax.enable_x64(True):
        forward, reverse = _slopes()((name, at))
        difference = (_slopes()((name, at, 1)) - _slopes()((name, at, -1))) / 2e-5
    np.testing.assert_allclose(forward, reverse, rtol=4e-15)  # terms are added in another order
    np.testing.assert_allclose(forward, difference, rtol=2e-6, atol=1e-9)


_LARGE, _SMALL = np.logspace(1, 5, 9), np.logspace(-5, 0, 9)
#: Operands at which formulas for derivatives may cancel, and the number of the differentiated one.
FAR = {
    "betaln": ([_LARGE, _SMALL], 0),
    "beta": ([_LARGE[:5], _SMALL[4:]], 0),
    "gammainc": ([_LARGE[:6], _LARGE[:6] * 0.9], 1),
    "gammaincc": ([_LARGE[:6], _LARGE[:6] * 1.1], 1),
    "betainc": ([_LARGE[:6], _LARGE[:6] * 2, np.linspace(0.3, 0.36, 6)], 2),
    "log_ndtr": ([np.array([-1e4, -300, -20, -4, -3.9, 0, 3])], 0),
    "kl_div": ([np.linspace(1, 2, 5), np.linspace(1, 2, 5) * (1 + 1e-3)], 0),
}


@cache
def _far_slopes(kind: str) -> Any:
    """Return the derivatives of numbers that f32 has."""
    return compiled_rows(
        {
            name: (
                mx.vmap(mx.grad(getattr(special, name), at)),
                [each.astype(np.float32).astype(kind) for each in operands],
            )
            for name, (operands, at) in FAR.items()
        }
    )


@pytest.mark.parametrize("name", FAR)
def test_derivatives_keep_their_digits(name: str) -> None:
    with jax.enable_x64(True):
        expected = np.asarray(_far_slopes("float64")(name))
    np.testing.assert_allclose(_far_slopes("float32")(name), expected, rtol=4e-6)


_WIDE = np.array([1e-30, 1e-20, 0.5, 2, 1e5, 1e10, 1e20])
#: Derivatives by one operand, where quotients of those overflow too; the other one is 2.
ENTROPIES = {
    "rel_entr by p": (lambda x: special.rel_entr(x, 2.0), np.log(_WIDE / 2) + 1, 1 / _WIDE),
    "rel_entr by q": (lambda x: special.rel_entr(2.0, x), -2 / _WIDE, 2 / _WIDE / _WIDE),
    "kl_div by p": (lambda x: special.kl_div(x, 2.0), np.log(_WIDE / 2), 1 / _WIDE),
    "kl_div by q": (lambda x: special.kl_div(2.0, x), 1 - 2 / _WIDE, 2 / _WIDE / _WIDE),
    "entr": (special.entr, -1 - np.log(_WIDE), -1 / _WIDE),
}


@pytest.mark.parametrize("name", ENTROPIES)
def test_derivatives_of_entropies_are_right_in_both_modes(name: str) -> None:
    function, first, second = ENTROPIES[name]
    slope, x = mx.grad(function), _WIDE.astype(np.float32)

    def derivatives(x: Any) -> Any:
        tangents = mx.jvp(slope, (x,), (mx.numpy.ones_like(x),))[1]
        return slope(x), mx.grad(slope)(x), tangents

    found = mx.jit(mx.vmap(derivatives), compiler_options=QUICKLY)(x)
    np.testing.assert_allclose(found[0], first, rtol=1e-6, atol=1e-6)
    expected = np.where(np.abs(second) < np.finfo(np.float32).max, second, np.inf)
    # XLA takes denormal numbers for zeros.
    expected = np.where(np.abs(second) < np.finfo(np.float32).tiny, 0, expected)
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)
    np.testing.assert_allclose(found[2], expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "other"), [("entr", ()), ("rel_entr", (2.0,))])
def test_derivatives_of_entropies_at_the_ends_are_jaxs(name: str, other: tuple[float, ...]) -> None:
    x = np.array([-np.inf, -2, -0.0, 0, np.inf, np.nan], np.float32)

    def derivatives(module: Any, functions: Any) -> Any:
        slope = module.grad(lambda x: getattr(functions, name)(x, *other))
        return lambda x: (module.vmap(slope)(x), module.vmap(module.grad(slope))(x))

    found = mx.jit(derivatives(mx, special), compiler_options=QUICKLY)(x)
    for ours, theirs in zip(found, by_jax(derivatives(jax, of_jax), x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_quotients_of_entropies_may_overflow() -> None:
    p, q = np.array([[1e10, 2, 1e-30, 1e38], [1e-30, 3e38, 1e10, 1e-37]], np.float32)
    expected = of_scipy.rel_entr(p.astype(float), q.astype(float))
    expected = np.where(np.abs(expected) < 3e38, expected, np.inf)
    np.testing.assert_allclose(special.rel_entr(p, q), expected, rtol=1e-6)


def test_derivatives_of_f64_keep_their_digits_where_one_operand_is_tiny() -> None:
    with jax.enable_x64(True):
        found = mx.jit(mx.grad(special.betaln), compiler_options=QUICKLY)(1e5, 1e-10)
    np.testing.assert_allclose(found, -1e-10 * of_scipy.polygamma(1, 1e5), rtol=1e-14)


def _powers_of_ten(low: float, high: float, count: int) -> np.ndarray:
    return 10 ** np.linspace(low, high, count)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions_of_extreme_operands_are_scipys(name: str) -> None:
    a, x = np.meshgrid(_powers_of_ten(-307, 304, 40), _powers_of_ten(-307, 304, 40))
    with jax.enable_x64(True):
        found = mx.jit(getattr(special, name))(a, x)
    # SciPy's tails lose digits, too, and XLA takes denormal numbers for zeros.
    np.testing.assert_allclose(found, getattr(of_scipy, name)(a, x), rtol=1e-12, atol=1e-300)


def test_betainc_of_extreme_operands() -> None:
    tiny, near = np.meshgrid(_powers_of_ten(-300, -20, 8), _powers_of_ten(-300, -20, 8))
    x = 1 - _powers_of_ten(-15, -1, 8)[:, None]
    large = np.logspace(5, 300, 8)
    *hard, truth = np.array(_BETAINC).T
    rows = [
        [each.ravel() for each in np.broadcast_arrays(tiny, near, x)],
        [large, large, np.full(8, 0.5)],
        hard,
    ]
    operands = [np.concatenate(column) for column in zip(*rows, strict=True)]
    with jax.enable_x64(True):
        found = mx.jit(special.betainc)(*operands)
    ends, halves, others = np.split(np.asarray(found), [64, 72])
    # All is at the ends; at the mean of large ones the halves are equal. All within 100 ULP.
    np.testing.assert_allclose(ends.reshape(8, 8), near / (tiny + near), rtol=1e-14)
    np.testing.assert_allclose(halves, 0.5, rtol=1e-15)
    # Where a continued fraction needs thousands of steps, or loses digits.
    np.testing.assert_allclose(others, truth, rtol=2e-14)


#: a, b, x, and I(a, b, x) by mpmath, of large a and b by its quadrature.
_BETAINC = [
    (0.5, 1e-3, 1 - 2.0**-46, 0.0327220816007607048),
    (50.0, 1e-8, 1 - 2.0**-40, 2.32466791901957311e-7),
    (0.01, 0.3, 1 - 2.0**-30, 0.999936739973193254),
    (1e6, 2e6, 0.33325, 0.37977838911415766),
    (1e9, 3e9, 0.250001, 0.55806508224534247),
    (1e12, 1e10, 0.990099, 0.45997289471091827),
]


def test_beta_of_extreme_operands() -> None:
    tiny, large = np.logspace(-300, -20, 8), np.logspace(20, 300, 8)
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            special.beta(tiny, large[:, None]), 1 / tiny + 0 * large[:, None]
        )
        # In f64 less than 50 ULP, and of a sum of large logarithms 500.
        np.testing.assert_allclose(special.betaln(tiny, large), -np.log(tiny), rtol=1e-14)
        expected = of_scipy.loggamma(0.01) - 0.01 * np.log(large)
        np.testing.assert_allclose(special.betaln(0.01, large), expected, rtol=1e-13)
        np.testing.assert_allclose(special.beta(0.01, large), np.exp(expected), rtol=1e-13)


def test_zeta_and_polygamma_of_extreme_operands() -> None:
    large = np.logspace(10, 300, 8)
    with jax.enable_x64(True):
        np.testing.assert_allclose(special.polygamma(1, large), 1 / large, rtol=1e-9)
        np.testing.assert_allclose(special.zeta(1.5, large), 2 / np.sqrt(large), rtol=1e-9)
        np.testing.assert_allclose(special.zeta(5000.0, np.array([0.5, 1, 2])), [np.inf, 1, 0])
    x = np.array([2, 13.7887, 6e3, 1e20], np.float32)
    for n in (1, 2, 20, 50):
        expected = of_scipy.polygamma(n, x.astype(float))
        expected = np.where(np.abs(expected) < 1e-37, 0, expected).astype(np.float32)
        np.testing.assert_allclose(special.polygamma(n, x), expected, rtol=3e-5)


def test_polygamma_of_negative_numbers() -> None:
    # By mpmath, in f64: JAX's and SciPy's have few digits, or none.
    truth = {
        (1, -20.6): 10.864181760517212,
        (4, -7.25): 24481.573142242188,
        (20, -2.5): -9182070.2049456267,
        (50, -0.5): -3.1799527035658682e55,
    }
    with jax.enable_x64(True):
        found = [special.polygamma(n, x) for n, x in truth]
    # The greatest factorial is the exponential of 148.5, of which an ULP is 2.8e-14.
    np.testing.assert_allclose(found, [*truth.values()], rtol=2 * 2.8e-14)


def test_erfcx_where_jaxs_is_0() -> None:
    x = np.float32([9.2, 9.3, 9.4, 1e20])
    slope = mx.vmap(mx.grad(special.erfcx))(x[:3])
    expected = of_scipy.erfcx(x.astype(float))
    np.testing.assert_allclose(special.erfcx(x), expected, rtol=1e-6)
    exact = 2 * x[:3] * expected[:3] - 2 / np.sqrt(np.pi)
    np.testing.assert_allclose(slope, exact, rtol=1e-5)


def test_batches_are_loops() -> None:
    x = np.linspace(0.5, 3, 6).reshape(2, 3).astype(np.float32)
    mapped = mx.jit(mx.vmap(special.gammainc, (0, None)))(x, x[0])
    looped = np.stack([special.gammainc(row, x[0]) for row in x])
    np.testing.assert_allclose(mapped, looped, rtol=1e-6)


def test_numbers_are_weak_and_half_floats_stay() -> None:
    assert special.gamma(np.float16(3)).dtype == np.float16
    # Evaluated in NumPy: compiling these takes seconds.
    found = mx.reference(lambda: special.gammainc(np.ones(2, np.float32), 2.0))()
    assert found.dtype == np.float32
    assert special.beta(2, 3) == pytest.approx(1 / 12)
    found = mx.reference(lambda: special.gammainc(x=2.0, a=1.0))()
    assert found == pytest.approx(1 - np.exp(-2))


def test_expn_ends_where_jax_does_not() -> None:
    """JAX runs the continued fraction for every element, where it takes 1 / x steps."""
    x = np.array([1e-12, 1, 30], np.float32)
    np.testing.assert_allclose(special.expn(1, x), of_scipy.exp1(x.astype(float)), rtol=1e-5)
    x = np.array([-1e-12, -1e-30, -1, 90, 92, 1e-30], np.float32)  # exp(90) overflows
    np.testing.assert_allclose(special.expi(x), of_scipy.expi(x.astype(float)), rtol=1e-5)


def test_wrong_arguments() -> None:
    with pytest.raises(mx.ShapeError, match="gamma: it is not defined for complex numbers"):
        special.gamma(1j)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        special.gammainc(1.0)
    with pytest.raises(
        ValueError, match=r"(?s)factorial: exact=True needs.*called at .*test_special"
    ):
        special.factorial(3, exact=True)
    with pytest.raises(TypeError, match=r"polygamma: the orders n are f32, not integers"):
        special.polygamma(1.5, 2.0)
    with pytest.raises(NotImplementedError, match=r"(?s)zeta: q is required.*Pass q=1"):
        special.zeta(2.0)
    assert float(of_jax.gammaln(3.0)) == pytest.approx(float(special.gammaln(3.0)))
