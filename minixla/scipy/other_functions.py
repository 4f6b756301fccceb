"""Special functions that replace JAX's, which lose digits or do not terminate."""

import math
from typing import Any

import jax
import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.numpy.element_functions import with_derivatives
from minixla.numpy.operands import lifted
from minixla.scipy.gamma_functions import without_linear
from minixla.scipy.real_functions import SHARED, of_reals
from minixla.transforms import fori_loop
from minixla.typing import Array, ArrayLike

_spence, _dawsn_of_jax = jax.scipy.special.spence, jax.scipy.special.dawsn


@of_reals(lambda y, x: 1 / x * (1 / (1 - x)))
def logit(x: ArrayLike) -> Array:
    """Compute log(x / (1 - x)), accurately where it is small (JAX: `jax.scipy.special.logit`).

    Example:
        >>> mx.scipy.special.logit(0.75)
        Array(1.0986123, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    # Near 1 / 2 the quotient is near 1, and only x - 1 / 2 is exact.
    middle = (x > 0.3) & (x < 0.65)
    near = mnp.log1p(2 * (x - 0.5) / (1 - x))
    return mnp.where(middle, near, mnp.log(x) - mnp.log1p(-x))


def _log_of_quotient(p: Any, q: Any) -> Any:
    """Compute log(p / q)."""
    quotient, kind = p / q, mnp.finfo(p.dtype)
    is_wide = (quotient < 2 * kind.tiny) | (quotient > kind.max)  # but not its root
    far = mnp.log(mnp.where(is_wide, mnp.sqrt(p) / mnp.sqrt(q), quotient))
    near = -mnp.log1p((q - p) / p)
    is_near = (quotient > 0.7) & (quotient < 1.4)
    return mnp.where(is_near, near, far * mnp.where(is_wide, 2, 1))


# Derivatives of the formula are NaN where a quotient that is not taken overflows.
_logarithm_of_quotient = with_derivatives(
    _log_of_quotient, lambda y, p, q: 1 / p, lambda y, p, q: -1 / q
)


def _inside(p: Any, q: Any, function: Any) -> Any:
    """Apply a function where both are > 0; return 0 elsewhere."""
    is_inside = (p > 0) & (q > 0)
    return mnp.where(
        is_inside, function(*(mnp.where(is_inside, operand, 1) for operand in (p, q))), 0
    )


@of_reals(
    lambda y, p, q: _inside(p, q, lambda p, q: 1 + _logarithm_of_quotient(p, q)),
    lambda y, p, q: _inside(p, q, lambda p, q: -p / q),
)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Compute p log(p / q) (JAX: `jax.scipy.special.rel_entr`).

    The result is 0 where p = 0 and q >= 0, and infinite elsewhere outside p, q > 0.

    Example:
        >>> mx.scipy.special.rel_entr(1.0, 2.0)
        Array(-0.6931472, dtype=float32, weak_type=True)
    """
    p, q = lifted(p), lifted(q)
    value = _inside(p, q, lambda p, q: p * _logarithm_of_quotient(p, q))
    return mnp.where((p > 0) & (q > 0), value, _outside(p, q, 0))


def _times(x: Any, logarithm: Any) -> Any:
    """Multiply x by a logarithm; 0 where x is 0, unless the logarithm is NaN."""
    is_zero = (x == 0) & ~mnp.isnan(logarithm)
    return mnp.where(is_zero, 0, mnp.where(is_zero, 1, x) * mnp.where(is_zero, 1, logarithm))


def _over(x: Any, y: Any) -> Any:
    """Divide x by y; 0 where x is 0."""
    return mnp.where(x == 0, 0, x / mnp.where(x == 0, 1, y))


def _of_logarithm(logarithm: Any, exponent: Any) -> Any:
    """Compute (exp(exponent * logarithm) - 1) / exponent; the logarithm if the exponent is 0."""
    is_zero = exponent == 0
    divisor = mnp.where(is_zero, 1, exponent)
    return mnp.where(is_zero, logarithm, mnp.expm1(divisor * logarithm) / divisor)


def _by_exponent(y: Any, logarithm: Any, exponent: Any) -> Any:
    """Compute the derivative of the function above with respect to the exponent."""
    is_zero = exponent == 0
    divisor = mnp.where(is_zero, 1, exponent)
    power = mnp.exp(divisor * logarithm)
    return mnp.where(is_zero, 0.5 * logarithm * logarithm, (power * logarithm - y) / divisor)


@of_reals(
    lambda y, x, lmbda: mnp.power(x, lmbda - 1),
    lambda y, x, lmbda: _by_exponent(y, mnp.log(x), lmbda),
)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Compute (x**lmbda - 1) / lmbda, or log(x) where lmbda is 0 (JAX: `jax.scipy.special.boxcox`).

    Example:
        >>> mx.scipy.special.boxcox(2.0, 0.5)
        Array(0.8284271, dtype=float32, weak_type=True)
    """
    return _of_logarithm(mnp.log(x), lmbda)


@of_reals(
    lambda y, x, lmbda: mnp.power(1 + x, lmbda - 1),
    lambda y, x, lmbda: _by_exponent(y, mnp.log1p(x), lmbda),
)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Compute ((1 + x)**lmbda - 1) / lmbda, or log(1 + x) where lmbda is 0.

    JAX: `jax.scipy.special.boxcox1p`.

    Example:
        >>> mx.scipy.special.boxcox1p(1.0, 0.5)
        Array(0.8284271, dtype=float32, weak_type=True)
    """
    return _of_logarithm(mnp.log1p(x), lmbda)


@of_reals(lambda z, x, y: mnp.log(y), lambda z, x, y: _over(x, y))
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Compute x log(y), or 0 where x is 0 (JAX: `jax.scipy.special.xlogy`).

    Example:
        >>> mx.scipy.special.xlogy(0.0, 0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _times(x, mnp.log(y))


@of_reals(lambda z, x, y: mnp.log1p(y), lambda z, x, y: _over(x, 1 + y))
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Compute x log(1 + y), or 0 where x is 0 (JAX: `jax.scipy.special.xlog1py`).

    Example:
        >>> mx.scipy.special.xlog1py(0.0, -1.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _times(x, mnp.log1p(y))


@of_reals(lambda y, x: mnp.where(x < 0, math.nan, -1 - mnp.log(x)))
def entr(x: ArrayLike) -> Array:
    """Compute -x log(x), 0 where x is 0 and -inf where x < 0 (JAX: `jax.scipy.special.entr`).

    Example:
        >>> mx.scipy.special.entr(0.5)
        Array(0.3465736, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    value = -x * mnp.log(mnp.where(x == 0, 1, x))
    return mnp.where(x < 0, -math.inf, value)


def _outside(p: Any, q: Any, at_zero: Any) -> Any:
    is_nan = mnp.isnan(p) | mnp.isnan(q)
    return mnp.where(is_nan, math.nan, mnp.where((p == 0) & (q >= 0), at_zero, math.inf))


# (q - p) / q, whose second derivatives do not cancel.
_growth = with_derivatives(
    lambda p, q: (q - p) / q, lambda y, p, q: -1 / q, lambda y, p, q: p / q / q
)


@of_reals(lambda y, p, q: _logarithm_of_quotient(p, q), lambda y, p, q: _growth(p, q))
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Compute p log(p / q) - p + q, which is never negative (JAX: `jax.scipy.special.kl_div`).

    Example:
        >>> mx.scipy.special.kl_div(1.0, 2.0)
        Array(0.30685282, dtype=float32, weak_type=True)
    """
    p, q = lifted(p), lifted(q)
    apart = (q - p) / p
    is_near = (apart > -0.5) & (apart < 1)
    near = -p * without_linear(mnp.where(is_near, apart, 0))
    value = mnp.where(is_near, near, rel_entr(p, q) - p + q)
    return mnp.where((p > 0) & (q > 0), value, _outside(p, q, q))


def _slope_of_spence(x: Any) -> Any:
    """Compute log(x) / (1 - x), with derivatives that are accurate near 1."""
    apart = x - 1
    is_near, series = mnp.abs(apart) < 0.25, mnp.zeros_like(x)
    near = mnp.where(is_near, apart, 0)
    for k in reversed(range(30)):
        series = 1 / (k + 1) - near * series
    far = mnp.where(is_near, 2, x)
    return mnp.where(is_near, -series, mnp.log(far) * (1 / (1 - far)))


@of_reals(lambda y, x: _slope_of_spence(x))
def spence(x: ArrayLike) -> Array:
    """Integrate log(t) / (1 - t) from 1 to x >= 0 (JAX: `jax.scipy.special.spence`).

    Example:
        >>> mx.scipy.special.spence(np.float32(0.5))
        Array(0.58224034, dtype=float32)
    """
    x = lifted(x)
    return _spence(x)


# The asymptotic series of Dawson's integral, in powers of 1 / (2 x**2), times 2 x.
_DAWSON = [float(np.prod(np.arange(1.0, 2 * k, 2))) for k in range(20)]


def _slope_of_dawsn(y: Any, x: Any) -> Any:
    """Compute 1 - 2 x y, by a series where the difference cancels."""
    is_far, total = mnp.abs(x) > 7, mnp.zeros_like(x)
    inverse = 1 / mnp.where(is_far, x, 7)
    half = inverse * inverse
    for slope in reversed(_SLOPES):
        total = (total + slope) * half
    return mnp.where(is_far, -total, 1 - 2 * x * _dawsn(mnp.where(is_far, 0, x)))


# Coefficients of powers of 1 / x**2 in the series of the derivative, without signs.
_SLOPES = [(2 * k + 1) * coefficient / 2 ** (k + 1) for k, coefficient in enumerate(_DAWSON)]
_dawsn = with_derivatives(lambda x: _dawsn_of_jax(x), _slope_of_dawsn)


@of_reals()
def dawsn(x: ArrayLike) -> Array:
    """Compute Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.

    JAX: `jax.scipy.special.dawsn`.

    Example:
        >>> mx.scipy.special.dawsn(1.0)
        Array(0.5380795, dtype=float32, weak_type=True)
    """
    return _dawsn(x)


def _slope_of_expn(y: Any, n: Any, x: Any) -> Any:
    return -mnp.where(n >= 1, _expn(mnp.maximum(n - 1, 0), x), mnp.exp(-x) * (1 / x + 1 / (x * x)))


@of_reals(None, _slope_of_expn)
def _expn(n: Any, x: Any) -> Any:
    low, high = mnp.clip(x, 0, 1), mnp.maximum(x, 1)
    # Evaluate the continued fraction from the term at which the rest is below rounding.
    count = 100 if mnp.finfo(x.dtype).bits == 64 else 40

    def step(index: Any, total: Any) -> Any:
        k = mnp.astype(count - index, x.dtype)
        return k * (n + k - 1) / (high + n + 2 * k - total)

    total = fori_loop(0, count, step, mnp.zeros_like(x))
    above = mnp.exp(-high) / (high + n - total)
    # The series; the term that would divide by 0 is a logarithm.
    below, term = mnp.zeros_like(x), mnp.ones_like(x)
    for m in range(24):
        below = below - mnp.where(m == n - 1, 0, term / mnp.where(m == n - 1, 1, m - n + 1))
        term = term * (-low / (m + 1))
    order = mnp.maximum(n, 1)
    size = mnp.exp((order - 1) * mnp.log(low) - ops.lgamma(order))
    is_even = mnp.floor(0.5 * (order - 1)) == 0.5 * (order - 1)
    size = mnp.where(order == 1, 1, mnp.where(is_even, size, -size))
    below = below + size * (ops.digamma(order) - mnp.log(low))
    value = mnp.where(x > 1, above, mnp.where(n == 0, mnp.exp(-low) / low, below))
    at_zero = mnp.where(n < 2, math.inf, 1 / mnp.where(n < 2, 1, n - 1))
    value = mnp.where(x == 0, at_zero, mnp.where(x == math.inf, 0, value))
    return mnp.where((n < 0) | (x < 0) | mnp.isnan(x), math.nan, value)


@documented(SHARED)
def expn(n: Any, x: ArrayLike) -> Array:
    """Integrate x**(n - 1) exp(-t) / t**n from x to infinity (JAX: `jax.scipy.special.expn`).

    Args:
        n: an array of integers >= 0.
        x: an array of reals >= 0, which broadcasts with `n`.

    Example:
        >>> mx.scipy.special.expn(2, 1.0)
        Array(0.14849526, dtype=float32, weak_type=True)
    """
    return _expn(n, x)


@documented(SHARED)
def exp1(x: ArrayLike) -> Array:
    """Integrate exp(-t) / t from x >= 0 to infinity (JAX: `jax.scipy.special.exp1`).

    Example:
        >>> mx.scipy.special.exp1(1.0)
        Array(0.21938425, dtype=float32, weak_type=True)
    """
    return _expn(1, x)


# Where the exponential is infinite, the derivative of the quotient would be inf - inf.
_exponential_over = with_derivatives(lambda x: mnp.exp(x) / x, lambda y, x: y * (1 - 1 / x))


@of_reals(lambda y, x: _exponential_over(x))
def expi(x: ArrayLike) -> Array:
    """Integrate exp(t) / t from -infinity to x (JAX: `jax.scipy.special.expi`).

    Example:
        >>> mx.scipy.special.expi(1.0)
        Array(1.8951178, dtype=float32, weak_type=True)
    """
    x = lifted(x)
    # From `far` on, the error of that many terms of the asymptotic series is below rounding.
    far, count = (40, 110) if mnp.finfo(x.dtype).bits == 64 else (20, 56)
    low, high = mnp.clip(x, 0, far), mnp.clip(x, far, 1e3)
    zeros = mnp.zeros_like(x)

    def near(index: Any, total: Any) -> Any:
        k = mnp.astype(count - index, x.dtype)
        return 1 / k + low / (k + 1) * total

    def beyond(index: Any, total: Any) -> Any:
        return 1 + mnp.astype(far - index, x.dtype) / high * total

    below = np.euler_gamma + mnp.log(low) + low * fori_loop(0, count, near, zeros)
    root = mnp.exp(0.5 * high)  # exp(high) may overflow where the quotient does not
    above = root * (root / high * fori_loop(0, far, beyond, zeros))
    return mnp.where(x < 0, -exp1(mnp.abs(x)), mnp.where(x > far, above, below))
