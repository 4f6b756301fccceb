"""Inverse and hyperbolic functions, sinc and logaddexp: compositions with derivatives of their own.

XLA has no such operations, and chlo's lose digits, or the least numbers. Differentiating the
compositions would lose digits, too, or give NaN where the derivative exists. Types narrower than
f32 are computed in f32. Complex ones are in `minixla_ops.elementwise.complex_functions`.
"""

import math
from collections.abc import Callable
from typing import Any

import minixla_ops as ops
from minixla.core.tracing import one_program
from minixla.numpy import element_functions as elements
from minixla.numpy.element_functions import Function, either, of_inexact, with_derivatives
from minixla.numpy.operands import kind_of
from minixla.numpy.ufuncs import with_methods
from minixla_ops.elementwise import complex_functions
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import inexact_type
from minixla_ops.helpers import shorthand


def _own(slope: Function) -> Callable[[Function], Any]:
    """Makes a function of floats one of any numbers, whose derivative is `slope`."""

    def made(function: Any) -> Any:
        name = function.__name__
        value = either(function, getattr(complex_functions, name))
        own = with_derivatives(value, lambda result, x: slope(x))
        return of_inexact(name, function.__doc__ or "", lambda x: in_f32(own, x))

    return made


# Slopes at +-1 are infinite. Their own derivatives are given, too: in those of the formulas 0 would
# meet infinity there.

_slope_of_arcsin = with_derivatives(
    either(lambda x: ops.rsqrt((1 - x) * (1 + x)), complex_functions.slope_of_arcsin),
    lambda slope, x: x * slope**3,
)
_slope_of_arcsinh = either(
    lambda x: 1 / hypot(shorthand.ones_like(x), x),
    lambda z: _slope_of_arcsin(complex_functions.i_times(z)),
)
_slope_of_arccosh = with_derivatives(
    # A root of each factor, since below -1 their product is positive again.
    either(lambda x: ops.rsqrt(x - 1) * ops.rsqrt(x + 1), complex_functions.slope_of_arccosh),
    lambda slope, x: -(x * slope) * slope**2,
)
_slope_of_arctanh = with_derivatives(
    lambda x: 1 / ((1 - x) * (1 + x)), lambda slope, x: 2 * (x * slope) * slope
)


@_own(_slope_of_arcsin)
def arcsin(x: Any) -> Any:
    """The angle in [-pi/2, pi/2] whose sine is x."""
    return ops.atan2(x, ops.sqrt((1 - x) * (1 + x)))


@_own(lambda x: -_slope_of_arcsin(x))
def arccos(x: Any) -> Any:
    """The angle in [0, pi] whose cosine is x."""
    return ops.atan2(ops.sqrt((1 - x) * (1 + x)), x)


@_own(lambda x: 1 / (1 + x * x))
def arctan(x: Any) -> Any:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    return ops.atan2(x, shorthand.ones_like(x))


@_own(ops.cosh)
def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
    return ops.sinh(x)


@_own(_slope_of_arcsinh)
def arcsinh(x: Any) -> Any:
    """The number whose hyperbolic sine is x."""
    size = ops.abs(x)
    near = ops.log1p(size + size * size / (1 + ops.sqrt(1 + size * size)))
    far = ops.log(size) + math.log(2)
    result = ops.select(size > complex_functions.square_limit(x), far, near)
    # At 0 the sign of zero is kept.
    return ops.select(x == 0, x, ops.sign(x) * result)


@_own(_slope_of_arccosh)
def arccosh(x: Any) -> Any:
    """The number >= 0 whose hyperbolic cosine is x."""
    above = x - 1
    near = ops.log1p(above + ops.sqrt(above * (above + 2)))
    is_far = x > complex_functions.square_limit(x)
    result = ops.select(is_far, ops.log(x) + math.log(2), near)
    # The root has a value again below -1.
    return ops.select(x < 1, shorthand.full_like(x, math.nan), result)


@_own(_slope_of_arctanh)
def arctanh(x: Any) -> Any:
    """The number whose hyperbolic tangent is x."""
    return ops.atanh(x)


asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh

# The series of sin(x) / x in x * x, enough of it for eight derivatives in f64 where it is used.
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
    # The sine: the nearest integer is taken from x before pi makes it inexact.
    real = ops.real(x)
    whole = ops.round_nearest_even(real)
    is_odd = whole * 0.5 != ops.floor(whole * 0.5)
    rest = real - whole
    if kind_of(x).is_complex:
        rest = ops.complex(rest, ops.imag(x))
    sine = ops.sin(rest * math.pi)
    return ops.select(is_near, series, ops.select(is_odd, -sine, sine) / far)


sinc = of_inexact("sinc", "sin(pi x) / (pi x), 1 at 0.", lambda x: in_f32(_sinc, x))


def _with_shares(share: Function) -> Callable[[Function], Any]:
    """Extend a function of two floats to real numbers.

    The derivative by an operand x is `share(x, y, result)`, where y is the other operand.
    """

    def made(function: Any) -> Any:
        own = with_derivatives(
            function,
            lambda result, x, y: share(x, y, result),
            lambda result, x, y: share(y, x, result),
        )
        of_two = elements.named(
            lambda x1, x2, /: in_f32(own, x1, x2), function.__name__, function.__doc__
        )
        return one_program()(elements.of_promoted(inexact_type, is_real=True)(of_two))

    return made


def _quotient(x: Any, result: Any) -> Any:
    """The quotient x / result, its sign where that is infinite."""
    is_end = (result == 0) | (ops.abs(x) == math.inf)
    one = shorthand.ones_like(result)
    return ops.select(is_end, ops.sign(x), x) / ops.select(is_end, one, result)


def _by_radius(x: Any, y: Any, product: Any) -> Any:
    """Divide the product by hypot(x, y); 0 where the latter is 0."""
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
def hypot(x: Any, y: Any) -> Any:
    """sqrt(x1**2 + x2**2), without overflow on the way; its derivative at 0, 0 is 0."""
    return _radius(x, y)


def _radius(x: Any, y: Any) -> Any:
    x, y = ops.abs(x), ops.abs(y)
    large, small = ops.max(x, y), ops.min(x, y)
    ratio = small / ops.select(large == 0, shorthand.ones_like(large), large)
    result = ops.select(large == 0, large, large * ops.sqrt(1 + ratio * ratio))
    is_infinite = (x == math.inf) | (y == math.inf)
    return ops.select(is_infinite, shorthand.full_like(result, math.inf), result)


def _of_two_logarithms(name: str, base: float, formula: str) -> Any:
    """The logarithm of the sum of two powers of `base`."""
    ratio = math.log(base)

    def share(x: Any, y: Any, result: Any) -> Any:
        zero = shorthand.full_like(x, 0)
        is_end = (ops.abs(x) == math.inf) | (ops.abs(y) == math.inf)
        inside = ops.logistic(ops.select(is_end, zero, x - y) * ratio)
        # 0 in place of inf, so that inf - inf is 0.
        x, result = (ops.select(each == math.inf, zero, each) for each in (x, result))
        return ops.select(is_end, ops.exp((x - result) * ratio), inside)

    def value(x: Any, y: Any) -> Any:
        apart = x - y
        power = ops.exp(-ops.abs(apart) * ratio)
        sum_of_both = ops.max(x, y) + ops.log1p(power) / ratio
        # Equal infinities have no difference; their sum is the result.
        return ops.select(apart != apart, x + y, sum_of_both)

    text = f"{formula} of reals, without overflow on the way."
    return _with_shares(share)(elements.named(value, name, text))


logaddexp = with_methods(-math.inf)(
    _of_two_logarithms("logaddexp", math.e, "log(exp(x1) + exp(x2))")
)
logaddexp2 = with_methods(-math.inf)(_of_two_logarithms("logaddexp2", 2, "log2(2**x1 + 2**x2)"))
