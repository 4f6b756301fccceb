"""Functions that NumPy lacks, defines differently from XLA, or computes inaccurately.

Functions of one operand take and return f64 and, except for erf and related functions, c128. If an
operand is not finite, complex functions follow Annex G of the C standard, like StableHLO's
interpreter and NumPy. Functions of two operands support every dtype of at least 8 bits; they are
the `numpy` of binary operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np


def erf_inv(y: np.ndarray) -> np.ndarray:
    """Invert erf: start with 0.3 % accuracy (Winitzki, 2008), then apply Halley's method."""
    size = np.abs(y)
    rest = 1 - size
    logarithm = np.log1p(-size * size)
    middle = 2 / (np.pi * 0.147) + logarithm / 2
    # Avoid cancellation if the logarithm is small.
    x = np.sqrt(-logarithm / 0.147 / (np.sqrt(middle * middle - logarithm / 0.147) + middle))
    x = np.where(size < 1e-3, size, np.where(size < 1, x, 0.0))
    for _ in range(3):
        error = np.where(size < 0.5, erf(x) - size, rest - erfc(x))
        step = error * (np.sqrt(np.pi) / 2) * np.exp(x * x)
        x = x - step / (1 + x * step)
    x = np.where(size < 1, x, np.where(size == 1, np.inf, np.nan))
    return np.copysign(x, y)


def by_math(
    function: Callable[[float], float], x: np.ndarray, at_pole: float = math.nan
) -> np.ndarray:
    """Apply a function of Python's math to each element; overflow gives infinity."""

    def value(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_pole

    return np.asarray(np.frompyfunc(value, 1, 1)(x), np.float64)


erf, erfc = partial(by_math, math.erf), partial(by_math, math.erfc)


def with_parts(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Build a complex array, keeping signs of zeros (`real + 1j * imag` loses them)."""
    parts = np.stack(np.broadcast_arrays(real, imag), axis=-1)
    return parts.view(np.result_type(parts.dtype, np.complex64))[..., 0]


def cbrt(x: np.ndarray) -> np.ndarray:
    """Compute the cube root: real for real numbers, the principal root for complex numbers."""
    if x.dtype.kind != "c":
        return np.cbrt(x)
    # An eighth of a large modulus does not overflow.
    scale = np.where(np.isinf(np.abs(x)), 8, 1)
    modulus = np.cbrt(scale) * np.cbrt(np.hypot(np.real(x) / scale, np.imag(x) / scale))
    angle = np.angle(x) / 3
    return with_parts(
        modulus * np.cos(angle), np.where(angle == 0, np.imag(x), modulus * np.sin(angle))
    )


def expm1(x: np.ndarray) -> np.ndarray:
    """Compute exp(x) - 1 without cancellation near 0."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    power = np.exp(x)
    near = np.expm1(np.real(x)) * np.cos(np.imag(x)) - 2 * np.sin(np.imag(x) / 2) ** 2
    return with_parts(np.where(np.abs(np.real(x)) < 1, near, np.real(power) - 1), np.imag(power))


def log1p(x: np.ndarray) -> np.ndarray:
    """Compute log(1 + x) without cancellation near 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    far = np.log(with_parts(1 + np.real(x), np.imag(x)))
    near = np.log1p(np.real(x) * (2 + np.real(x)) + np.imag(x) * np.imag(x)) / 2
    return with_parts(np.where(np.abs(x) < 0.5, near, np.real(far)), np.imag(far))


def logistic(x: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(-x)) with the exponential that does not overflow."""
    is_left = np.real(x) < 0
    power = np.exp(np.where(is_left, x, -x))
    return np.where(is_left, power, 1) / (1 + power)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """Compute 1 / sqrt(x)."""
    reciprocal = 1 / np.sqrt(x)
    if x.dtype.kind != "c":
        return reciprocal
    # NumPy's quotient by a complex infinity is NaN; its limit is 0.
    zero = with_parts(np.zeros_like(np.real(x)), -np.copysign(0.0, np.imag(x)))
    return np.where(np.isinf(x), zero, reciprocal)


def sign(x: np.ndarray) -> np.ndarray:
    """Compute the sign: -1, 0 or 1; zeros and NaNs are kept; x / abs(x) for complex numbers."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind != "c":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))
    # Scale by the larger part, so that the modulus neither overflows nor loses digits.
    larger = np.maximum(np.abs(np.real(x)), np.abs(np.imag(x)))
    real, imag = np.real(x) / larger, np.imag(x) / larger
    modulus = np.hypot(real, imag)
    return np.where(x == 0, x, with_parts(real / modulus, imag / modulus))


def quotient(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the quotient; integers round toward zero, all bits are set if rhs is 0."""
    if lhs.dtype.kind == "c":
        return _complex_quotient(lhs, rhs)
    if lhs.dtype.kind not in "iu":
        return np.divide(lhs, rhs)
    one, ones = lhs.dtype.type(1), ~lhs.dtype.type(0)
    divisor = np.where(rhs == 0, one, rhs)
    return np.where(rhs == 0, ones, (lhs - np.fmod(lhs, divisor)) // divisor)


def remainder(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the remainder of the quotient toward zero; lhs for integers if rhs is 0."""
    if lhs.dtype.kind not in "iu":
        return np.fmod(lhs, rhs)
    divisor = np.where(rhs == 0, lhs.dtype.type(1), rhs)
    return np.where(rhs == 0, lhs, np.fmod(lhs, divisor))


def _chosen(is_first: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Choose one of two complex numbers: one that is NaN, else lhs if `is_first`."""
    return np.where(np.isnan(lhs) | is_first & ~np.isnan(rhs), lhs, rhs)


def maximum(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the maximum: NaN if either is, +0 over -0; complex numbers lexicographically."""
    if lhs.dtype.kind == "c":
        return _chosen(lexicographic(np.greater, lhs, rhs), lhs, rhs)
    if lhs.dtype.kind != "f":
        return np.maximum(lhs, rhs)
    return np.where((lhs == 0) & (rhs == 0), lhs + rhs, np.maximum(lhs, rhs))


def minimum(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the minimum: NaN if either is, -0 over +0; complex numbers lexicographically."""
    if lhs.dtype.kind == "c":
        return _chosen(lexicographic(np.less, lhs, rhs), lhs, rhs)
    return -maximum(-lhs, -rhs) if lhs.dtype.kind == "f" else np.minimum(lhs, rhs)


def lexicographic(
    compare: Callable[[np.ndarray, np.ndarray], np.ndarray], lhs: np.ndarray, rhs: np.ndarray
) -> np.ndarray:
    """Compare complex numbers by real parts and, if these are equal, by imaginary parts."""
    a, b, c, d = np.real(lhs), np.imag(lhs), np.real(rhs), np.imag(rhs)
    return np.where(a == c, compare(b, d), compare(a, c))


def power(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the power; integers wrap, and round toward zero if rhs is negative."""
    if lhs.dtype.kind == "c":
        return _complex_power(lhs, rhs)
    if lhs.dtype.kind not in "iu":
        return _real_power(lhs, rhs)
    vanishes = (rhs < 0) & (lhs != 1) & (lhs != -1)
    raised = np.power(lhs, np.where(rhs < 0, rhs & 1, rhs))
    return np.where(vanishes, lhs.dtype.type(0), raised)


def _real_power(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute NumPy's power without its special case of one exponent for all elements.

    For the exponent 0.5 NumPy computes square roots: NaN for -inf, and -0 for -0.
    """
    shape = np.broadcast_shapes(np.shape(lhs), np.shape(rhs))
    base, exponent = (np.broadcast_to(operand, shape).ravel() for operand in (lhs, rhs))
    if exponent.size == 1:
        base, exponent = np.repeat(base, 2), np.repeat(exponent, 2)
    return np.power(base, exponent)[: math.prod(shape)].reshape(shape)


def atan2(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute the angle of the point (rhs, lhs), continued to complex numbers."""
    if lhs.dtype.kind != "c":
        return np.arctan2(lhs, rhs)
    unit, inverse = (lhs.dtype.type(complex(0, sign)) for sign in (1, -1))
    radius = np.sqrt(rhs * rhs + lhs * lhs)
    return inverse * np.log(_complex_quotient(rhs + unit * lhs, radius))


def _complex_power(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute exp(rhs * log(lhs)), with XLA's values if an operand is 0, 1 or infinite."""
    a, b, c, d = np.real(lhs), np.imag(lhs), np.real(rhs), np.imag(rhs)
    radius, angle = np.abs(lhs), np.angle(lhs)
    size, turn = radius**c * np.exp(-d * angle), c * angle + d * np.log(radius)
    is_infinite, grows, shrinks = (a == np.inf) & (b == 0), (c > 0) & (d == 0), (c < 0) & (d == 0)
    special = {
        1: (rhs == 0) | (lhs == 1),
        0: ((lhs == 0) & grows) | (is_infinite & shrinks),
        np.inf: is_infinite & grows,
    }
    values = [lhs.dtype.type(value) for value in special]
    general = with_parts(size * np.cos(turn), size * np.sin(turn))
    return np.select([*special.values()], values, general)


def _complex_quotient(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Compute Smith's quotient; if it is NaN, the quotient of C99's Annex G."""
    a, b, c, d = np.real(lhs), np.imag(lhs), np.real(rhs), np.imag(rhs)
    is_steep = np.abs(c) < np.abs(d)
    ratio = np.where(is_steep, c, d) / np.where(is_steep, d, c)
    scale = np.where(is_steep, d + ratio * c, c + ratio * d)
    real = np.where(is_steep, a * ratio + b, a + b * ratio) / scale
    imag = np.where(is_steep, b * ratio - a, b - a * ratio) / scale
    is_open = np.isnan(real) & np.isnan(imag)
    values = with_parts(real, imag)
    return np.where(is_open, _limit_quotient(lhs, rhs, values), values)


def _limit_quotient(lhs: np.ndarray, rhs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Compute quotients by zero and with infinities; return `others` elsewhere."""
    a, b, c, d = np.real(lhs), np.imag(lhs), np.real(rhs), np.imag(rhs)
    infinity = np.copysign(np.array(np.inf, a.dtype), c)
    e, f, g, h = (np.copysign(np.isinf(part).astype(part.dtype), part) for part in (a, b, c, d))
    by_zero = with_parts(infinity * a, infinity * b)
    of_infinity = with_parts(np.inf * (e * c + f * d), np.inf * (f * c - e * d))
    by_infinity = with_parts(0 * (a * g + b * h), 0 * (b * g - a * h))
    cases = [
        (rhs == 0) & ~(np.isnan(a) & np.isnan(b)),
        np.isinf(lhs) & np.isfinite(rhs),
        np.isfinite(lhs) & np.isinf(rhs),
    ]
    return np.select(cases, [by_zero, of_infinity, by_infinity], others)
