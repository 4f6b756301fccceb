"""Inverse and hyperbolic functions, sinc and logaddexp: compositions with custom derivatives.

XLA has no such operations, and those of chlo lose digits or the smallest numbers. Differentiating
the compositions would also lose digits, or give NaN where the derivative exists. Types narrower
than f32 are computed in f32. `minixla_ops.elementwise.complex_functions` has the complex ones.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import minixla_ops as ops
from minixla.numpy.element_functions import (
    Function,
    either,
    of_inexact,
    of_promoted,
    with_derivatives,
)
from minixla.numpy.operands import kind_of, lifted
from minixla.numpy.ufuncs import with_methods
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import complex_functions
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _own(slope: Function) -> Callable[[_Function], _Function]:
    """Extend a function of floats, with the derivative `slope`, to all numeric types."""

    def made(function: Any) -> Any:
        name = function.__name__
        value = either(function, getattr(complex_functions, name))
        own = with_derivatives(value, lambda result, x: slope(x))
        return of_inexact()(wraps(function)(lambda x: in_f32(own, x)))

    return made


# Slopes at +-1 are infinite. They have custom derivatives, too, because derivatives of the formulas
# would multiply 0 by infinity there.

_slope_of_arcsin = with_derivatives(
    either(lambda x: ops.rsqrt((1 - x) * (1 + x)), complex_functions.slope_of_arcsin),
    lambda slope, x: x * slope**3,
)
_slope_of_arcsinh = either(
    lambda x: 1 / hypot(shorthand.ones_like(x), x),
    lambda z: _slope_of_arcsin(complex_functions.i_times(z)),
)
_slope_of_arccosh = with_derivatives(
    # Take a root of each factor, because below -1 their product is positive again.
    either(lambda x: ops.rsqrt(x - 1) * ops.rsqrt(x + 1), complex_functions.slope_of_arccosh),
    lambda slope, x: -(x * slope) * slope**2,
)
_slope_of_arctanh = with_derivatives(
    lambda x: 1 / ((1 - x) * (1 + x)), lambda slope, x: 2 * (x * slope) * slope
)


@_own(_slope_of_arcsin)
def arcsin(x: ArrayLike, /) -> Array:
    """Return the angle in [-pi/2, pi/2] whose sine is x.

    Example:
        >>> np.arcsin(np.array([0.0, 1.0]))
        Array([0.       , 1.5707964], dtype=float32)
    """
    x = lifted(x)
    return ops.atan2(x, ops.sqrt((1 - x) * (1 + x)))


@_own(lambda x: -_slope_of_arcsin(x))
def arccos(x: ArrayLike, /) -> Array:
    """Return the angle in [0, pi] whose cosine is x.

    Example:
        >>> np.arccos(np.array([1.0, 0.0]))
        Array([0.       , 1.5707964], dtype=float32)
    """
    x = lifted(x)
    return ops.atan2(ops.sqrt((1 - x) * (1 + x)), x)


@_own(lambda x: 1 / (1 + x * x))
def arctan(x: ArrayLike, /) -> Array:
    """Return the angle in [-pi/2, pi/2] whose tangent is x.

    Example:
        >>> np.arctan(np.array([0.0, np.inf]))
        Array([0.       , 1.5707964], dtype=float32)
    """
    return ops.atan2(x, shorthand.ones_like(x))


@_own(ops.cosh)
def sinh(x: ArrayLike, /) -> Array:
    """Compute the hyperbolic sine.

    Example:
        >>> np.sinh(np.array([0.0, 1.0]))
        Array([0.      , 1.175201], dtype=float32)
    """
    return ops.sinh(x)


@_own(_slope_of_arcsinh)
def arcsinh(x: ArrayLike, /) -> Array:
    """Compute the inverse hyperbolic sine.

    Example:
        >>> np.arcsinh(np.array([0.0, 1.0]))
        Array([0.        , 0.88137364], dtype=float32)
    """
    x = lifted(x)
    size = ops.abs(x)
    near = ops.log1p(size + size * size / (1 + ops.sqrt(1 + size * size)))
    far = ops.log(size) + math.log(2)
    result = ops.select(size > complex_functions.square_limit(x), far, near)
    # Keep the sign of zero.
    return ops.select(x == 0, x, ops.sign(x) * result)


@_own(_slope_of_arccosh)
def arccosh(x: ArrayLike, /) -> Array:
    """Compute the inverse hyperbolic cosine, which is never negative.

    Example:
        >>> np.arccosh(np.array([1.0, 2.0]))
        Array([0.      , 1.316958], dtype=float32)
    """
    x = lifted(x)
    above = x - 1
    near = ops.log1p(above + ops.sqrt(above * (above + 2)))
    is_far = x > complex_functions.square_limit(x)
    result = ops.select(is_far, ops.log(x) + math.log(2), near)
    # Below -1 the root has a value again.
    return ops.select(x < 1, shorthand.full_like(x, math.nan), result)


@_own(_slope_of_arctanh)
def arctanh(x: ArrayLike, /) -> Array:
    """Compute the inverse hyperbolic tangent.

    Example:
        >>> np.arctanh(np.array([0.0, 0.5]))
        Array([0.        , 0.54930615], dtype=float32)
    """
    return ops.atanh(x)


asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh

# The series of sin(x) / x in x * x, with enough terms for eight derivatives in f64.
_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(13)]


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    # The derivatives of the quotient cancel near 0.
    is_near = ops.abs(angle) < 1.5
    near = ops.select(is_near, angle, shorthand.full_like(angle, 0))
    far = ops.select(is_near, shorthand.ones_like(angle), angle)
    square, series = near * near, shorthand.full_like(angle, 0)
    for coefficient in reversed(_SINC):
        series = series * square + coefficient
    # The sine: subtract the nearest integer from x before pi makes it inexact.
    real = ops.real(x)
    whole = ops.round_nearest_even(real)
    is_odd = whole * 0.5 != ops.floor(whole * 0.5)
    rest = real - whole
    if kind_of(x).is_complex:
        rest = ops.complex(rest, ops.imag(x))
    sine = ops.sin(rest * math.pi)
    return ops.select(is_near, series, ops.select(is_odd, -sine, sine) / far)


@of_inexact()
def sinc(x: ArrayLike, /) -> Array:
    """Compute sin(pi x) / (pi x); 1 at 0.

    Example:
        >>> np.sinc(np.array([0.0, 0.5]))
        Array([1.        , 0.63661975], dtype=float32)
    """
    return in_f32(_sinc, lifted(x))


def _with_shares(share: Function) -> Callable[[_Function], _Function]:
    """Extend a function of two floats to real numbers.

    The derivative with respect to an operand x is `share(x, y, result)`; y is the other operand.
    """

    def made(function: Any) -> Any:
        own = with_derivatives(
            function,
            lambda result, x, y: share(x, y, result),
            lambda result, x, y: share(y, x, result),
        )
        public = wraps(function)(lambda x1, x2, /: in_f32(own, x1, x2))
        return of_promoted(inexact_type, is_real=True)(public)

    return made


def _quotient(x: Any, result: Any) -> Any:
    """Divide x by the result; return the sign of x where the quotient is infinite or 0 / 0."""
    is_end = (result == 0) | (ops.abs(x) == math.inf)
    one = shorthand.ones_like(result)
    return ops.select(is_end, ops.sign(x), x) / ops.select(is_end, one, result)


def _by_radius(x: Any, y: Any, product: Any) -> Any:
    """Divide the product by hypot(x, y), except where that is 0."""
    radius = _radius(x, y)
    return ops.select(radius == 0, product, product / radius)


# The derivatives of the quotient would be differences of nearly equal terms.
_share_of_hypot = with_derivatives(
    lambda x, y: _quotient(x, _radius(x, y)),
    lambda s, x, y: _by_radius(x, y, _share_of_hypot(y, x) * _share_of_hypot(y, x)),
    lambda s, x, y: _by_radius(x, y, -_share_of_hypot(x, y) * _share_of_hypot(y, x)),
)


# The scale has corners, where second derivatives of the formula are wrong.
@_with_shares(lambda x, y, result: _share_of_hypot(x, y))
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute sqrt(x1**2 + x2**2) without overflow of the squares.

    The derivative at 0, 0 is 0.

    Example:
        >>> np.hypot(3, np.array([4.0, 0.0]))
        Array([5., 3.], dtype=float32)
    """
    return _radius(x1, x2)


def _radius(x: Any, y: Any) -> Any:
    x, y = ops.abs(x), ops.abs(y)
    large, small = ops.max(x, y), ops.min(x, y)
    ratio = small / ops.select(large == 0, shorthand.ones_like(large), large)
    result = ops.select(large == 0, large, large * ops.sqrt(1 + ratio * ratio))
    is_infinite = (x == math.inf) | (y == math.inf)
    return ops.select(is_infinite, shorthand.full_like(result, math.inf), result)


def _share_of_power(ratio: float) -> Function:
    """Return the derivative of the logarithm of a sum of two powers, with respect to exponent x."""

    def share(x: Any, y: Any, result: Any) -> Any:
        zero = shorthand.full_like(x, 0)
        is_end = (ops.abs(x) == math.inf) | (ops.abs(y) == math.inf)
        inside = ops.logistic(ops.select(is_end, zero, x - y) * ratio)
        # Use 0 in place of inf, because inf - inf is NaN.
        x, result = (ops.select(operand == math.inf, zero, operand) for operand in (x, result))
        return ops.select(is_end, ops.exp((x - result) * ratio), inside)

    return share


def _logarithm_of_sum(x: Any, y: Any, ratio: float) -> Any:
    apart = x - y
    power = ops.exp(-ops.abs(apart) * ratio)
    sum_of_both = ops.max(x, y) + ops.log1p(power) / ratio
    # Equal infinities have no difference; their sum is the result.
    return ops.select(apart != apart, x + y, sum_of_both)


@with_methods(-math.inf)
@_with_shares(_share_of_power(1))
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute log(exp(x1) + exp(x2)) of reals without overflow.

    Example:
        >>> np.logaddexp(np.array([0.0, 1000.0]), np.array([0.0, 1000.0]))
        Array([6.9314718e-01, 1.0006932e+03], dtype=float32)
    """
    return _logarithm_of_sum(x1, x2, 1)


@with_methods(-math.inf)
@_with_shares(_share_of_power(math.log(2)))
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute log2(2**x1 + 2**x2) of reals without overflow.

    Example:
        >>> np.logaddexp2(np.array([0.0, 1000.0]), np.array([0.0, 1000.0]))
        Array([1.000e+00, 1.001e+03], dtype=float32)
    """
    return _logarithm_of_sum(x1, x2, math.log(2))
