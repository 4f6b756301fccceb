"""Modified Bessel functions of orders 0 and 1; the derivatives use functions of higher orders.

The derivatives of JAX's polynomials are NaN or wrong at 0, and lose all digits far from 0.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax

import minixla.numpy as mnp
from minixla.numpy.element_functions import Function, with_derivatives
from minixla.scipy.real_functions import of_reals
from minixla.typing import Array, ArrayLike

# Up to `_NEAR` use the power series; from `_FAR` on a series for the difference of both orders.
_NEAR, _FAR = 4.0, 30.0
_LOWEST: list[Callable[[Any], Any]] = [jax.lax.bessel_i0e, jax.lax.bessel_i1e]


def _coefficients(order: int, count: int) -> list[float]:
    """Return coefficients of the asymptotic series, without signs. Source: DLMF 10.40.1."""
    coefficients = [1.0]
    for k in range(1, count):
        coefficients.append(coefficients[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return coefficients


# Coefficients of the difference of the scaled functions of orders 1 and 0.
_PAIRS = zip(_coefficients(1, 20), _coefficients(0, 20), strict=True)
_DIFFERENCE = [(-1) ** k * (one - zero) for k, (one, zero) in enumerate(_PAIRS)][1:]


def _series(order: int, x: Any) -> Any:
    """Compute I of an order for small x. Source: DLMF 10.25.2."""
    square, total = 0.25 * x * x, mnp.zeros_like(x)
    for k in reversed(range(24)):
        total = total * square + 1 / (math.factorial(k) * math.factorial(k + order))
    return total * (0.5 * x) ** order


def _scaled_value(order: int, x: Any) -> Any:
    """Compute I(x) exp(-|x|)."""
    if order < 2:
        return _LOWEST[order](x)
    size = mnp.abs(x)
    is_near = size < _NEAR
    far, near = mnp.maximum(size, _NEAR), mnp.where(is_near, x, 0)
    before, current = (function(far) for function in _LOWEST)
    for k in range(1, order):
        before, current = current, before - 2 * k / far * current
    signed = mnp.where(x < 0, -current, current) if order % 2 else current
    return mnp.where(is_near, _series(order, near) * mnp.exp(-mnp.abs(near)), signed)


def _growing(x: Any, scaled: Any) -> Any:
    """Compute scaled * exp(|x|); overflow only if the product is too large."""
    root = mnp.exp(0.5 * mnp.abs(x))
    return root * (root * scaled)


def _difference(size: Any) -> Any:
    """Compute the scaled function of order 1 minus that of order 0, far from 0."""
    size, total = mnp.maximum(size, _FAR), mnp.zeros_like(size)
    for coefficient in reversed(_DIFFERENCE):
        total = (total + coefficient) / size
    return total / mnp.sqrt(2 * math.pi * size)


@cache
def _scaled(order: int) -> Function:
    """Compute I(x) exp(-|x|), with derivatives of all orders."""

    def slope(y: Any, x: Any) -> Any:
        size, sign = mnp.abs(x), mnp.sign(x)
        far = _difference(size)
        if order == 0:
            near, far = _scaled(1)(x) - sign * _scaled(0)(x), sign * far
        else:
            near = 0.5 * (_scaled(order - 1)(x) + _scaled(order + 1)(x)) - sign * _scaled(order)(x)
            if order > 1:
                return near
            far = -far - _scaled(1)(size) / mnp.maximum(size, _FAR)
        return mnp.where(size > _FAR, far, near)

    return with_derivatives(lambda x: _scaled_value(order, x), slope)


@cache
def _unscaled(order: int) -> Function:
    """Compute I(x), with derivatives of all orders."""

    def slope(y: Any, x: Any) -> Any:
        above = _unscaled(order + 1)(x)
        return above if order == 0 else 0.5 * (_unscaled(order - 1)(x) + above)

    return with_derivatives(lambda x: _growing(x, _scaled_value(order, x)), slope)


@of_reals()
def i0(x: ArrayLike) -> Array:
    """Compute the modified Bessel function of order 0 (JAX: `jax.scipy.special.i0`).

    Example:
        >>> mx.scipy.special.i0(1.0)
        Array(1.266066, dtype=float32, weak_type=True)
    """
    return _unscaled(0)(x)


@of_reals()
def i1(x: ArrayLike) -> Array:
    """Compute the modified Bessel function of order 1 (JAX: `jax.scipy.special.i1`).

    Example:
        >>> mx.scipy.special.i1(1.0)
        Array(0.5651591, dtype=float32, weak_type=True)
    """
    return _unscaled(1)(x)


@of_reals()
def i0e(x: ArrayLike) -> Array:
    """Compute I0(x) exp(-|x|), the scaled Bessel function (JAX: `jax.scipy.special.i0e`).

    Example:
        >>> mx.scipy.special.i0e(1.0)
        Array(0.46575963, dtype=float32, weak_type=True)
    """
    return _scaled(0)(x)


@of_reals()
def i1e(x: ArrayLike) -> Array:
    """Compute I1(x) exp(-|x|), the scaled Bessel function (JAX: `jax.scipy.special.i1e`).

    Example:
        >>> mx.scipy.special.i1e(1.0)
        Array(0.20791042, dtype=float32, weak_type=True)
    """
    return _scaled(1)(x)
