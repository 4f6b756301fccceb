"""The gamma function and functions of it, more accurate than sums of logarithms.

A power divided by gamma functions is small where each of them is huge. So all functions use the
scaled gamma function, gamma(a) exp(a) a**-a sqrt(a / (2 pi)), which is nearly 1.
"""

import math
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.core.tracing import with_flags
from minixla.numpy import operands
from minixla.numpy.element_functions import mended
from minixla.numpy.operands import kind_of, lifted
from minixla.scipy.real_functions import SHARED, of_reals
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.numpy_gamma import zeta

# gamma(2 + z) = _ABOVE(z) / _BELOW(z) for z from 0 to 1; highest powers first. Source: Cephes.
_ABOVE = [1.60119522476751861407e-4, 1.19135147006586384913e-3, 1.04213797561761569935e-2]
_ABOVE += [4.76367800457137231464e-2, 2.07448227648435975150e-1, 4.94214826801497100753e-1, 1.0]
_BELOW = [-2.31581873324120129819e-5, 5.39605580493303397842e-4, -4.45641913851797240494e-3]
_BELOW += [1.18139785222060435552e-2, 3.58236398605498653373e-2, -2.34591795718243348568e-1]
_BELOW += [7.14304917030273074085e-2, 1.0]
# Stirling's series: the logarithm of the scaled gamma function, in powers of 1 / a**2, times a.
STIRLING = [-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360]
STIRLING += [1 / 12]
# The logarithm of gamma(2 + z) divided by z, for z from -0.5 to 0.5.
_ORDERS = np.arange(28.0, 1, -1)
_LOGARITHM = [
    *(zeta(_ORDERS, np.full_like(_ORDERS, 2)) / _ORDERS * (-1) ** _ORDERS).tolist(),
    1 - np.euler_gamma,
]
#: From here on the series is exact in f64.
FAR = 10


def polynomial(coefficients: list[float], x: Any, of_f32: int = 0) -> Any:
    """Evaluate a polynomial; a series needs only the last `of_f32` coefficients in f32."""
    coefficients = coefficients[-of_f32:] if kind_of(x) is F32 else coefficients
    total = 0 * x + coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _stirling(a: Any) -> Any:
    a = mnp.maximum(a, FAR)
    return polynomial(STIRLING, 1 / (a * a), 4) / a


def _power(x: Any, y: Any) -> Any:
    return ops.pow(x, y)


def _shifted(x: Any, whole: Any) -> tuple[Any, Any, Any]:
    """Return z, and the factor and the divisor that turn gamma(2 + z) into gamma(x).

    Args:
        x: numbers from 0 to 10.
        whole: x, rounded.
    """
    z, product = x - whole, mnp.ones_like(x)
    for number in range(2, FAR):
        product = mnp.where(whole > number, product * (z + number), product)
    return z, product, mnp.where(whole < 2, mnp.where(whole < 1, x * (1 + x), x), 1)


def _near(x: Any) -> Any:
    """Compute gamma for numbers from 0 to 10."""
    z, product, quotient = _shifted(x, mnp.floor(x))
    return product * polynomial(_ABOVE, z) / (quotient * polynomial(_BELOW, z))


def left_of_gamma(a: Any) -> Any:
    """Compute the scaled gamma function for numbers > 0."""
    low = mnp.minimum(a, FAR)
    near = _near(low) * mnp.exp(low) * _power(low, 0.5 - low) / math.sqrt(2 * math.pi)
    return mnp.where(a < FAR, near, mnp.exp(_stirling(a)))


@of_reals(lambda y, x: y * ops.digamma(x))
def gamma(x: ArrayLike) -> Array:
    """Compute the gamma function (JAX: `jax.scipy.special.gamma`).

    It is infinite at 0 and NaN at negative integers.

    Example:
        >>> mx.scipy.special.gamma(4.0)
        Array(6., dtype=float32, weak_type=True)
    """
    x = lifted(x)
    size = mnp.abs(x)
    near = _near(mnp.minimum(size, FAR))

    def above() -> Any:
        far = mnp.clip(size, FAR, 40 if kind_of(x) is F32 else 180)  # then gamma is infinite
        half = _power(far, 0.5 * far - 0.25)
        return math.sqrt(2 * math.pi) * half * mnp.exp(-far) * mnp.exp(_stirling(far)) * half

    value = mended(near, size >= FAR, above)

    def mirrored() -> Any:
        part = size - mnp.round(size)
        sine = mnp.sin(math.pi * part) * mnp.where(mnp.round(size) % 2 == 1, -1, 1)
        below = mnp.where(part == 0, math.nan, -math.pi / (sine * value) / size)
        return mnp.where(size < 1e-20, 1 / x, below)

    return mended(value, x <= 0, mirrored)


@of_reals(lambda y, n: y * ops.digamma(n + 1))
def _factorial(n: Any) -> Any:
    n = mnp.minimum(n, 1e3)
    above = n + 1
    # Correct for the rounding error of n + 1, by the digamma function.
    value = gamma(above) * (1 + (n - above + 1) * mnp.log(mnp.maximum(above, 1) - 0.5))
    is_whole = (n == mnp.floor(n)) & (mnp.abs(value) * mnp.finfo(value.dtype).eps < 1)
    return mnp.where(n < 0, 0, mnp.where(is_whole, mnp.round(value), value))


@documented(SHARED)
@with_flags
def factorial(n: Any, exact: bool = False) -> Array:
    """Compute gamma(n + 1), or 0 where n < 0 (JAX: `jax.scipy.special.factorial`).

    The result is rounded where n is an integer.

    Args:
        n: an array of reals.
        exact: must be False, because arrays hold no large integers.

    Raises:
        AttributeValueError: `exact` is true.

    Example:
        >>> mx.scipy.special.factorial(5.0)
        Array(120., dtype=float32, weak_type=True)
    """
    if exact:
        problem = "exact=True needs integers of any size, which arrays cannot hold"
        advice = "Call math.factorial, or give exact=False."
        raise operands.value_error("factorial", problem, advice)
    return _factorial(n)


def log_gamma_above(z: Any) -> Any:
    """Compute log(gamma(1 + z)) for numbers from 0 to 0.5."""
    return z * polynomial(_LOGARITHM, z) - mnp.log1p(z)


@of_reals(lambda y, x: ops.digamma(x))
def gammaln(x: ArrayLike) -> Array:
    """Compute log(abs(gamma(x))), accurately near its zeros (JAX: `jax.scipy.special.gammaln`).

    The zeros are 1 and 2. The result is infinite at 0, -1, -2, ...

    Example:
        >>> mx.scipy.special.gammaln(4.0)
        Array(1.7917603, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    size = mnp.abs(x)
    is_far = size >= FAR
    z, product, quotient = _shifted(size, mnp.round(size))
    is_low = size < 1.5
    log = mnp.log(mnp.where(is_far, size, mnp.where(is_low, quotient, product)))
    near = z * polynomial(_LOGARITHM, z, 15) + mnp.where(is_low, -log, log)
    far = (size - 0.5) * (log - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + _stirling(size)
    value = mnp.where(is_far, far, near)

    def mirrored() -> Any:
        sine = mnp.abs(mnp.sin(math.pi * (x - mnp.round(x))))
        inner = math.log(math.pi) - mnp.log(-x) - mnp.log(sine) - value
        return mnp.where(sine > 0, inner, math.inf)

    return mended(value, x < 0, mirrored)


def without_linear(x: Any) -> Any:
    """Compute log(1 + x) - x for numbers from -0.5 to 1, without cancellation."""
    ratio = x / (2 + x)
    return ratio * (odd_powers(ratio) - x)


def odd_powers(ratio: Any) -> Any:
    """Compute log((1 + r) / (1 - r)) / r - 2 for numbers up to a third."""
    square = ratio * ratio
    return 2 * square * polynomial([1 / k for k in range(35, 1, -2)], square, 9)


def scale_of_beta(a: Any, b: Any) -> Any:
    """Compute sqrt(2 pi (a + b) / (a b)) times the scaled gamma(a) gamma(b) / gamma(a + b)."""
    root = math.sqrt(2 * math.pi) * mnp.sqrt(1 / a + 1 / b)
    both = mnp.minimum(a, b) >= FAR
    series = mnp.exp(_stirling(a) + _stirling(b) - _stirling(a + b))
    product = left_of_gamma(a) * left_of_gamma(b) / left_of_gamma(a + b)
    return root * mnp.where(both, series, product)


def are_inside(a: Any, b: Any) -> Any:
    """Test whether both are above 0 and finite."""
    return (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)


def _slope_of_betaln(a: Any, b: Any) -> Any:
    """Compute digamma(a) - digamma(a + b), without cancellation for numbers > 0."""
    is_inside = are_inside(a, b)
    c, d = (mnp.where(is_inside, operand, 1) for operand in (a, b))
    is_low = c < FAR
    total, high = mnp.zeros_like(c), mnp.where(is_low, c + FAR, c)
    for k in range(FAR):
        total = total + d / (c + d + k) / (c + k)
    # Beyond FAR, divide the difference of two series in 1 / x**2 by that of their arguments.
    u, v, share = 1 / (high * high), 1 / (high + d), d / (high + d)
    value, divided = mnp.zeros_like(c), mnp.zeros_like(c)
    for order, coefficient in zip(range(15, -2, -2), [*STIRLING, 0], strict=True):
        value, divided = value * u + order * coefficient, divided * (v * v) + value
    series = u * share * (1 + high * v) * divided
    found = mnp.log1p(d / high) + 0.5 * share / high + series
    found = -mnp.where(is_low, total + found, found)
    return mended(found, ~is_inside, lambda: ops.digamma(a) - ops.digamma(a + b))


@of_reals(lambda y, a, b: _slope_of_betaln(a, b), lambda y, a, b: _slope_of_betaln(b, a))
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute log(abs(beta(a, b))) (JAX: `jax.scipy.special.betaln`).

    Example:
        >>> mx.scipy.special.betaln(2.0, 3.0)
        Array(-2.484907, dtype=float32, weak_type=True)
    """
    a, b = lifted(a), lifted(b)
    is_inside = are_inside(a, b)
    c, d = (mnp.where(is_inside, operand, 1) for operand in (a, b))
    least, most, scale = mnp.minimum(c, d), mnp.maximum(c, d), mnp.log(scale_of_beta(c, d))
    share = least / most
    value = scale - (least * mnp.log1p(most / least) + most * mnp.log1p(share))

    def rare() -> Any:
        far = scale - least * (mnp.log(most) - mnp.log(least) + 1)
        other = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
        outside = mnp.where((a > 0) & (b > 0), -math.inf, other)
        return mnp.where(is_inside, far, outside)

    # One quotient may overflow if the other is 0.
    return mended(value, ~is_inside | (share < mnp.finfo(c.dtype).tiny), rare)


@of_reals(lambda y, a, b: y * _slope_of_betaln(a, b), lambda y, a, b: y * _slope_of_betaln(b, a))
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute the beta function, gamma(a) gamma(b) / gamma(a + b) (JAX: `jax.scipy.special.beta`).

    Example:
        >>> mx.scipy.special.beta(2.0, 3.0)
        Array(0.0833333, dtype=float32, weak_type=True)
    """
    a, b = lifted(a), lifted(b)
    is_inside = are_inside(a, b)
    c, d = (mnp.where(is_inside, operand, 1) for operand in (a, b))
    # Rounding errors of the shares change the powers by the same factor as their sum does. Where
    # the exponent of this factor is above 80, the powers are 0.
    total = mnp.minimum(c + d, mnp.finfo(c.dtype).max)
    share, other = c / total, d / total
    rest = total * ((1 - mnp.maximum(share, other)) - mnp.minimum(share, other))
    powers = _power(share, c) * _power(other, d) * mnp.exp(mnp.minimum(rest, 80))
    scale = scale_of_beta(c, d)

    def rare() -> Any:
        low = mnp.minimum(c, d)
        far = scale * _power(low, low) * _power(total, -low) * mnp.exp(-low)
        signs = _sign(a) * _sign(b) * _sign(a + b)
        other = signs * mnp.exp(ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b))
        return mnp.where(is_inside, far, mnp.where((a > 0) & (b > 0), 0, other))

    # One share may be 0 if the other is 1.
    is_far = mnp.minimum(share, other) < 2 * mnp.finfo(c.dtype).tiny
    return mended(scale * powers, ~is_inside | is_far, rare)


def _sign(x: Any) -> Any:
    """Return the sign of gamma(x)."""
    return mnp.where(
        (x < 0) & (mnp.floor(x) % 2 == 1), -1, mnp.where(x == 0, mnp.copysign(1, x), 1)
    )
