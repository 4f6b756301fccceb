"""The gamma function and related functions in NumPy for f64; outside their domains as in chlo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from minixla_ops.elementwise.numpy_special import by_math

# Bernoulli's numbers B(2), B(4), ... B(24).
_NUMERATORS = (1, -1, 1, -1, 5, -691, 7, -3617, 43867, -174611, 854513, -236364091)
_DENOMINATORS = (6, 30, 42, 30, 66, 2730, 6, 510, 798, 330, 138, 2730)
BERNOULLI = [p / q for p, q in zip(_NUMERATORS, _DENOMINATORS, strict=True)]
# The number of terms summed before the Euler-Maclaurin formula is used.
_SUMMED = 9
# The root of digamma in f64, and the value there.
_ROOT = 1.4616321449683623
_AT_ROOT = -9.2412655217294275e-17
# Above this value, the asymptotic series of digamma is exact in f64.
_FAR = 10
# The number of terms in series around points.
_TERMS = 45


def zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Compute the Hurwitz zeta function, the sum of (q + k)**-s over k >= 0, for q > 0.

    It is infinite for s = 1, and for even s if q is one of 0, -1, -2, .... For other s and these
    q it is NaN. It is also NaN for s < 1, for infinite s and q > 1, and for q < 0 and s not an
    integer. For other q < 0 it follows the formula, as in chlo.
    """
    s, q = np.broadcast_arrays(s, q)
    total = np.zeros_like(s)
    for k in range(_SUMMED):
        total = total + np.power(q + k, -s)
    far = q + _SUMMED
    power = np.power(far, -s)
    rest, factor = power * (far / (s - 1) + 0.5), s / far
    for j, number in enumerate(BERNOULLI):
        rest = rest + power * factor * (number / math.factorial(2 * j + 2))
        factor = factor * ((s + (2 * j + 1)) / far) * ((s + (2 * j + 2)) / far)
    # Products of later terms may overflow after the sum has converged.
    total = np.where(power == 0, total, total + rest)
    is_open = (s < 1) | (np.isinf(s) & (q > 1)) | ((q <= 0) & (s != np.floor(s)))
    total = np.where(is_open, np.nan, total)
    at_pole = np.where(_is_even(s), np.inf, np.nan)
    total = np.where((q <= 0) & (q == np.floor(q)), at_pole, total)
    return np.where(s == 1, np.inf, total)


def polygamma(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute the n-th derivative of digamma; NaN if n is not 0, 1, 2, ..."""
    is_whole = (n == np.floor(n)) & (n >= 0) & np.isfinite(n)
    sign = np.where(_is_even(n), -1.0, 1.0)
    factorial = by_math(math.gamma, np.where(is_whole, n + 1, 1.0))
    values = np.where(n == 0, digamma(x), sign * factorial * zeta(n + 1, x))
    return np.where(is_whole, values, np.nan)


def _is_even(n: np.ndarray) -> np.ndarray:
    return (n == 2 * np.floor(n / 2)) & np.isfinite(n)


def lgamma(x: np.ndarray) -> np.ndarray:
    """Compute log(abs(gamma(x))); infinite at 0, -1, -2, ..."""
    # Near the roots, expand gamma(2 + z) without cancellation, and use gamma(x + 1) = x gamma(x).
    near = (x > 0.5) & (x < 3.5)
    whole = np.where(near, np.rint(x), 2.0)
    z = np.where(near, x - whole, 0.0)
    shift = np.where(whole == 1, -np.log1p(z), np.where(whole == 3, np.log(2 + z), 0.0))
    slopes = _slopes(2.0)
    integrals = slopes / np.arange(2, len(slopes) + 2)
    series = z * _polynomial(z, [1 - np.euler_gamma, *integrals]) + shift
    return np.where(near, series, by_math(math.lgamma, x, math.inf))


def digamma(x: np.ndarray) -> np.ndarray:
    """Compute the derivative of lgamma; NaN at 0, -1, -2, ..."""
    is_left = x <= 0
    fraction = x - np.rint(x)
    positive = _digamma_of_positive(np.where(is_left, 1 - x, x))
    values = np.where(is_left, positive - np.pi / np.tan(np.pi * fraction), positive)
    return np.where(is_left & ((x == np.floor(x)) | np.isinf(x)), np.nan, values)


def _digamma_of_positive(x: np.ndarray) -> np.ndarray:
    passed, far = np.zeros_like(x), x
    for _ in range(_FAR):
        is_low = far < _FAR
        passed = passed + np.where(is_low, 1 / far, 0.0)
        far = np.where(is_low, far + 1, far)
    square = 1 / (far * far)
    numbers = [number / (2 * j + 2) for j, number in enumerate(BERNOULLI[:8])]
    values = np.log(far) - (0.5 / far + square * _polynomial(square, numbers)) - passed
    # Avoid cancellation near the root, and one above it.
    is_above = (x - _ROOT > 0.6) & (x < 3)
    z = np.where(is_above, x - 1, x) - _ROOT
    near = np.abs(z) <= 0.6
    z = np.where(near, z, 0.0)
    series = _AT_ROOT + z * _polynomial(z, _slopes(_ROOT)) + np.where(is_above, 1 / (x - 1), 0.0)
    return np.where(near, series, values)


def _polynomial(x: np.ndarray, coefficients: Sequence[float] | np.ndarray) -> np.ndarray:
    """Evaluate a polynomial; the constant term is first."""
    # numpy.polynomial takes 5 % of the time of `import minixla` to load.
    return np.polyval(coefficients[::-1], x)


@cache
def _slopes(x: float) -> np.ndarray:
    """Return the coefficients of (digamma(z + x) - digamma(x)) / z."""
    k = np.arange(2.0, _TERMS)
    return np.where(k % 2 == 0, 1.0, -1.0) * zeta(k, np.full_like(k, x))
