"""The incomplete gamma and beta functions, more accurate than truncated sums.

Densities have no cancellation, and each share is computed by a formula without cancellation.
"""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import minixla.numpy as mnp
from minixla.numpy.element_functions import mended, with_derivatives
from minixla.numpy.operands import lifted
from minixla.scipy.error_functions import scaled_complement
from minixla.scipy.gamma_functions import (
    FAR,
    STIRLING,
    are_inside,
    gammaln,
    left_of_gamma,
    log_gamma_above,
    odd_powers,
    polynomial,
    scale_of_beta,
    without_linear,
)
from minixla.scipy.real_functions import of_reals, upper_digits
from minixla.transforms import while_loop
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.incomplete import Betainc, Igamma


@cache
def _temme() -> list[list[float]]:
    """Return coefficients of powers of eta, by power of 1 / a. Source: DLMF 8.12.8 to 8.12.12."""
    count, orders = 44, 10
    # mu as a series in eta, where eta**2 / 2 = mu - log(1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        products = sum((j * mu[j] * mu[n - j + 1] for j in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - products) / (n + 1))
    # eta / mu.
    inverse: list[Fraction] = []
    for n in range(count + 1):
        before = sum((mu[n - j + 1] * inverse[j] for j in range(n)), Fraction(0))
        inverse.append((1 if n == 0 else 0) - before)
    # The scaled gamma function in powers of 1 / a; the logarithm's derivative is Stirling's series.
    numbers = [Fraction(1, 12), 0, Fraction(-1, 360), 0, Fraction(1, 1260), 0, Fraction(-1, 1680)]
    numbers += [0, Fraction(1, 1188), 0]
    left = [Fraction(1)]
    for n in range(1, orders + 1):
        total = sum((j * numbers[j - 1] * left[n - j] for j in range(1, n + 1)), Fraction(0))
        left.append(total / n)
    rows = [inverse[1:]]
    for k in range(1, orders):
        slope = [n * row for n, row in enumerate(rows[-1])][1:]
        # (slope + (-1)**k left[k] eta / mu) / eta, whose first coefficients cancel.
        row = [x + (-1) ** k * left[k] * y for x, y in zip(slope, inverse, strict=False)]
        rows.append(row[1:])
    return [[float(number) for number in reversed(row[:24])] for row in rows]


def _temme_parts(a: Any, x: Any) -> tuple[Any, Any]:
    """Compute P and Q near x = a, for large a."""
    mu = (x - a) / a
    exponent = without_linear(mu)
    eta = mnp.sign(mu) * mnp.sqrt(-2 * exponent)
    total = mnp.zeros_like(a)
    for row in reversed(_temme()):
        total = total / a + polynomial(row, eta)
    is_below = mu < 0
    rest = mnp.where(is_below, -total, total) / mnp.sqrt(2 * math.pi * a)
    share = 0.5 * scaled_complement(mnp.sqrt(-a * exponent)) + rest
    small = _powers(a, x) * share
    return mnp.where(is_below, small, 1 - small), mnp.where(is_below, 1 - small, small)


#: An upper limit of the number of terms. Rounding may keep the last ones from vanishing.
_MOST = 2000
# Below this, a factor of a density may be 0 although its quotient by x is not.
_SMALL = 1e-4


def _lower_series(a: Any, x: Any) -> Any:
    """Sum x**k / ((a + 1) ... (a + k)) over k."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        term = term * (x / (a + k))
        return term, total + term

    start = mnp.ones_like(x)
    half = mnp.finfo(x.dtype).eps / 2
    return _repeated(step, lambda state: state[0] > half * state[1], (start, start))[1]


def _fraction(first: Any, numbers: Any) -> Any:
    """Compute 1 / (b0 + a1 / (b1 + a2 / ...)); `numbers(k)` returns ak and bk. Source: Lentz."""

    def step(k: Any, state: Any) -> Any:
        c, d, total, is_open = state
        above, below = numbers(k)
        d, c = 1 / (above * d + below), below + above / c
        # Stop early, because rounding errors would add up while other elements go on.
        is_open = is_open & (mnp.abs(c * d - 1) > 2 * mnp.finfo(first.dtype).eps)
        return c, d, mnp.where(is_open, total * (c * d), total), is_open

    start = 1 / first
    state = (mnp.full_like(first, 1e30), start, start, first == first)
    return _repeated(step, lambda state: state[-1], state)[2]


def _repeated(step: Any, goes_on: Any, state: Any) -> Any:
    """Repeat a step until every element has converged, and return the state."""
    one = mnp.ones((), state[0].dtype)
    return while_loop(
        lambda state: (state[0] < _MOST) & mnp.any(goes_on(state[1])),
        lambda state: (state[0] + 1, step(*state)),
        (one, state),
    )[1]


def _alternating(a: Any, x: Any) -> Any:
    """Sum (-x)**k a / (k! (a + k)) over k >= 1, for x <= 1."""
    total, term = mnp.zeros_like(x), mnp.ones_like(x)
    for k in range(1, 21):
        term = term * (-x / k)
        total = total + term * (a / (a + k))
    return total


def _of_powers(a: Any, x: Any) -> Any:
    """Compute (x / a)**a exp(a - x) for numbers > 0.

    The result is corrected for the rounding errors of the large exponent and its terms.
    """
    scale = mnp.where(a > 1, 0.25, 1)  # so that the sum does not overflow
    a, x = a * scale, x * scale
    apart, total, one = x - a, x + a, mnp.ones_like(x)
    is_near, is_above = (apart > -0.5 * a) & (apart < a), x > a
    least, most = mnp.where(is_above, a, x), mnp.where(is_above, x, a)
    # Near a the exponent is -apart**2 / total, plus terms that are small beside it.
    above = mnp.where(is_near, apart, x)
    # Where x / a would overflow, a * log(x / a) is negligible beside x.
    below = mnp.where(is_near, total, mnp.maximum(a, x * (mnp.finfo(x.dtype).tiny * 2**20)))
    ratio = above / below
    rest = _difference_of_products(above, one, ratio, below)
    rest = rest - mnp.where(is_near, ratio * (least - (total - most)), 0)
    first, second = mnp.where(is_near, ratio, mnp.log(ratio)), mnp.where(is_near, apart, a)
    product = first * second
    rest = rest * mnp.where(is_near, ratio, 1 / ratio)
    rest = rest + _difference_of_products(first, second, product, one)
    small = mnp.where(is_near, a * ratio * odd_powers(ratio), product)
    large = mnp.where(is_near, product, apart)
    exponent = small - large
    part = exponent - small
    lost = (small - (exponent - part)) - (large + part)
    of_apart = mnp.where(is_above, (x - apart) - a, x - (apart + a))
    lost = (lost + mnp.where(is_near, -rest, rest - of_apart)) / scale
    return mnp.exp(exponent / scale) * (1 + mnp.where(mnp.abs(lost) < 1, lost, 0))


def _logarithm(a: Any, x: Any) -> Any:
    apart = (x - a) / a
    is_near = (apart > -0.5) & (apart < 1)
    near = apart + without_linear(mnp.where(is_near, apart, 0))
    return mnp.where(is_near, near, mnp.log(x / a))


_powers = with_derivatives(
    _of_powers, lambda y, a, x: y * _logarithm(a, x), lambda y, a, x: y * ((a - x) / x)
)


def _gamma_density(a: Any, x: Any) -> Any:
    """Compute x**a exp(-x) / gamma(a) for numbers > 0."""
    return mnp.sqrt(a) * _powers(a, x) / (math.sqrt(2 * math.pi) * left_of_gamma(a))


def _slope_of_gammainc(a: Any, x: Any) -> Any:
    # A power with an exponent smaller by 1 may be finite where the density is already 0.
    is_inside = are_inside(a, x) & (x > _SMALL)
    c, y = (mnp.where(is_inside, operand, 1) for operand in (a, x))
    return mnp.where(is_inside, _gamma_density(c, y) / y, Igamma().integrand(a, x))


def _incomplete(a: Any, x: Any) -> tuple[Any, Any]:
    """Compute P and Q, each by a formula without cancellation."""
    is_inside = are_inside(a, x)
    a, x, arguments = mnp.where(is_inside, a, 1), mnp.where(is_inside, x, 1), (a, x)
    mu = (x - a) / a
    is_near = (a >= 32) & (mnp.abs(mu) < 0.4)
    is_low = ~is_near & ((x <= 1) | (x < a))
    is_high = ~is_near & ~is_low
    central = _temme_parts(*[mnp.where(is_near, operand, 32) for operand in (a, x)])
    density = _gamma_density(a, x)
    series = _lower_series(mnp.where(is_low, a, 1), mnp.where(is_low, x, 0))
    low = mnp.minimum(density / a * series, 1)
    b, y = mnp.where(is_high, a, 1), mnp.where(is_high, x, 1e3)
    high = density * _fraction(y + 1 - b, lambda k: (-k * (k - b), y + 1 - b + 2 * k))
    # 1 - P for small x and a.
    c, z = mnp.minimum(a, 1), mnp.minimum(x, 1)
    near = mnp.minimum(c, 0.5)
    logarithm = mnp.where(c < 0.5, log_gamma_above(near), gammaln(1 + c))
    exponent = c * mnp.log(z) - logarithm
    rest = -mnp.expm1(exponent) - mnp.exp(exponent) * _alternating(c, z)
    below = mnp.where((x <= 1) & (a < 1), rest, 1 - low)
    p = mnp.where(is_near, central[0], mnp.where(is_low, low, 1 - high))
    q = mnp.where(is_near, central[1], mnp.where(is_low, below, high))
    a, x = arguments
    is_end = ((a == 0) & (x > 0)) | ((x == math.inf) & (a < math.inf) & (a >= 0))
    end = mnp.where(
        is_end, 1, mnp.where((a > 0) & (x >= 0) & ((a < math.inf) | (x < math.inf)), 0, math.nan)
    )
    return mnp.where(is_inside, p, end), mnp.where(is_inside, q, 1 - end)


@of_reals(lambda y, a, x: Igamma(by=(0,))(a, x), lambda y, a, x: _slope_of_gammainc(a, x))
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized lower incomplete gamma function P(a, x).

    JAX: `jax.scipy.special.gammainc`.

    Args:
        a: an array of reals > 0.
        x: an array of reals >= 0, which broadcasts with `a`.

    Example:
        >>> mx.scipy.special.gammainc(2.0, 1.0)
        Array(0.26424113, dtype=float32, weak_type=True)
    """
    return _incomplete(a, x)[0]


@of_reals(lambda y, a, x: -Igamma(by=(0,))(a, x), lambda y, a, x: -_slope_of_gammainc(a, x))
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized upper incomplete gamma function Q(a, x).

    JAX: `jax.scipy.special.gammaincc`.

    Args:
        a: an array of reals > 0.
        x: an array of reals >= 0, which broadcasts with `a`.

    Example:
        >>> mx.scipy.special.gammaincc(2.0, 1.0)
        Array(0.7357589, dtype=float32, weak_type=True)
    """
    return _incomplete(a, x)[1]


def _difference_of_products(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Compute a b - c d; products of halves of digits have no error."""
    e, f, g, h = map(upper_digits, (a, b, c, d))
    total = e * f - g * h
    return total + (e * (b - f) - g * (d - h)) + ((a - e) * b - (c - g) * d)


def _beta_apart(a: Any, b: Any, x: Any) -> Any:
    """Compute b x - a (1 - x), in which large products cancel."""
    y = 1 - x
    return _difference_of_products(b, x, a, y) - a * ((1 - y) - x)


def _beta_density(a: Any, b: Any, x: Any, y: Any, apart: Any) -> Any:
    """Compute x**a y**b / beta(a, b) for numbers > 0; y is 1 - x, and `apart` is b x - a y."""
    return mnp.exp(_beta_exponent(a, b, x, y, apart)) / scale_of_beta(a, b)


def _beta_exponent(a: Any, b: Any, x: Any, y: Any, apart: Any) -> Any:
    return _logarithm_apart(a, b, x, apart) + _logarithm_apart(b, a, y, -apart)


def _logarithm_apart(a: Any, b: Any, x: Any, apart: Any) -> Any:
    """Compute a log(x (1 + b / a)) - apart."""
    ratio, quotient = apart / a, b / a
    is_near = (ratio > -0.5) & (ratio < 1)
    # Where this overflows, the logarithm is negligible beside `apart`.
    above = mnp.where(quotient == math.inf, b * x / a, x * (1 + quotient))
    log = mnp.log(mnp.minimum(above, mnp.finfo(x.dtype).max))
    return mnp.where(is_near, a * without_linear(mnp.where(is_near, ratio, 0)), a * log - apart)


def _growth(a: Any, b: Any) -> Any:
    """Compute log(gamma(a + b) / gamma(a)), accurately for small b."""
    is_low = a < FAR
    total, high = mnp.zeros_like(a), mnp.where(is_low, a + FAR, a)
    for k in range(FAR):
        total = total + mnp.log1p(b / (a + k))
    # Divide the difference of both Stirling series by the difference of their arguments.
    first, second = 1 / high, 1 / (high + b)
    value, divided = mnp.zeros_like(a), mnp.zeros_like(a)
    for coefficient in STIRLING:
        value, divided = value * first * first + coefficient, divided * second * second + value
    series = value + second * (first + second) * divided
    found = (high - 0.5) * mnp.log1p(b / high) + b * (mnp.log(high + b) - 1)
    return found - b * first * second * series - mnp.where(is_low, total, 0)


def _betainc_of_small(a: Any, b: Any, y: Any) -> Any:
    """Compute I(a, b, 1 - y) for b up to 0.5 and small y and a y, accurately also near 0."""
    total, term = mnp.zeros_like(y), b
    for k in range(1, 22):
        term = term * ((k - a) * y / k)
        total = total + term / (b + k)
    exponent = b * mnp.log(y) - log_gamma_above(b) + _growth(a, b)
    return -mnp.expm1(exponent) - mnp.exp(exponent) * total


def _betainc_of_large(a: Any, b: Any, exponent: Any) -> Any:
    """Compute I(a, b, x) divided by x**a y**b / beta(a, b), left of the mean, for large a and b.

    Source: Didonato and Morris, its asymptotic expansion.
    """
    least, most = mnp.minimum(a, b), mnp.maximum(a, b)
    h, skew, z = least / most, (b - a) / most, mnp.sqrt(-2 * exponent)
    width, one = 1 / mnp.sqrt(least * (1 + h)), mnp.ones_like(a)
    moments = [math.sqrt(math.pi / 2) * scaled_complement(mnp.sqrt(-exponent)), one]
    roots: list[Any] = [one]
    factors: list[Any] = [one]
    slopes: list[Any] = [one]
    total, series = moments[0], one
    for order in range(1, 8):
        if order % 2:
            roots.append(2 / (order + 2) * skew * series)
        else:
            roots.append(2 / (order + 2) * (1 + h ** (order + 1)) / (1 + h))
            series = series + h**order
        # A coefficient of a power of the series of `roots`, and one of the inverse series.
        power: list[Any] = [one]
        root = -0.5 * (order + 1)
        for m in range(1, order + 1):
            terms = [(j * root + j - m) * roots[j] * power[m - j] for j in range(1, m + 1)]
            power.append(sum(terms) / m)
        factors.append(power[order] / (order + 1))
        slopes.append(-sum(slopes[order - j] * factors[j] for j in range(1, order + 1)))
        if order > 1:
            moments.append(z ** (order - 1) + (order - 1) * moments[order - 2])
        total = total + slopes[order] * width**order * moments[order]
    return mnp.sqrt(1 / a + 1 / b) * total


def _slope_of_betainc(a: Any, b: Any, x: Any) -> Any:
    is_inside = are_inside(a, b) & (x > _SMALL) & (x < 1)
    c, d, z = (mnp.where(is_inside, operand, half) for operand, half in ((a, 1), (b, 1), (x, 0.5)))
    slope = _beta_density(c, d, z, 1 - z, _beta_apart(c, d, z)) / z / (1 - z)
    return mnp.where(is_inside, slope, Betainc().integrand(a, b, x))


@of_reals(
    lambda y, a, b, x: Betainc(by=(0,))(a, b, x),
    lambda y, a, b, x: Betainc(by=(1,))(a, b, x),
    lambda y, a, b, x: _slope_of_betainc(a, b, x),
)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized incomplete beta function (JAX: `jax.scipy.special.betainc`).

    Args:
        a: an array of reals > 0.
        b: an array of reals > 0.
        x: an array of reals in [0, 1].

    Example:
        >>> mx.scipy.special.betainc(2.0, 3.0, 0.5)
        Array(0.6875, dtype=float32, weak_type=True)
    """
    a, b, x = lifted(a), lifted(b), lifted(x)
    is_inside = are_inside(a, b) & (x > 0) & (x < 1)
    arguments = a, b, x
    a, b, x = (mnp.where(is_inside, operand, half) for operand, half in ((a, 1), (b, 1), (x, 0.5)))
    y, apart = 1 - x, _beta_apart(a, b, x)
    is_small = (b <= 0.5) & (y <= 0.1) & (a * y <= 1.2)
    small = [mnp.where(is_small, operand, 0.1) for operand in (a, b, y)]
    is_mirrored = apart > 0
    apart = -mnp.abs(apart)
    a, b = mnp.where(is_mirrored, b, a), mnp.where(is_mirrored, a, b)
    x, y = mnp.where(is_mirrored, y, x), mnp.where(is_mirrored, x, y)
    exponent, least = _beta_exponent(a, b, x, y, apart), mnp.minimum(a, b)
    density = mnp.exp(exponent) / scale_of_beta(a, b)
    is_large = (least >= 1e5) & (-exponent < 1e-5 * least)
    large = [
        mnp.where(is_large, operand, value)
        for operand, value in ((a, 1e5), (b, 1e5), (exponent, -1))
    ]
    # Products of the fraction may overflow where the result is 0 or already known.
    is_known = is_large | is_small | (density == 0)
    a, b, x = (mnp.where(is_known, half, operand) for operand, half in ((a, 1), (b, 1), (x, 0.5)))
    apart = mnp.where(is_known, 0, apart)

    # Source: Didonato and Morris, Significant digit computation of the incomplete beta function.
    def below(k: Any) -> Any:
        whole = k + k * (b - k) * x / (a + 2 * k - 1)
        return whole + (a + k) * (1 - apart + k * (2 - x)) / (a + 2 * k + 1)

    def numbers(k: Any) -> Any:
        ratio = x / (a + 2 * k - 1)
        return (a + k - 1) * ratio * ((a + b + k - 1) * ratio) * (k * (b - k)), below(k)

    fraction = _fraction(a * (1 - apart) / (a + 1), numbers)
    fraction = density * mended(fraction, is_large, lambda: _betainc_of_large(*large))
    fraction = mnp.where(is_mirrored, 1 - fraction, fraction)
    fraction = mended(fraction, is_small, lambda: _betainc_of_small(*small))

    def outside() -> Any:
        a, b, x = arguments
        is_end = are_inside(a, b) & ((x == 0) | (x == 1))
        return mnp.where(is_end, x, Betainc()(*arguments))

    return mended(fraction, ~is_inside, outside)
