"""Functions that NumPy lacks, or computes with less care than a reference needs.

They take and return f64 and, erf and its relatives aside, c128. Complex functions follow Annex G
of the C standard where an operand is not finite, as StableHLO's interpreter and NumPy do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np


def erf(x: np.ndarray) -> np.ndarray:
    """The error function."""
    return by_math(math.erf, x)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), accurate where that is small."""
    return by_math(math.erfc, x)


def erf_inv(y: np.ndarray) -> np.ndarray:
    """The inverse of erf: a start that is right to 0.3 % (Winitzki, 2008), and Halley's steps."""
    size = np.abs(y)
    rest = 1 - size
    logarithm = np.log1p(-size * size)
    middle = 2 / (np.pi * 0.147) + logarithm / 2
    # Without cancellation where the logarithm is small.
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
    """A function of Python's math of each element; infinite where it overflows."""

    def value(each: float) -> float:
        try:
            return function(each)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_pole

    return np.asarray(np.frompyfunc(value, 1, 1)(x), np.float64)


def polynomial(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    """A polynomial, the coefficient of the lowest degree first."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def with_parts(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """The complex array of these parts, signs of zeros included (`real + 1j * imag` loses them)."""
    parts = np.stack(np.broadcast_arrays(real, imag), axis=-1)
    return parts.view(np.result_type(parts.dtype, np.complex64))[..., 0]


def cbrt(x: np.ndarray) -> np.ndarray:
    """The cube root: real of a real number, the principal one of a complex number."""
    if x.dtype.kind != "c":
        return np.cbrt(x)
    # An eighth of a large modulus cannot overflow.
    scale = np.where(np.isinf(np.abs(x)), 8, 1)
    modulus = np.cbrt(scale) * np.cbrt(np.hypot(np.real(x) / scale, np.imag(x) / scale))
    angle = np.angle(x) / 3
    return with_parts(
        modulus * np.cos(angle), np.where(angle == 0, np.imag(x), modulus * np.sin(angle))
    )


def expm1(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1 without cancellation near 0."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    power = np.exp(x)
    near = np.expm1(np.real(x)) * np.cos(np.imag(x)) - 2 * np.sin(np.imag(x) / 2) ** 2
    return with_parts(np.where(np.abs(np.real(x)) < 1, near, np.real(power) - 1), np.imag(power))


def log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x) without cancellation near 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    far = np.log(with_parts(1 + np.real(x), np.imag(x)))
    near = np.log1p(np.real(x) * (2 + np.real(x)) + np.imag(x) * np.imag(x)) / 2
    return with_parts(np.where(np.abs(x) < 0.5, near, np.real(far)), np.imag(far))


def logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), with the exponential of the half-plane where it does not overflow."""
    is_left = np.real(x) < 0
    power = np.exp(np.where(is_left, x, -x))
    return np.where(is_left, power, 1) / (1 + power)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    reciprocal = 1 / np.sqrt(x)
    if x.dtype.kind != "c":
        return reciprocal
    # NumPy's quotient by a complex infinity is not a number; its limit is 0.
    zero = with_parts(np.zeros_like(np.real(x)), -np.copysign(0.0, np.imag(x)))
    return np.where(np.isinf(x), zero, reciprocal)


def sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1, zeros and NaNs being their own sign; of a complex number x / abs(x)."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind != "c":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))
    # Scaled by its larger part, so that the modulus neither overflows nor loses digits.
    larger = np.maximum(np.abs(np.real(x)), np.abs(np.imag(x)))
    real, imag = np.real(x) / larger, np.imag(x) / larger
    modulus = np.hypot(real, imag)
    return np.where(x == 0, x, with_parts(real / modulus, imag / modulus))
