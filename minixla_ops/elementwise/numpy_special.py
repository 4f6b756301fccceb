"""Functions that NumPy lacks, or computes with less care than a reference needs.

They take and return f64 and, erf and its relatives aside, c128. Complex functions follow Annex G
of the C standard where an operand is not finite, as StableHLO's interpreter and NumPy do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

# fdlibm, s_erf.c (Sun Microsystems, 1993): erf is x + x P/Q below 0.84375, 0.845... + P/Q below
# 1.25, and 1 - exp(-x**2 - 0.5625 + R/S) / x above, with R/S in two pieces. Lowest degree first.
_EFX = 1.28379167095512586316e-01
_ERX = 8.45062911510467529297e-01
_PP = (
    1.28379167095512558561e-01,
    -3.25042107247001499370e-01,
    -2.84817495755985104766e-02,
    -5.77027029648944159157e-03,
    -2.37630166566501626084e-05,
)
_QQ = (
    1.0,
    3.97917223959155352819e-01,
    6.50222499887672944485e-02,
    5.08130628187576562776e-03,
    1.32494738004321644526e-04,
    -3.96022827877536812320e-06,
)
_PA = (
    -2.36211856075265944077e-03,
    4.14856118683748331666e-01,
    -3.72207876035701323847e-01,
    3.18346619901161753674e-01,
    -1.10894694282396677476e-01,
    3.54783043256182359371e-02,
    -2.16637559486879084300e-03,
)
_QA = (
    1.0,
    1.06420880400844228286e-01,
    5.40397917702171048937e-01,
    7.18286544141962662868e-02,
    1.26171219808761642112e-01,
    1.36370839120290507362e-02,
    1.19844998467991074170e-02,
)
_RA = (
    -9.86494403484714822705e-03,
    -6.93858572707181764372e-01,
    -1.05586262253232909814e01,
    -6.23753324503260060396e01,
    -1.62396669462573470355e02,
    -1.84605092906711035994e02,
    -8.12874355063065934246e01,
    -9.81432934416914548592e00,
)
_SA = (
    1.0,
    1.96512716674392571292e01,
    1.37657754143519042600e02,
    4.34565877475229228821e02,
    6.45387271733267880336e02,
    4.29008140027567833386e02,
    1.08635005541779435134e02,
    6.57024977031928170135e00,
    -6.04244152148580987438e-02,
)
_RB = (
    -9.86494292470009928597e-03,
    -7.99283237680523006574e-01,
    -1.77579549177547519889e01,
    -1.60636384855821916062e02,
    -6.37566443368389627722e02,
    -1.02509513161107724954e03,
    -4.83519191608651397019e02,
)
_SB = (
    1.0,
    3.03380607434824582924e01,
    3.25792512996573918826e02,
    1.53672958608443695994e03,
    3.19985821950859553908e03,
    2.55305040643316442583e03,
    4.74528541206955367215e02,
    -2.24409524465858183362e01,
)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function of f64 values; within 1 ulp."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    return np.piecewise(
        x,
        [size < 0.84375, (size >= 0.84375) & (size < 1.25), size >= 1.25],
        [_erf_small, _erf_middle, _erf_tail, np.nan],
    )


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


def _erf_small(x: np.ndarray) -> np.ndarray:
    square = x * x
    ratio = polynomial(_PP, square) / polynomial(_QQ, square)
    # Below 2**-28 the quotient is _EFX; scaling keeps denormal products exact.
    tiny = 0.0625 * (16.0 * x + (16.0 * _EFX) * x)
    return np.where(np.abs(x) < 2.0**-28, tiny, x + x * ratio)


def _erf_middle(x: np.ndarray) -> np.ndarray:
    offset = np.abs(x) - 1.0
    return np.copysign(_ERX + polynomial(_PA, offset) / polynomial(_QA, offset), x)


def _erf_tail(x: np.ndarray) -> np.ndarray:
    # erf(6) is 1 - 2e-17; capping also keeps infinities out of the quotients.
    size = np.minimum(np.abs(x), 6.0)
    inverse = 1.0 / (size * size)
    near = polynomial(_RA, inverse) / polynomial(_SA, inverse)
    far = polynomial(_RB, inverse) / polynomial(_SB, inverse)
    ratio = np.where(size < 1.0 / 0.35, near, far)
    # The upper half of the bits, so that its square is exact.
    head = (size.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    power = np.exp(-head * head - 0.5625) * np.exp((head - size) * (head + size) + ratio)
    return np.copysign(1.0 - power / size, x)


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
