"""The complementary error function, the cumulative normal distribution, and inverses.

exp(x * x) erfc(x) is computed as a polynomial, so that rounding of squares loses no digits. Squares
are taken of numbers with half of the digits, and have no error.
"""

import math
from typing import Any

import jax

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.numpy.element_functions import Function, mended, with_derivatives
from minixla.numpy.operands import kind_of, lifted
from minixla.scipy.real_functions import SHARED, of_reals, upper_digits
from minixla.typing import Array, ArrayLike

_ROOT = math.sqrt(0.5)
# Chebyshev coefficients, in 8 / (x + 4) - 1, of (x + 4) exp(x * x) erfc(x) for x >= 0; f32 uses
# the first ones. Computed by mpmath, as coefficients of a discrete cosine transform.
_SCALED = [
    1.6320978781965259, 1.5054329427054698, 0.5903214182888945,
    0.19828527172011035, 0.0569084302284687, 0.013773973050870096,
    0.002729016733135232, 0.00041361807903024755, 3.89141838079606e-05,
    -4.795485503364818e-07, -8.699107081379825e-07, -1.2116707094396558e-07,
    3.79196702608182e-09, 3.4533646779963824e-09, 2.748862570381361e-10,
    -6.813959375318511e-11, -1.3568522747316355e-11, 1.0463235067416098e-12,
    4.851070321243456e-13, -8.458758172979236e-15, -1.6469363733616713e-14,
    -2.5314850886802834e-16, 5.757244393379938e-16, 1.8245979193136522e-17,
    -2.135637703191254e-17,
]  # fmt: skip
# The first twelve as powers of 8 / (x + 4) - 1, for f32.
_SCALED_POWERS = [
    1.09599566, 0.976548683, 0.773208947, 0.540855127, 0.330848872, 0.174000457,
    0.0763922044, 0.0264065706, 0.00609450123, 0.000218442043, -0.000445394283, -0.000124075081,
]  # fmt: skip
#: XLA's erf is accurate to a unit in the last place of 1 - erf(x) below this.
_NEAR = 0.5
#: Up to here XLA's function loses no more digits.
_FAR = 2
#: Beyond this, exp(-x * x / 2) is 0 in f64.
_END = 40


def scaled_complement(x: Any) -> Any:
    """Compute exp(x * x) erfc(x) for numbers >= 0; derivatives have no cancellation."""
    inverse = 1 / (x + 4)
    if kind_of(x) is F32:  # Horner
        total, power = mnp.zeros_like(x), 8 * inverse - 1
        for coefficient in reversed(_SCALED_POWERS):
            total = total * power + coefficient
        return inverse * total
    above, total, twice = mnp.zeros_like(x), mnp.zeros_like(x), 16 * inverse - 2
    first, *others = _SCALED
    for other in reversed(others):  # Clenshaw
        above, total = total, twice * total + (other - above)
    return inverse * (0.5 * twice * total + (first - above))


def _gaussian(factor: float) -> Function:
    """Return a function that computes exp(factor * x * x) without rounding the square."""

    def function(x: Any) -> Any:
        x = mnp.clip(x, -_END, _END)
        high = upper_digits(x)
        # A series for the small rest, because XLA turns a product of exponentials into one of a
        # sum.
        rest = factor * (x - high) * (x + high)
        more = 1 + rest * (1 + rest / 2 * (1 + rest / 3 * (1 + rest / 4)))
        return mnp.exp(factor * high * high) * more

    return with_derivatives(function, lambda y, x: 2 * factor * (x * y))


_falling, _rising, _density = map(_gaussian, (-1, 1, -0.5))


@of_reals()
def erf(x: ArrayLike) -> Array:
    """Compute the integral of 2 / sqrt(pi) exp(-t * t) from 0 to x (JAX: `jax.scipy.special.erf`).

    Example:
        >>> mx.scipy.special.erf(1.0)
        Array(0.8427008, dtype=float32, weak_type=True)
    """
    return ops.erf(x)


@of_reals(lambda y, x: -2 / math.sqrt(math.pi) * _falling(x))
def erfc(x: ArrayLike) -> Array:
    """Compute 1 - erf(x), accurately for large x (JAX: `jax.scipy.special.erfc`).

    Example:
        >>> mx.scipy.special.erfc(1.0)
        Array(0.15729924, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    if kind_of(x) is F32:  # takes less time than a branch
        size = mnp.abs(x)
        tail = scaled_complement(size) * _falling(size)
        return mnp.where(size < _NEAR, 1 - ops.erf(x), mnp.where(x < 0, 2 - tail, tail))
    far = mnp.maximum(x, _FAR)
    return mended(ops.erfc(x), x > _FAR, lambda: scaled_complement(far) * _falling(far))


@of_reals()
def erfcx(x: ArrayLike) -> Array:
    """Compute exp(x * x) erfc(x) (JAX: `jax.scipy.special.erfcx`).

    Example:
        >>> mx.scipy.special.erfcx(1.0)
        Array(0.4275836, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    is_below = x < 0
    above = scaled_complement(mnp.where(is_below, -x, x))
    return mnp.where(is_below, 2 * _rising(mnp.minimum(x, 0)) - above, above)


def _shares(x: Any) -> tuple[Any, Any, Any]:
    """Return ndtr(-abs(x)) divided by exp(-x * x / 2), ndtr(-abs(x)), and ndtr(x) for small x."""
    size = mnp.abs(x)
    scaled = 0.5 * scaled_complement(size * _ROOT)
    return scaled, scaled * _density(size), 0.5 + 0.5 * ops.erf(x * _ROOT)


@of_reals(lambda y, x: _density(x) / math.sqrt(2 * math.pi))
def ndtr(x: ArrayLike) -> Array:
    """Compute the cumulative normal distribution (JAX: `jax.scipy.special.ndtr`).

    Example:
        >>> mx.scipy.special.ndtr(1.0)
        Array(0.8413447, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    if kind_of(x) is F32:
        _, tail, near = _shares(x)
        return mnp.where(mnp.abs(x) < _NEAR, near, mnp.where(x < 0, tail, 1 - tail))
    far = mnp.maximum(-x, _FAR)
    share = 0.5 * ops.erfc(-x * _ROOT)
    return mended(share, x < -_FAR, lambda: 0.5 * scaled_complement(far * _ROOT) * _density(far))


def _slope_of_log_ndtr(y: Any, x: Any) -> Any:
    # Far to the left, the logarithms of density and share cancel.
    is_far = x < -4
    far = math.sqrt(2 / math.pi) / scaled_complement(-mnp.minimum(x, -4) * _ROOT)
    near = mnp.exp(mnp.where(is_far, 0, -0.5 * x * x - y) - 0.5 * math.log(2 * math.pi))
    return mnp.where(is_far, far, near)


@of_reals(_slope_of_log_ndtr)
def _log_ndtr(x: Any) -> Any:
    if kind_of(x) is F32:
        scaled, tail, near = _shares(x)
        is_left = x < -_NEAR
        logarithm = mnp.log(mnp.where(is_left, scaled, near))
        left = mnp.where(is_left, logarithm - 0.5 * x * x, logarithm)
        return mnp.where(x > _NEAR, mnp.log1p(-tail), left)
    left = mnp.log(scaled_complement(-mnp.minimum(x, -4) * _ROOT) * 0.5) - 0.5 * x * x
    is_low = x < 0.6  # XLA's log1p of doubles loses digits below -0.28
    share = ndtr(mnp.where(is_low, x, -x))
    return mnp.where(x < -4, left, mnp.where(is_low, mnp.log(share), mnp.log1p(-share)))


@documented(SHARED)
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Compute the logarithm of ndtr (JAX: `jax.scipy.special.log_ndtr`).

    Args:
        series_order: ignored; no series is used far to the left.

    Example:
        >>> mx.scipy.special.log_ndtr(-10.0)
        Array(-53.231285, dtype=float32, weak_type=True)
    """
    del series_order
    return _log_ndtr(x)


@of_reals()
def expit(x: ArrayLike) -> Array:
    """Compute the logistic function, 1 / (1 + exp(-x)) (JAX: `jax.scipy.special.expit`).

    Example:
        >>> mx.scipy.special.expit(0.0)
        Array(0.5, dtype=float32, weak_type=True)
    """
    return ops.logistic(x)


@of_reals(lambda y, p: math.sqrt(2 * math.pi) * mnp.exp(0.5 * y * y))
def ndtri(p: ArrayLike) -> Array:
    """Compute the inverse of ndtr (JAX: `jax.scipy.special.ndtri`).

    Args:
        p: an array of reals in [0, 1].

    Example:
        >>> mx.scipy.special.ndtri(0.75)
        Array(0.6744898, dtype=float32, weak_type=True)
    """
    return jax.scipy.special.ndtri(p)


@of_reals(lambda y, x: 0.5 * math.sqrt(math.pi) * mnp.exp(y * y))
def erfinv(x: ArrayLike) -> Array:
    """Compute the inverse of erf (JAX: `jax.scipy.special.erfinv`).

    Example:
        >>> mx.scipy.special.erfinv(0.5)
        Array(0.47693628, dtype=float32, weak_type=True)
    """
    inverse, size = ops.erf_inv(x), mnp.abs(x)

    def stepped() -> Any:
        y = mnp.abs(inverse)
        error = (1 - size) - erfc(y)
        return mnp.copysign(y - error * (0.5 * math.sqrt(math.pi)) * mnp.exp(y * y), x)

    # From here on XLA's function loses digits, more of them in f64, so add a Newton step.
    least = 0.95 if kind_of(x) is F32 else 0.5
    return mended(inverse, (size > least) & (size < 1), stepped)
