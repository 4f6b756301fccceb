"""Element-wise functions that are rounded: roots, exponentials, trigonometry, erf."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import attribute
from minixla.core.builders import builder
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.accuracy import AccuracyAttribute, ResultAccuracy
from minixla_ops.elementwise.families import FLOATS, INEXACT, Unary
from minixla_ops.vocabulary.shorthand import array_shape, full_like, ones_like, zeros_like

_F32 = ELEMENT_TYPES["f32"]


class FloatUnary(Unary):
    """Base class of the functions that take an accuracy request (rule RA).

    Args:
        operand: an array of floats or complex numbers.
        result_accuracy: a ResultAccuracy, a mode's name (`HIGHEST`), StableHLO's text, or None.
            It asks for an implementation and does not change what the function is.

    Returns:
        An array of the operand's shape.
    """

    element_types = INEXACT
    in_double = True
    result_accuracy: ResultAccuracy | None = attribute(AccuracyAttribute(), default=None)

    def stablehlo(self, emit, operands, shapes, results):
        (shape,) = self.array_shapes(shapes)
        expansion = self.expansion(shape)
        if expansion is not None:
            return emit.expand(_expanded(expansion, shape), operands)
        return super().stablehlo(emit, operands, shapes, results)

    def expansion(self, shape: Shape) -> Callable[[Any], Any] | None:
        """The function in terms of others that stands for it in StableHLO; None where it need not.

        An accuracy request is not passed on to them.
        """
        return None


@lru_cache(maxsize=1024)
def _expanded(function: Callable[[Any], Any], shape: Shape) -> Graph:
    return closed_graph(function, [shape], function.__name__)


@register
class Exp(FloatUnary):
    """Exponential, e**x. XLA: Exp."""

    hlo_name = "exponential"
    stablehlo_name = "exponential"
    numpy = np.exp

    def derivative(self, operand, result):
        return result


@register
class Expm1(FloatUnary):
    """e**x - 1, accurate near 0. XLA: Expm1."""

    hlo_name = "exponential-minus-one"
    stablehlo_name = "exponential_minus_one"
    numpy = staticmethod(special.expm1)

    def derivative(self, operand, result):
        return result + 1


@register
class Log(FloatUnary):
    """Natural logarithm; -inf at 0, NaN of negative reals. XLA: Log."""

    stablehlo_name = "log"
    numpy = np.log

    def derivative(self, operand, result):
        return 1 / operand


@register
class Log1p(FloatUnary):
    """log(1 + x), accurate near 0. XLA: Log1p."""

    hlo_name = "log-plus-one"
    stablehlo_name = "log_plus_one"
    numpy = staticmethod(special.log1p)

    def derivative(self, operand, result):
        return 1 / (1 + operand)


@register
class Logistic(FloatUnary):
    """Logistic function, 1 / (1 + e**-x). XLA: Logistic."""

    stablehlo_name = "logistic"
    numpy = staticmethod(special.logistic)

    def derivative(self, operand, result):
        if array_shape(operand).element_type.bits >= 32:
            return result * (1 - result)
        # A result of few digits leaves the difference fewer.
        return _in_f32(lambda x: logistic(x) * logistic(-x), operand)


@register
class Sqrt(FloatUnary):
    """Square root; of complex numbers the one with the real part >= 0. XLA: Sqrt."""

    stablehlo_name = "sqrt"
    numpy = np.sqrt

    def derivative(self, operand, result):
        return 0.5 / result


@register
class Rsqrt(FloatUnary):
    """1 / sqrt(x). XLA: Rsqrt."""

    stablehlo_name = "rsqrt"
    numpy = staticmethod(special.rsqrt)

    def derivative(self, operand, result):
        return -0.5 * (result / operand)


@register
class Cbrt(FloatUnary):
    """Cube root: real of real numbers, negative ones too; principal of complex ones. XLA: Cbrt.

    XLA:CPU has none for complex numbers, which become polar in StableHLO.
    """

    stablehlo_name = "cbrt"
    numpy = staticmethod(special.cbrt)

    def expansion(self, shape):
        return _cbrt_of_complex if shape.element_type.is_complex else None

    def derivative(self, operand, result):
        # Not the inverse of a square, whose derivative is NaN at 0 and infinity.
        inverse = 1 / result
        return (1 / 3) * inverse * inverse


def _cbrt_of_complex(x: Any) -> Any:
    a, b = ops.real(x), ops.imag(x)
    # An eighth of a large modulus cannot overflow.
    size = ops.abs(x)
    is_large = _is_infinite(size)
    eighth = ops.abs(ops.complex(a * 0.125, b * 0.125))
    modulus, angle = ops.select(is_large, 2 * cbrt(eighth), cbrt(size)), ops.atan2(b, a) / 3
    return ops.complex(modulus * cos(angle), _where_zero(angle, b, modulus * sin(angle)))


@register
class Sin(FloatUnary):
    """Sine. XLA: Sin.

    In StableHLO that of complex numbers is made of real functions, with the special values of C99's
    Annex G: XLA's own loses all digits of the imaginary part near 0, and gives NaN where e**|Im x|
    overflows.
    """

    hlo_name = "sine"
    stablehlo_name = "sine"
    numpy = np.sin

    def expansion(self, shape):
        return _sin_of_complex if shape.element_type.is_complex else None

    def derivative(self, operand, result):
        return ops.cos(operand, self.result_accuracy)


def _sin_of_complex(x: Any) -> Any:
    a, b = ops.real(x), ops.imag(x)
    sine, cosine = sin(a), cos(a)
    # As C99 has it, where the products are 0 * inf or the angle has no sine.
    rising, opening = _times_cosh(sine, b), _times_sinh(cosine, b)
    is_open = ops.ne(cosine, cosine) & (ops.eq(b, zeros_like(b)) | _is_infinite(b))
    return ops.complex(_where_zero(a, a, rising), ops.select(is_open, b, opening))


@register
class Cos(FloatUnary):
    """Cosine. XLA: Cos.

    In StableHLO that of complex numbers is made of real functions, see Sin.
    """

    hlo_name = "cosine"
    stablehlo_name = "cosine"
    numpy = np.cos

    def expansion(self, shape):
        return _cos_of_complex if shape.element_type.is_complex else None

    def derivative(self, operand, result):
        return -ops.sin(operand, self.result_accuracy)


def _cos_of_complex(x: Any) -> Any:
    a, b = ops.real(x), ops.imag(x)
    sine, cosine = sin(a), cos(a)
    rising, falling = _times_cosh(cosine, b), _times_sinh(-sine, b)
    # As C99 has it, where the products are 0 * inf or the angle has no sine.
    is_open = ops.ne(cosine, cosine) & _is_infinite(b)
    zero = ops.select(ops.eq(a, zeros_like(a)), ops.select(ops.lt(b, zeros_like(b)), a, -a), b)
    is_zero = ops.ne(falling, falling) & (ops.eq(a, zeros_like(a)) | ops.eq(b, zeros_like(b)))
    return ops.complex(ops.select(is_open, ops.abs(b), rising), ops.select(is_zero, zero, falling))


def _is_infinite(value: Any) -> Any:
    return ops.eq(ops.abs(value), full_like(value, math.inf))


def _where_zero(value: Any, there: Any, elsewhere: Any) -> Any:
    return ops.select(ops.eq(value, zeros_like(value)), there, elsewhere)


@register
class Tan(FloatUnary):
    """Tangent. XLA: Tan."""

    stablehlo_name = "tan"
    numpy = np.tan

    def derivative(self, operand, result):
        return 1 + result * result


@register
class Tanh(FloatUnary):
    """Hyperbolic tangent. XLA: Tanh."""

    stablehlo_name = "tanh"
    numpy = np.tanh

    def derivative(self, operand, result):
        return (1 - result) * (1 + result)


@register
class Cosh(FloatUnary):
    """Hyperbolic cosine, (e**x + e**-x) / 2. XLA: Cosh.

    StableHLO has no such operation. The text squares e**(x / 2), which overflows only where the
    result does and is within 4 ulp, where chlo.cosh, e**(x + log(1/2)) + e**(-x + log(1/2)), is
    24 ulp off in f32 and 500 in f64. The derivative is computed in the same way.
    """

    numpy = np.cosh

    def expansion(self, shape):
        if shape.element_type.is_complex:
            return _cosh_of_complex
        return _cosh_in_f32 if shape.element_type.bits < 32 else _cosh

    def derivative(self, operand, result):
        return _sinh(operand)


def _cosh(x: Any) -> Any:
    return _times_cosh(ones_like(x), x)


def _times_cosh(factor: Any, x: Any) -> Any:
    """The product factor * cosh(x), which overflows only where it must."""
    half = x * 0.5
    growing, falling = exp(half), exp(-half)
    return factor * growing * (0.5 * growing) + factor * falling * (0.5 * falling)


def _cosh_of_complex(x: Any) -> Any:
    return _cos_of_complex(ops.complex(-ops.imag(x), ops.real(x)))


def _cosh_in_f32(x: Any) -> Any:
    return _in_f32(_cosh, x)


def _in_f32(function: Callable[[Any], Any], x: Any) -> Any:
    """function(x), computed in f32 for types narrower than that."""
    kind = array_shape(x).element_type
    if kind.bits >= 32:
        return function(x)
    return ops.convert_element_type(function(ops.convert_element_type(x, _F32)), kind)


def _sinh(x: Any) -> Any:
    return _times_sinh(ones_like(x), x)


def _times_sinh(factor: Any, x: Any) -> Any:
    """The product factor * ((e**x - 1) / 2 - (e**-x - 1) / 2), each from e**(x / 2) - 1.

    It neither cancels near 0 nor overflows early. Nor does its derivative, to which each factor
    adds half, in an order in which XLA does not double them before they are halved.
    """
    growing, falling, growing_too, falling_too = (expm1(x * c) for c in (0.5, -0.5, 0.5, -0.5))
    return factor * growing * (0.5 * growing_too + 1) - factor * falling * (0.5 * falling_too + 1)


@register
class Erf(FloatUnary):
    """Error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to x. XLA: Erf.

    StableHLO has no such operation; the text uses chlo.erf, which takes no result_accuracy, in f32
    for types of 8 bits and fewer.
    """

    element_types = FLOATS
    numpy = staticmethod(special.erf)

    def stablehlo(self, emit, operands, shapes, results):
        (shape,) = self.array_shapes(shapes)
        if shape.element_type.bits < 16:
            return emit.expand(_expanded(_erf_in_f32, shape), operands)
        return emit.operation("chlo.erf", operands, shapes, results)

    def derivative(self, operand, result):
        # The exponent's rounding is multiplied by its size.
        return _in_f32(lambda x: (2 / math.sqrt(math.pi)) * exp(-x * x), operand)


def _erf_in_f32(x: Any) -> Any:
    return _in_f32(erf, x)


cbrt = builder(Cbrt)
cos = builder(Cos)
cosh = builder(Cosh)
erf = builder(Erf)
exp = builder(Exp)
expm1 = builder(Expm1)
log = builder(Log)
log1p = builder(Log1p)
logistic = builder(Logistic)
rsqrt = builder(Rsqrt)
sin = builder(Sin)
sqrt = builder(Sqrt)
tan = builder(Tan)
tanh = builder(Tanh)
