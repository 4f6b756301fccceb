"""Hurwitz's zeta function and the derivatives of digamma, also where powers over- or underflow."""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.element_types import F32
from minixla.core.errors import UnsupportedError
from minixla.numpy import operands
from minixla.numpy.element_functions import mended, transforms
from minixla.numpy.operands import kind_of
from minixla.scipy.gamma_functions import are_inside, gamma
from minixla.scipy.real_functions import SHARED, of_reals
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.numpy_gamma import BERNOULLI

_unsupported = operands.refusal(UnsupportedError)
# The number of terms that are summed before the Euler-Maclaurin formula.
_SUMMED = 9


def _scaled(s: Any, q: Any) -> Any:
    """Sum (1 + k / q)**-s over k >= 0, divided by q, for s > 1 and q > 0."""
    total = mnp.ones_like(q)
    for k in range(1, _SUMMED):
        total = total + mnp.exp(-s * mnp.log1p(k / q))
    far = q + _SUMMED
    rest, factor = 0.5 / q, s / far / q
    for j, number in enumerate(BERNOULLI[: 6 if kind_of(q) is F32 else None]):
        rest = rest + factor * (number / math.factorial(2 * j + 2))
        factor = factor * ((s + (2 * j + 1)) / far) * ((s + (2 * j + 2)) / far)
    # Use the form that loses fewer digits.
    below = mnp.exp((1 - s) * mnp.log1p(_SUMMED / q))
    leading = mnp.where(q < 5, ops.pow(far / q, 1 - s), below)
    last = leading * (q / far)
    # Where the series does not converge, the rest is negligible.
    is_none = (s > 6 * far) | (last == 0)
    rest = mnp.where(is_none, 0, last * mnp.where(is_none, 0, rest))
    return total / q + leading / (s - 1) + rest


def _inside(s: Any, q: Any) -> Any:
    return ops.pow(q, 1 - s) * _scaled(s, q)


def _slope_by_s(y: Any, s: Any, q: Any) -> Any:
    is_inside = are_inside(s, q) & (s > 1)
    s, q = mnp.where(is_inside, s, 2), mnp.where(is_inside, q, 1)
    slope = transforms().jvp(lambda s: _inside(s, q), (s,), (mnp.ones_like(s),))[1]
    return mnp.where(is_inside, slope, math.nan)


def _slope_by_q(y: Any, s: Any, q: Any) -> Any:
    return -s * _zeta(s + 1, q)


@of_reals(_slope_by_s, _slope_by_q)
def _zeta(x: Any, q: Any) -> Any:
    is_inside = are_inside(x, q) & (x > 1)
    value = _inside(mnp.where(is_inside, x, 2), mnp.where(is_inside, q, 1))
    return mended(value, ~is_inside, lambda: ops.zeta(x, q))


@documented(SHARED)
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Compute the Hurwitz zeta function, the sum over k >= 0 of (q + k)**-x.

    JAX: `jax.scipy.special.zeta`.

    Args:
        x: an array of reals >= 1.
        q: an array of reals, which broadcasts with `x`; required, as in JAX.

    Raises:
        UnsupportedError: `q` is missing.

    Example:
        >>> mx.scipy.special.zeta(2.0, 1.0)
        Array(1.644934, dtype=float32, weak_type=True)
    """
    if q is None:
        problem = "q is required"
        raise _unsupported("zeta", problem, "Pass q=1 for the Riemann zeta function.")
    return _zeta(x, q)


def _slope_of_polygamma(y: Any, n: Any, x: Any) -> Any:
    return _polygamma(n + 1, x)


@of_reals(None, _slope_of_polygamma)
def _polygamma(n: Any, x: Any) -> Any:
    is_inside = are_inside(n, x)
    m, z = mnp.where(is_inside, n, 1), mnp.where(is_inside, x, 1)
    half, is_low = 0.5 * m, m < 33
    near = mnp.sqrt(gamma(mnp.where(is_low, m, 1) + 1)) * ops.pow(z, -half)
    far = mnp.exp(0.5 * ops.lgamma(m + 1) - half * mnp.log(z))
    root = mnp.where(is_low, near, far)
    value = root * _scaled(m + 1, z) * root
    value = mnp.where(mnp.floor(half) == half, -value, value)
    return mended(value, ~is_inside, lambda: ops.polygamma(n, x))


@documented(SHARED)
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Compute the n-th derivative of digamma (JAX: `jax.scipy.special.polygamma`).

    Args:
        n: an array of integers >= 0.

    Raises:
        ArgumentTypeError: `n` is not an array of integers.

    Example:
        >>> mx.scipy.special.polygamma(1, 1.0)
        Array(1.644934, dtype=float32, weak_type=True)
    """
    if not kind_of(n, "polygamma").is_integer:
        problem = f"the orders n are {kind_of(n, 'polygamma').name}, not integers"
        raise operands.type_error("polygamma", problem, "Convert them with astype.")
    return _polygamma(n, x)
