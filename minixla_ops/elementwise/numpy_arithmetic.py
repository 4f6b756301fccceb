"""Arithmetic as XLA has it where NumPy's differs: of integers, of complex numbers and of zeros.

Functions of two arrays of one dtype (8 bits or more), for the `numpy` of binary operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minixla_ops.elementwise.numpy_special import with_parts


def quotient(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The quotient; of integers rounded toward zero, all bits set where rhs is 0."""
    if lhs.dtype.kind == "c":
        return _complex_quotient(lhs, rhs)
    if lhs.dtype.kind not in "iu":
        return np.divide(lhs, rhs)
    one, ones = lhs.dtype.type(1), ~lhs.dtype.type(0)
    divisor = np.where(rhs == 0, one, rhs)
    return np.where(rhs == 0, ones, (lhs - np.fmod(lhs, divisor)) // divisor)


def remainder(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """What is left of lhs after the quotient toward zero; an integer itself where rhs is 0."""
    if lhs.dtype.kind not in "iu":
        return np.fmod(lhs, rhs)
    divisor = np.where(rhs == 0, lhs.dtype.type(1), rhs)
    return np.where(rhs == 0, lhs, np.fmod(lhs, divisor))


def maximum(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The larger: NaN if either is, +0 of different zeros; complex numbers lexicographically."""
    if lhs.dtype.kind == "c":
        return np.where(lexicographic(np.greater, lhs, rhs), lhs, rhs)
    if lhs.dtype.kind != "f":
        return np.maximum(lhs, rhs)
    return np.where((lhs == 0) & (rhs == 0), lhs + rhs, np.maximum(lhs, rhs))


def minimum(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The smaller: NaN if either is, -0 of different zeros; complex numbers lexicographically."""
    if lhs.dtype.kind == "c":
        return np.where(lexicographic(np.less, lhs, rhs), lhs, rhs)
    return -maximum(-lhs, -rhs) if lhs.dtype.kind == "f" else np.minimum(lhs, rhs)


def lexicographic(
    compare: Callable[[np.ndarray, np.ndarray], np.ndarray], lhs: np.ndarray, rhs: np.ndarray
) -> np.ndarray:
    """Complex numbers compared by real parts and, where these are equal, by imaginary ones."""
    a, b, c, d = *_parts(lhs), *_parts(rhs)
    return np.where(a == c, compare(b, d), compare(a, c))


def _parts(array: Any) -> tuple[np.ndarray, np.ndarray]:
    return array.real, array.imag


def power(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The power; of integers wrapped, and rounded toward zero where rhs is negative."""
    if lhs.dtype.kind == "c":
        return _complex_power(lhs, rhs)
    if lhs.dtype.kind not in "iu":
        return np.power(lhs, rhs)
    vanishes = (rhs < 0) & (lhs != 1) & (lhs != -1)
    raised = np.power(lhs, np.where(rhs < 0, rhs & 1, rhs))
    return np.where(vanishes, lhs.dtype.type(0), raised)


def atan2(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The angle of the point (rhs, lhs); continued to complex numbers."""
    if lhs.dtype.kind != "c":
        return np.arctan2(lhs, rhs)
    unit, inverse = (lhs.dtype.type(complex(0, sign)) for sign in (1, -1))
    radius = np.sqrt(rhs * rhs + lhs * lhs)
    return inverse * np.log(_complex_quotient(rhs + unit * lhs, radius))


def _complex_power(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """exp(rhs * log(lhs)), and XLA's values where an operand is 0, 1 or infinite."""
    a, b, c, d = *_parts(lhs), *_parts(rhs)
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
    """Smith's quotient; where it is not a number, that of C99's Annex G."""
    a, b, c, d = *_parts(lhs), *_parts(rhs)
    is_steep = np.abs(c) < np.abs(d)
    ratio = np.where(is_steep, c, d) / np.where(is_steep, d, c)
    scale = np.where(is_steep, d + ratio * c, c + ratio * d)
    real = np.where(is_steep, a * ratio + b, a + b * ratio) / scale
    imag = np.where(is_steep, b * ratio - a, b - a * ratio) / scale
    is_open = np.isnan(real) & np.isnan(imag)
    values = with_parts(real, imag)
    return np.where(is_open, _limit_quotient(lhs, rhs, values), values)


def _limit_quotient(lhs: np.ndarray, rhs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Quotients by zero, and of or by infinities; `others` elsewhere."""
    a, b, c, d = *_parts(lhs), *_parts(rhs)
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
