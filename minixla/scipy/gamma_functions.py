"""The gamma function and what is made of it, nearer the truth than by sums of logarithms.

A power divided by gamma functions is small where each of them is huge. All is made of what is left
of gamma when its size is taken out, gamma(a) exp(a) a**-a sqrt(a / (2 pi)), which is nearly 1.
"""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import F32
from minixla.core.tracing import with_flags
from minixla.interop import incomplete as _programs  # noqa: F401  # derivatives by parameters
from minixla.numpy import operands
from minixla.numpy.element_functions import mended, with_derivatives
from minixla.numpy.operands import kind_of
from minixla.scipy.error_functions import scaled_complement
from minixla.scipy.real_functions import of_reals
from minixla.transforms import while_loop
from minixla_ops.elementwise.incomplete import Betainc, Igamma
from minixla_ops.elementwise.numpy_gamma import zeta

# gamma(2 + z) = _ABOVE(z) / _BELOW(z) for z from 0 to 1; highest powers first. Source: Cephes.
_ABOVE = [1.60119522476751861407e-4, 1.19135147006586384913e-3, 1.04213797561761569935e-2]
_ABOVE += [4.76367800457137231464e-2, 2.07448227648435975150e-1, 4.94214826801497100753e-1, 1.0]
_BELOW = [-2.31581873324120129819e-5, 5.39605580493303397842e-4, -4.45641913851797240494e-3]
_BELOW += [1.18139785222060435552e-2, 3.58236398605498653373e-2, -2.34591795718243348568e-1]
_BELOW += [7.14304917030273074085e-2, 1.0]
# Stirling's series: the logarithm of what is left of gamma, in powers of 1 / a**2, times a.
_STIRLING = [-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360]
_STIRLING += [1 / 12]
# The logarithm of gamma(2 + z) divided by z, for z from -0.5 to 0.5.
_ORDERS = np.arange(28.0, 1, -1)
_LOGARITHM = [
    *(zeta(_ORDERS, np.full_like(_ORDERS, 2)) / _ORDERS * (-1) ** _ORDERS).tolist(),
    1 - np.euler_gamma,
]
#: From here on the series is exact to double.
_FAR = 10


def _polynomial(coefficients: list[float], x: Any, of_f32: int = 0) -> Any:
    """A polynomial; of a series f32 needs the last `of_f32` coefficients alone."""
    coefficients = coefficients[-of_f32:] if kind_of(x) is F32 else coefficients
    total = 0 * x + coefficients[0]
    for each in coefficients[1:]:
        total = total * x + each
    return total


def _stirling(a: Any) -> Any:
    a = mnp.maximum(a, _FAR)
    return _polynomial(_STIRLING, 1 / (a * a), 4) / a


def _power(x: Any, y: Any) -> Any:
    return ops.pow(x, y)


def _shifted(x: Any, whole: Any) -> tuple[Any, Any, Any]:
    """What is left, z, and what to multiply and divide gamma(2 + z) by for gamma(x).

    Args:
        x: numbers from 0 to 10.
        whole: x, rounded.
    """
    z, product = x - whole, mnp.ones_like(x)
    for number in range(2, _FAR):
        product = mnp.where(whole > number, product * (z + number), product)
    return z, product, mnp.where(whole < 2, mnp.where(whole < 1, x * (1 + x), x), 1)


def _near(x: Any) -> Any:
    """Gamma of numbers from 0 to 10."""
    z, product, quotient = _shifted(x, mnp.floor(x))
    return product * _polynomial(_ABOVE, z) / (quotient * _polynomial(_BELOW, z))


def _left(a: Any) -> Any:
    """What is left of gamma, of numbers > 0."""
    low = mnp.minimum(a, _FAR)
    near = _near(low) * mnp.exp(low) * _power(low, 0.5 - low) / math.sqrt(2 * math.pi)
    return mnp.where(a < _FAR, near, mnp.exp(_stirling(a)))


@of_reals(lambda y, x: y * ops.digamma(x))
def gamma(x: Any) -> Any:
    """The gamma function; infinite at 0, NaN at negative whole numbers. SciPy: special.gamma."""
    size = mnp.abs(x)
    near = _near(mnp.minimum(size, _FAR))

    def above() -> Any:
        far = mnp.clip(size, _FAR, 40 if kind_of(x) is F32 else 180)  # where gamma is infinite
        half = _power(far, 0.5 * far - 0.25)
        return math.sqrt(2 * math.pi) * half * mnp.exp(-far) * mnp.exp(_stirling(far)) * half

    found = mended(near, size >= _FAR, above)

    def mirrored() -> Any:
        part = size - mnp.round(size)
        sine = mnp.sin(math.pi * part) * mnp.where(mnp.round(size) % 2 == 1, -1, 1)
        below = mnp.where(part == 0, math.nan, -math.pi / (sine * found) / size)
        return mnp.where(size < 1e-20, 1 / x, below)

    return mended(found, x <= 0, mirrored)


@of_reals(lambda y, n: y * ops.digamma(n + 1))
def _factorial(n: Any) -> Any:
    n = mnp.minimum(n, 1e3)
    above = n + 1
    # What n + 1 is rounded by, times the digamma function.
    found = gamma(above) * (1 + (n - above + 1) * mnp.log(mnp.maximum(above, 1) - 0.5))
    is_whole = (n == mnp.floor(n)) & (mnp.abs(found) * mnp.finfo(found.dtype).eps < 1)
    return mnp.where(n < 0, 0, mnp.where(is_whole, mnp.round(found), found))


@with_flags
def factorial(n: Any, exact: bool = False) -> Any:
    """gamma(n + 1), 0 where n < 0; rounded where n is whole. SciPy: special.factorial.

    Args:
        n: an array of reals.
        exact: not supported: arrays hold no large integers.

    Raises:
        AttributeValueError: `exact` is true.
    """
    if exact:
        problem = "exact=True needs integers of any size, which arrays do not hold"
        advice = "Call math.factorial, or give exact=False."
        raise operands.value_error("factorial", problem, advice)
    return _factorial(n)


@of_reals(lambda y, x: ops.digamma(x))
def gammaln(x: Any) -> Any:
    """The logarithm of abs(gamma(x)), right in its last digits at its zeros 1 and 2, too.

    Infinite at 0, -1, -2, ... SciPy: special.gammaln.
    """
    size = mnp.abs(x)
    is_far = size >= _FAR
    z, product, quotient = _shifted(size, mnp.round(size))
    is_low = size < 1.5
    log = mnp.log(mnp.where(is_far, size, mnp.where(is_low, quotient, product)))
    near = z * _polynomial(_LOGARITHM, z, 15) + mnp.where(is_low, -log, log)
    far = (size - 0.5) * (log - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + _stirling(size)
    found = mnp.where(is_far, far, near)

    def mirrored() -> Any:
        sine = mnp.abs(mnp.sin(math.pi * (x - mnp.round(x))))
        inner = math.log(math.pi) - mnp.log(-x) - mnp.log(sine) - found
        return mnp.where(sine > 0, inner, math.inf)

    return mended(found, x < 0, mirrored)


def _without_linear(x: Any, above: Any) -> Any:
    """log(1 + x) - x, without cancellation; `above` is 1 + x, where that is better known."""
    is_small = (x > -0.5) & (x < 1)
    return mnp.where(is_small, without_linear(mnp.where(is_small, x, 0)), mnp.log(above) - x)


def without_linear(x: Any) -> Any:
    """log(1 + x) - x of numbers from -0.5 to 1, without cancellation."""
    ratio = x / (2 + x)
    return ratio * (_odd_powers(ratio) - x)


def _odd_powers(ratio: Any) -> Any:
    """log((1 + r) / (1 - r)) / r - 2 of numbers up to a third."""
    square = ratio * ratio
    return 2 * square * _polynomial([1 / k for k in range(35, 1, -2)], square, 9)


def _scale(a: Any, b: Any) -> Any:
    """sqrt(2 pi (a + b) / (a b)) and what is left of gamma(a) gamma(b) / gamma(a + b)."""
    root = mnp.sqrt(2 * math.pi * (1 / a + 1 / b))
    both = mnp.minimum(a, b) >= _FAR
    series = mnp.exp(_stirling(a) + _stirling(b) - _stirling(a + b))
    return root * mnp.where(both, series, _left(a) * _left(b) / _left(a + b))


def _is_inside(a: Any, b: Any) -> Any:
    return (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)


def _log_beta(a: Any, b: Any) -> Any:
    return mnp.log(_scale(a, b)) - a * mnp.log1p(b / a) - b * mnp.log1p(a / b)


def _slope_of_betaln(a: Any, b: Any) -> Any:
    """The digamma function of a less that of a + b, without cancellation for numbers > 0."""
    is_inside = _is_inside(a, b)
    c, d = (mnp.where(is_inside, each, 1) for each in (a, b))
    is_low = c < _FAR
    total, high = mnp.zeros_like(c), mnp.where(is_low, c + _FAR, c)
    for k in range(_FAR):
        total = total + d / (c + d + k) / (c + k)
    # Beyond, the difference of two series in 1 / x**2 is divided by that of their arguments.
    u, v, share = 1 / (high * high), 1 / (high + d), d / (high + d)
    value, divided = mnp.zeros_like(c), mnp.zeros_like(c)
    for order, each in zip(range(15, -2, -2), [*_STIRLING, 0], strict=True):
        value, divided = value * u + order * each, divided * (v * v) + value
    series = u * share * (1 + high * v) * divided
    found = mnp.log1p(d / high) + 0.5 * share / high + series
    found = -mnp.where(is_low, total + found, found)
    return mended(found, ~is_inside, lambda: ops.digamma(a) - ops.digamma(a + b))


@of_reals(lambda y, a, b: _slope_of_betaln(a, b), lambda y, a, b: _slope_of_betaln(b, a))
def betaln(a: Any, b: Any) -> Any:
    """The logarithm of abs(beta(a, b)). SciPy: special.betaln."""
    is_inside = _is_inside(a, b)
    safe = [mnp.where(is_inside, each, 1) for each in (a, b)]

    def outside() -> Any:
        other = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
        return mnp.where((a > 0) & (b > 0), -math.inf, other)

    return mended(_log_beta(*safe), ~is_inside, outside)


@of_reals(lambda y, a, b: y * _slope_of_betaln(a, b), lambda y, a, b: y * _slope_of_betaln(b, a))
def beta(a: Any, b: Any) -> Any:
    """The beta function, gamma(a) gamma(b) / gamma(a + b). SciPy: special.beta."""
    is_inside = _is_inside(a, b)
    c, d = (mnp.where(is_inside, each, 1) for each in (a, b))
    # What the shares are rounded by changes the powers as much as their sum, in all; where that is
    # more than 80, the powers are 0.
    total = mnp.minimum(c + d, mnp.finfo(c.dtype).max)
    share, other = c / total, d / total
    rest = total * ((1 - mnp.maximum(share, other)) - mnp.minimum(share, other))
    powers = _power(share, c) * _power(other, d) * mnp.exp(mnp.minimum(rest, 80))
    found = _scale(c, d) * powers

    def outside() -> Any:
        signs = _sign(a) * _sign(b) * _sign(a + b)
        other = signs * mnp.exp(ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b))
        return mnp.where((a > 0) & (b > 0), 0, other)

    return mended(found, ~is_inside, outside)


def _sign(x: Any) -> Any:
    """The sign of gamma(x)."""
    return mnp.where(
        (x < 0) & (mnp.floor(x) % 2 == 1), -1, mnp.where(x == 0, mnp.copysign(1, x), 1)
    )


# The incomplete gamma function.


@cache
def _temme() -> list[list[float]]:
    """Coefficients of powers of eta, for each power of 1 / a. Source: DLMF 8.12.8 to 8.12.12."""
    count, orders = 44, 10
    # mu as a series in eta, where eta**2 / 2 = mu - log(1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        products = sum((j * mu[j] * mu[n - j + 1] for j in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - products) / (n + 1))
    # eta / mu.
    inverse: list[Fraction] = []
    for n in range(count + 1):
        known = sum((mu[n - j + 1] * inverse[j] for j in range(n)), Fraction(0))
        inverse.append((1 if n == 0 else 0) - known)
    # What is left of gamma in powers of 1 / a: the derivative of its logarithm is Stirling's.
    numbers = [Fraction(1, 12), 0, Fraction(-1, 360), 0, Fraction(1, 1260), 0, Fraction(-1, 1680)]
    numbers += [0, Fraction(1, 1188), 0]
    left = [Fraction(1)]
    for n in range(1, orders + 1):
        total = sum((j * numbers[j - 1] * left[n - j] for j in range(1, n + 1)), Fraction(0))
        left.append(total / n)
    rows = [inverse[1:]]
    for k in range(1, orders):
        slope = [n * each for n, each in enumerate(rows[-1])][1:]
        # (slope + (-1)**k left[k] eta / mu) / eta, whose first coefficients cancel.
        row = [x + (-1) ** k * left[k] * y for x, y in zip(slope, inverse, strict=False)]
        rows.append(row[1:])
    return [[float(each) for each in reversed(row[:24])] for row in rows]


def _temme_parts(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q near x = a, for large a."""
    mu = (x - a) / a
    exponent = without_linear(mu)
    eta = mnp.sign(mu) * mnp.sqrt(-2 * exponent)
    total = mnp.zeros_like(a)
    for row in reversed(_temme()):
        total = total / a + _polynomial(row, eta)
    is_below = mu < 0
    rest = mnp.where(is_below, -total, total) / mnp.sqrt(2 * math.pi * a)
    share = 0.5 * scaled_complement(mnp.sqrt(-a * exponent)) + rest
    small = _powers(a, x) * share
    return mnp.where(is_below, small, 1 - small), mnp.where(is_below, 1 - small, small)


#: No argument needs so many terms: rounding may keep the last ones from vanishing.
_MOST = 2000


def _lower_series(a: Any, x: Any) -> Any:
    """The sum over k of x**k / ((a + 1) ... (a + k))."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        term = term * (x / (a + k))
        return term, total + term

    start = mnp.ones_like(x)
    half = mnp.finfo(x.dtype).eps / 2
    return _repeated(step, lambda state: state[0] > half * state[1], (start, start))[1]


def _fraction(first: Any, numbers: Any) -> Any:
    """1 / (b0 + a1 / (b1 + a2 / (b2 + ...))): `numbers(k)` gives ak and bk. Source: Lentz."""

    def step(k: Any, state: Any) -> Any:
        c, d, total, is_open = state
        above, below = numbers(k)
        d, c = 1 / (above * d + below), below + above / c
        # Rounding would add up while others go on.
        is_open = is_open & (mnp.abs(c * d - 1) > 2 * mnp.finfo(first.dtype).eps)
        return c, d, mnp.where(is_open, total * (c * d), total), is_open

    start = 1 / first
    state = (mnp.full_like(first, 1e30), start, start, first == first)
    return _repeated(step, lambda state: state[-1], state)[2]


def _repeated(step: Any, goes_on: Any, state: Any) -> Any:
    """The state after so many steps that no element goes on."""
    one = mnp.ones((), state[0].dtype)
    return while_loop(
        lambda each: (each[0] < _MOST) & mnp.any(goes_on(each[1])),
        lambda each: (each[0] + 1, step(*each)),
        (one, state),
    )[1]


def _alternating(a: Any, x: Any) -> Any:
    """The sum over k >= 1 of (-x)**k a / (k! (a + k)), for x <= 1."""
    total, term = mnp.zeros_like(x), mnp.ones_like(x)
    for k in range(1, 21):
        term = term * (-x / k)
        total = total + term * (a / (a + k))
    return total


def _of_powers(a: Any, x: Any) -> Any:
    """(x / a)**a exp(a - x), of numbers > 0.

    What its large exponent is rounded by, and the terms of that, is put into the result.
    """
    scale = mnp.where(a > 1, 0.25, 1)  # for the sum not to overflow
    a, x = a * scale, x * scale
    apart, total, one = x - a, x + a, mnp.ones_like(x)
    is_near, is_above = (apart > -0.5 * a) & (apart < a), x > a
    least, most = mnp.where(is_above, a, x), mnp.where(is_above, x, a)
    # Near a the exponent is -apart**2 / total, and what is small beside that.
    above = mnp.where(is_near, apart, x)
    # Where x / a would overflow, a * log(x / a) is nothing beside x.
    below = mnp.where(is_near, total, mnp.maximum(a, x * (mnp.finfo(x.dtype).tiny * 2**20)))
    ratio = above / below
    rest = _difference_of_products(above, one, ratio, below)
    rest = rest - mnp.where(is_near, ratio * (least - (total - most)), 0)
    first, second = mnp.where(is_near, ratio, mnp.log(ratio)), mnp.where(is_near, apart, a)
    product = first * second
    rest = rest * mnp.where(is_near, ratio, 1 / ratio)
    rest = rest + _difference_of_products(first, second, product, one)
    small = mnp.where(is_near, a * ratio * _odd_powers(ratio), product)
    large = mnp.where(is_near, product, apart)
    exponent = small - large
    part = exponent - small
    lost = (small - (exponent - part)) - (large + part)
    of_apart = mnp.where(is_above, (x - apart) - a, x - (apart + a))
    lost = (lost + mnp.where(is_near, -rest, rest - of_apart)) / scale
    return mnp.exp(exponent / scale) * (1 + mnp.where(mnp.abs(lost) < 1, lost, 0))


def _logarithm(a: Any, x: Any) -> Any:
    apart = (x - a) / a
    return apart + _without_linear(apart, x / a)


_powers = with_derivatives(
    _of_powers, lambda y, a, x: y * _logarithm(a, x), lambda y, a, x: y * ((a - x) / x)
)


def _gamma_density(a: Any, x: Any) -> Any:
    """x**a exp(-x) / gamma(a), of numbers > 0."""
    return mnp.sqrt(a) * _powers(a, x) / (math.sqrt(2 * math.pi) * _left(a))


def _slope_of_gammainc(a: Any, x: Any) -> Any:
    is_inside = _is_inside(a, x)
    c, y = (mnp.where(is_inside, each, 1) for each in (a, x))
    return mnp.where(is_inside, _gamma_density(c, y) / y, Igamma().integrand(a, x))


def _incomplete(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q, each by what has no cancellation."""
    is_inside = _is_inside(a, x)
    a, x, given = mnp.where(is_inside, a, 1), mnp.where(is_inside, x, 1), (a, x)
    mu = (x - a) / a
    is_near = (a >= 32) & (mnp.abs(mu) < 0.4)
    is_low = ~is_near & ((x <= 1) | (x < a))
    is_high = ~is_near & ~is_low
    central = _temme_parts(*[mnp.where(is_near, each, 32) for each in (a, x)])
    density = _gamma_density(a, x)
    series = _lower_series(mnp.where(is_low, a, 1), mnp.where(is_low, x, 0))
    low = mnp.minimum(density / a * series, 1)
    b, y = mnp.where(is_high, a, 1), mnp.where(is_high, x, 1e3)
    high = density * _fraction(y + 1 - b, lambda k: (-k * (k - b), y + 1 - b + 2 * k))
    # 1 - P of small x and a.
    c, z = mnp.minimum(a, 1), mnp.minimum(x, 1)
    near = mnp.minimum(c, 0.5)
    gammaln_above = near * _polynomial(_LOGARITHM, near) - mnp.log1p(near)
    exponent = c * mnp.log(z) - mnp.where(c < 0.5, gammaln_above, gammaln(1 + c))
    rest = -mnp.expm1(exponent) - mnp.exp(exponent) * _alternating(c, z)
    below = mnp.where((x <= 1) & (a < 1), rest, 1 - low)
    p = mnp.where(is_near, central[0], mnp.where(is_low, low, 1 - high))
    q = mnp.where(is_near, central[1], mnp.where(is_low, below, high))
    a, x = given
    is_end = ((a == 0) & (x > 0)) | ((x == math.inf) & (a < math.inf) & (a >= 0))
    end = mnp.where(
        is_end, 1, mnp.where((a > 0) & (x >= 0) & ((a < math.inf) | (x < math.inf)), 0, math.nan)
    )
    return mnp.where(is_inside, p, end), mnp.where(is_inside, q, 1 - end)


@of_reals(lambda y, a, x: Igamma(by=(0,))(a, x), lambda y, a, x: _slope_of_gammainc(a, x))
def gammainc(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function P(a, x). SciPy: special.gammainc."""
    return _incomplete(a, x)[0]


@of_reals(lambda y, a, x: -Igamma(by=(0,))(a, x), lambda y, a, x: -_slope_of_gammainc(a, x))
def gammaincc(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function Q(a, x). SciPy: special.gammaincc."""
    return _incomplete(a, x)[1]


def _difference_of_products(a: Any, b: Any, c: Any, d: Any) -> Any:
    """A b - c d: products of halves of digits have no error."""
    kind = mnp.finfo(a.dtype)

    def high(x: Any) -> Any:
        return ops.reduce_precision(x, kind.nexp, (kind.nmant - 1) // 2)

    e, f, g, h = map(high, (a, b, c, d))
    total = e * f - g * h
    return total + (e * (b - f) - g * (d - h)) + ((a - e) * b - (c - g) * d)


def _beta_apart(a: Any, b: Any, x: Any) -> Any:
    """The difference b x - a (1 - x), in which large products cancel."""
    y = 1 - x
    return _difference_of_products(b, x, a, y) - a * ((1 - y) - x)


def _beta_density(a: Any, b: Any, x: Any, y: Any, apart: Any) -> Any:
    """x**a y**b / beta(a, b), of numbers > 0, where y = 1 - x and `apart` is b x - a y."""
    powers = a * _without_linear(apart / a, x * (1 + b / a))
    powers = powers + b * _without_linear(-apart / b, y * (1 + a / b))
    return mnp.exp(powers) / _scale(a, b)


def _slope_of_betainc(a: Any, b: Any, x: Any) -> Any:
    is_inside = _is_inside(a, b) & (x > 0) & (x < 1)
    c, d, z = (mnp.where(is_inside, each, half) for each, half in ((a, 1), (b, 1), (x, 0.5)))
    found = _beta_density(c, d, z, 1 - z, _beta_apart(c, d, z)) / z / (1 - z)
    return mnp.where(is_inside, found, Betainc().integrand(a, b, x))


@of_reals(
    lambda y, a, b, x: Betainc(by=(0,))(a, b, x),
    lambda y, a, b, x: Betainc(by=(1,))(a, b, x),
    lambda y, a, b, x: _slope_of_betainc(a, b, x),
)
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I(a, b, x). SciPy: special.betainc."""
    is_inside = _is_inside(a, b) & (x > 0) & (x < 1)
    known = Betainc()(a, b, x)
    a, b, x = (mnp.where(is_inside, each, half) for each, half in ((a, 1), (b, 1), (x, 0.5)))
    y, apart = 1 - x, _beta_apart(a, b, x)
    is_mirrored = apart > 0
    apart = -mnp.abs(apart)
    a, b = mnp.where(is_mirrored, b, a), mnp.where(is_mirrored, a, b)
    x, y = mnp.where(is_mirrored, y, x), mnp.where(is_mirrored, x, y)
    density = _beta_density(a, b, x, y, apart)

    # Source: Didonato and Morris, Significant digit computation of the incomplete beta function.
    def below(k: Any) -> Any:
        whole = k + k * (b - k) * x / (a + 2 * k - 1)
        return whole + (a + k) * (1 - apart + k * (2 - x)) / (a + 2 * k + 1)

    def numbers(k: Any) -> Any:
        ratio = x / (a + 2 * k - 1)
        return (a + k - 1) * (a + b + k - 1) * k * (b - k) * ratio * ratio, below(k)

    found = density * _fraction(a * (1 - apart) / (a + 1), numbers)
    return mnp.where(is_inside, mnp.where(is_mirrored, 1 - found, found), known)
