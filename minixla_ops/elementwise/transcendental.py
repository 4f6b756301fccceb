"""Element-wise functions with rounded results: roots, exponentials, trigonometry."""

import math

import numpy as np

import minixla_ops as ops
from minixla.core import attribute, register
from minixla.typing import Array
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.accuracy import AccuracyAttribute, ResultAccuracy
from minixla_ops.elementwise.families import COMPLEX, INEXACT, Unary, in_f32
from minixla_ops.helpers.shorthand import array_shape


class FloatUnary(Unary):
    """Base class of functions that accept an accuracy request (rule RA).

    Args:
        operand: an array of floats or complex numbers.
        result_accuracy: a ResultAccuracy, a mode's name (`HIGHEST`), StableHLO's text, or None.
            It selects an implementation and does not change the function.

    Returns:
        An array with the operand's shape.
    """

    element_types = INEXACT
    in_double = True
    result_accuracy: ResultAccuracy | None = attribute(AccuracyAttribute(), default=None)


@register
class Exp(FloatUnary):
    """Exponential, e**x. XLA: Exp.

    Example:
        >>> ops.exp(np.float32(1))
        Array(2.7182817, dtype=float32)
    """

    stablehlo_name = "exponential"
    numpy = np.exp

    def derivative(self, operand, result):
        return result


@register
class Expm1(FloatUnary):
    """e**x - 1, accurate near 0. XLA: Expm1.

    Example:
        >>> ops.expm1(np.float32(1))
        Array(1.7182817, dtype=float32)
    """

    stablehlo_name = "exponential_minus_one"
    numpy = special.expm1

    def derivative(self, operand, result):
        return ops.exp(operand)


@register
class Log(FloatUnary):
    """Natural logarithm; -inf at 0, NaN for negative reals. XLA: Log.

    Example:
        >>> ops.log(np.float32(10))
        Array(2.3025851, dtype=float32)
    """

    stablehlo_name = "log"
    numpy = np.log

    def derivative(self, operand, result):
        return 1 / operand


@register
class Log1p(FloatUnary):
    """log(1 + x), accurate near 0. XLA: Log1p.

    Example:
        >>> ops.log1p(np.float32(1))
        Array(0.6931472, dtype=float32)
    """

    stablehlo_name = "log_plus_one"
    numpy = special.log1p

    def derivative(self, operand, result):
        return 1 / (1 + operand)


@register
class Sqrt(FloatUnary):
    """Square root; the complex root has real part >= 0. XLA: Sqrt.

    Example:
        >>> ops.sqrt(np.float32([4, 2]))
        Array([2.       , 1.4142135], dtype=float32)
    """

    stablehlo_name = "sqrt"
    numpy = np.sqrt

    def derivative(self, operand, result):
        return 0.5 / result


@register
class Rsqrt(FloatUnary):
    """1 / sqrt(x). XLA: Rsqrt.

    Example:
        >>> ops.rsqrt(np.float32([4, 16]))
        Array([0.5 , 0.25], dtype=float32)
    """

    stablehlo_name = "rsqrt"
    numpy = special.rsqrt

    def derivative(self, operand, result):
        return -0.5 * (result / operand)


@register
class Tan(FloatUnary):
    """Tangent. XLA: Tan.

    Example:
        >>> ops.tan(np.float32(1))
        Array(1.5574077, dtype=float32)
    """

    stablehlo_name = "tan"
    numpy = np.tan

    def derivative(self, operand, result):
        return 1 + result * result


@register
class Tanh(FloatUnary):
    """Hyperbolic tangent. XLA: Tanh.

    Example:
        >>> ops.tanh(np.float32([0, 1]))
        Array([0.       , 0.7615942], dtype=float32)
    """

    stablehlo_name = "tanh"
    numpy = np.tanh

    def derivative(self, operand, result):
        return (1 - result) * (1 + result)


@register
class Logistic(FloatUnary):
    """Logistic function, 1 / (1 + e**-x). XLA: Logistic.

    Example:
        >>> ops.logistic(np.float32([0, 1]))
        Array([0.5      , 0.7310586], dtype=float32)
    """

    stablehlo_name = "logistic"
    numpy = special.logistic

    def derivative(self, operand, result):
        if array_shape(operand).element_type.bits >= 32:
            return result * (1 - result)  # it reads only the result, so loops save fewer values
        # In narrow types, the difference 1 - result would lose digits.
        return in_f32(lambda x: ops.logistic(x) * ops.logistic(-x), operand)


@register
class Cbrt(FloatUnary):
    """Cube root: real for real numbers, principal for complex ones. XLA: Cbrt.

    In StableHLO, complex numbers are converted to polar form.

    Example:
        >>> ops.cbrt(np.float32([8, -27]))
        Array([ 2., -3.], dtype=float32)
    """

    stablehlo_name = "cbrt"
    numpy = special.cbrt
    lowered_types = COMPLEX

    def lowered(self, x):
        a, b = ops.real(x), ops.imag(x)
        # An eighth of a large modulus does not overflow.
        size, eighth = ops.abs(x), ops.abs(ops.complex(a * 0.125, b * 0.125))
        modulus = ops.select(size == math.inf, 2 * ops.cbrt(eighth), ops.cbrt(size))
        angle = ops.atan2(b, a) / 3
        imag = ops.select(angle == 0, b, modulus * ops.sin(angle))
        return ops.complex(modulus * ops.cos(angle), imag)

    def derivative(self, operand, result):
        # Do not invert a square: its derivative is NaN at 0 and infinity.
        inverse = 1 / result
        return (1 / 3) * inverse * inverse


@register
class Sin(FloatUnary):
    """Sine. XLA: Sin.

    In StableHLO, the complex sine is composed of real functions, with the special values of Annex G
    in C99. XLA's complex sine loses all digits of the imaginary part near 0, and returns NaN if
    e**|Im x| overflows.

    Example:
        >>> ops.sin(np.float32([0, 1]))
        Array([0.        , 0.84147096], dtype=float32)
    """

    stablehlo_name = "sine"
    numpy = np.sin
    lowered_types = COMPLEX

    def lowered(self, x):
        a, b = ops.real(x), ops.imag(x)
        sine, cosine = ops.sin(a), ops.cos(a)
        # As in C99 if the products are 0 * inf or the angle is infinite or NaN.
        rising, opening = _cosh(b, sine), _sinh(b, cosine)
        is_open = (cosine != cosine) & ((b == 0) | (ops.abs(b) == math.inf))
        return ops.complex(ops.select(a == 0, a, rising), ops.select(is_open, b, opening))

    def derivative(self, operand, result):
        return ops.cos(operand, self.result_accuracy)


@register
class Cos(FloatUnary):
    """Cosine. XLA: Cos.

    In StableHLO, the complex cosine is composed of real functions; see Sin.

    Example:
        >>> ops.cos(np.float32([0, 1]))
        Array([1.       , 0.5403023], dtype=float32)
    """

    stablehlo_name = "cosine"
    numpy = np.cos
    lowered_types = COMPLEX

    def lowered(self, x):
        a, b = ops.real(x), ops.imag(x)
        sine, cosine = ops.sin(a), ops.cos(a)
        rising, falling = _cosh(b, cosine), _sinh(b, -sine)
        # As in C99 if the products are 0 * inf or the angle is infinite or NaN.
        is_open = (cosine != cosine) & (ops.abs(b) == math.inf)
        zero = ops.select(a == 0, ops.select(b < 0, a, -a), b)
        is_zero = (falling != falling) & ((a == 0) | (b == 0))
        return ops.complex(
            ops.select(is_open, ops.abs(b), rising), ops.select(is_zero, zero, falling)
        )

    def derivative(self, operand, result):
        return -ops.sin(operand, self.result_accuracy)


@register
class Cosh(FloatUnary):
    """Hyperbolic cosine, (e**x + e**-x) / 2. XLA: Cosh.

    StableHLO has no such operation. The text squares e**(x / 2), which overflows only if the
    result does, and is within 4 ulp. The formula of chlo.cosh, e**(x + log(1/2)) +
    e**(-x + log(1/2)), is off by 24 ulp in f32 and 500 in f64. The derivative uses squares, too.

    Example:
        >>> ops.cosh(np.float32([0, 1]))
        Array([1.       , 1.5430806], dtype=float32)
    """

    numpy = np.cosh

    def lowered(self, x):
        if array_shape(x).element_type.is_complex:
            return ops.cos(ops.complex(-ops.imag(x), ops.real(x)))
        return in_f32(_cosh, x)

    def derivative(self, operand, result):
        return _sinh(operand)


def _cosh(x: Array, factor: Array | float = 1) -> Array:
    """Compute factor * cosh(x), which overflows only if the product does."""
    half = x * 0.5
    growing, falling = ops.exp(half), ops.exp(-half)
    return factor * growing * (0.5 * growing) + factor * falling * (0.5 * falling)


def _sinh(x: Array, factor: Array | float = 1) -> Array:
    """Compute factor * ((e**x - 1) / 2 - (e**-x - 1) / 2) from e**(x / 2) - 1.

    It neither cancels near 0 nor overflows early. The same holds for its derivative: each factor
    adds half, in an order that prevents XLA from doubling before halving.
    """
    growing, falling, growing_too, falling_too = (ops.expm1(x * c) for c in (0.5, -0.5, 0.5, -0.5))
    return factor * growing * (0.5 * growing_too + 1) - factor * falling * (0.5 * falling_too + 1)
