"""Element-wise functions of the chlo dialect: inverse trigonometry, error and gamma functions."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, Operation, Shape, builder, register
from minixla.core.element_types import ELEMENT_TYPES, F32, F64, element_type
from minixla_ops.elementwise import numpy_gamma
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.families import FLOATS, Binary, Expandable, Unary, in_f32, row
from minixla_ops.elementwise.transcendental import FloatUnary
from minixla_ops.programs.compositions import kept_program
from minixla_ops.programs.reference_evaluation import apply_elementwise
from minixla_ops.vocabulary import GIVEN
from minixla_ops.vocabulary.casting import cast, emit_converted
from minixla_ops.vocabulary.shorthand import full_like, ones_like

# The slope of erf at 0.
_BELL = 2 / math.sqrt(math.pi)
# From here on exp(-x * x) is 0 in double; 1 + x * x is x * x, in double, too.
_FAR, _FAR_ROOT = 40.0, 1e9


class _Special(Expandable):
    """Base class: a function of the chlo dialect with the name of its class in snake_case.

    A program in StableHLO keeps it, and a backend writes it as it does for JAX. Its derivative is
    the known one, rather than that of a polynomial that approximates it.
    """

    element_types = FLOATS
    in_double = True
    least_bits = 16  # MLIR has no erfc of these

    def stablehlo(self, emit, operands, shapes, results):
        if shapes[0].element_type.bits < self.least_bits:
            return super().stablehlo(emit, operands, shapes, results)
        return emit.operation(f"chlo.{self.builder_name}", operands, shapes, results)


class _SpecialUnary(_Special, Unary):
    #: d result / d operand from operand and result.
    slope: ClassVar[Callable[..., Any]]

    def derivative(self, operand, result):
        return in_f32(self.slope, operand, result)


class _Composed(_SpecialUnary):
    """What is written as other operations, in f32 for narrower types: MLIR's form loses digits."""

    least_bits = 32
    #: The function of others.
    composed: ClassVar[Callable[[Any], Any]]
    stablehlo = Expandable.stablehlo

    def expansion(self, shape):
        return self.composed


def _sinh(x: Any) -> Any:
    # 2 sinh(x / 2) cosh(x / 2) neither cancels near 0 nor overflows early.
    half = x * 0.5
    growing, falling = ops.expm1(half), ops.expm1(-half)
    result = (growing - falling) * (0.5 * (growing + falling) + 1)
    # Half of the least normal number may count as 0.
    return ops.select(ops.abs(x) < 1e-20, x, result)


def _atanh(x: Any) -> Any:
    # Of sizes: XLA's log1p is 100 ulp off in f64 between -0.41 and -0.29.
    size = ops.abs(x)
    result = 0.5 * ops.log1p(2 * size / (1 - size))
    return ops.select(x == 0, x, ops.sign(x) * result)


def _bell(x: Any) -> Any:
    """The derivative of erf; where the square of x is infinite, its own derivative is 0, too."""
    x = ops.clamp(full_like(x, -_FAR), x, full_like(x, _FAR))
    return _BELL * ops.exp(-x * x)


def _slope_of_asinh(x: Any) -> Any:
    """1 / sqrt(1 + x * x), where the square is infinite, too."""
    size = ops.abs(x)
    is_far = size > _FAR_ROOT
    near = ops.select(is_far, full_like(x, 1), x)
    far = ops.select(is_far, size, full_like(x, 1))
    return ops.select(is_far, 1 / far, ops.rsqrt(1 + near * near))


def _chlo(name: str, numpy: Any, slope: Callable[[Any, Any], Any], composed: Any = None) -> Any:
    family, more = (_Composed, {"composed": composed}) if composed else (_SpecialUnary, {})
    return row(family, name, source=" (chlo)", numpy=numpy, slope=slope, **more)


# Name, NumPy's function, derivative from operand x and result y; and in words.
_chlo("Sinh", np.sinh, lambda x, y: ops.cosh(x), _sinh)("Hyperbolic sine.", "1 -> 1.1752012")
_chlo("Asin", np.arcsin, lambda x, y: ops.rsqrt((1 - x) * (1 + x)))(
    "Inverse sine.", "1 -> 1.5707964"
)
_chlo("Acos", np.arccos, lambda x, y: -ops.rsqrt((1 - x) * (1 + x)))(
    "Inverse cosine.", "0 -> 1.5707964"
)
_chlo("Atan", np.arctan, lambda x, y: 1 / (1 + x * x))("Inverse tangent.", "1 -> 0.7853981")
_chlo("Asinh", np.arcsinh, lambda x, y: _slope_of_asinh(x))(
    "Inverse hyperbolic sine.", "1 -> 0.88137364"
)
_chlo("Acosh", np.arccosh, lambda x, y: ops.rsqrt((x - 1) * (x + 1)))(
    "Inverse hyperbolic cosine.", "[1, 2] -> [0.      , 1.316958]"
)
_chlo("Atanh", np.arctanh, lambda x, y: 1 / ((1 - x) * (1 + x)), _atanh)(
    "Inverse hyperbolic tangent.", "0.5 -> 0.54930615"
)
_chlo("Erfc", special.erfc, lambda x, y: -_bell(x))(
    "1 - erf(x), accurate where small.", "[0, 1] -> [1.        , 0.15729924]"
)
_chlo("ErfInv", special.erf_inv, lambda x, y: (1 / _BELL) * ops.exp(y * y))(
    "The inverse of erf.", "0.5 -> 0.47693628"
)
_chlo("Lgamma", numpy_gamma.lgamma, lambda x, y: ops.digamma(x))(
    "The logarithm of abs(gamma(x)).", "[3, 5] -> [0.6931474, 3.1780548]"
)
_chlo("Digamma", numpy_gamma.digamma, lambda x, y: ops.polygamma(full_like(x, 1), x))(
    "The derivative of lgamma.", "[1, 2] -> [-0.5772154 ,  0.42278463]"
)


@register
class Erf(_SpecialUnary, FloatUnary):
    """Error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to x. XLA: Erf.

    StableHLO has no such operation; the text uses chlo.erf, which takes no result_accuracy, in f32
    for types of 8 bits and fewer.

    Example:
        >>> ops.erf(np.float32([0, 1]))
        Array([0.        , 0.84270084], dtype=float32)
    """

    numpy = special.erf
    # The exponent's rounding is multiplied by its size.
    slope = staticmethod(lambda x, y: _bell(x))


class _Sum(_Special, Binary):
    """Base class of sums over k >= 0 of powers of x + k, for operands order, x.

    The derivative with respect to the order is not defined, as in JAX. What MLIR writes is NaN
    where x is infinite and the sum 0, and wrong where x is negative. With f the fraction of -x, the
    sum for the exponent -s is that from 1 - f on, and (-1)**s times that from f up to -x, which is
    a difference of two. `numpy` is the sum where x is positive.

    Members give that and `second(order, x)`, the derivative with respect to x.
    """

    second = GIVEN
    #: The exponent s, less the order.
    offset = 0

    def stablehlo(self, emit, operands, shapes, results):
        (shape,) = results
        wide = shape.with_element_type(F32) if shape.element_type.bits < 32 else shape
        names = emit_converted(emit, operands, shapes, [wide, wide])
        order, sign, scale, *arguments = emit.expand(kept_program(self._split, (wide, wide)), names)
        sums = [
            emit.operation(f"chlo.{self.builder_name}", [order, x], [wide, wide], [wide])[0]
            for x in arguments
        ]
        found = emit.expand(kept_program(_joined, (wide,) * 5), [sign, scale, *sums])
        return emit_converted(emit, found, [wide], results)

    def reference(self, order, x):
        split = kept_program(self._split, (Shape(F64),) * 2)
        joined = kept_program(_joined, (Shape(F64),) * 5)
        kind, wide = element_type(x.dtype), [cast(each, F64) for each in (order, x)]
        with np.errstate(all="ignore"):
            order, sign, scale, *arguments = apply_elementwise(split, wide)
            sums = [self.numpy(order, x) for x in arguments]
            return cast(apply_elementwise(joined, [sign, scale, *sums])[0], kind)

    def _split(self, order: Any, x: Any) -> tuple[Any, ...]:
        exponent, one = order + self.offset, ones_like(x)
        is_far = (x == math.inf) & (exponent > 1)
        x = ops.select(is_far, one, x)
        is_whole = (exponent == ops.floor(exponent)) & (exponent > 1)
        is_reflected = (x < 0) & (x != ops.floor(x)) & is_whole
        size = ops.select(is_reflected, -x, 0.5 * one)
        fraction = size - ops.floor(size)
        is_even = 0.5 * exponent == ops.floor(0.5 * exponent)
        sign = ops.select(is_reflected, ops.select(is_even, one, -one), 0 * one)
        first = ops.select(is_reflected, 1 - fraction, x)
        return order, sign, ops.select(is_far, 0 * one, one), first, fraction, 1 + size

    def derivatives(self, lhs, rhs, result):
        return lambda: full_like(lhs, math.nan), lambda: self.second(lhs, rhs)


def _joined(sign: Any, scale: Any, first: Any, fractional: Any, above: Any) -> Any:
    # In this order: the first two may be of one size, beside which the last is small.
    return scale * ops.select(sign == 0, first, (first + sign * fractional) - sign * above)


@register
class Polygamma(_Sum):
    """The n-th derivative of digamma at x; n is an array of floats, too. XLA: Polygamma (chlo).

    Args:
        n: an array of floats, whole numbers >= 0.
        x: an array of the same shape and element type.

    Example:
        >>> ops.polygamma(np.float32(1), np.float32(1))
        Array(1.644934, dtype=float32)
    """

    operands = "n", "x"
    offset = 1
    numpy = numpy_gamma.polygamma

    def second(self, order, x):
        return self(order + 1, x)


@register
class Zeta(_Sum):
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0. XLA: Zeta (chlo).

    Args:
        x: an array of floats, the exponent.
        q: an array of the same shape and element type.

    Example:
        >>> ops.zeta(np.float32(2), np.float32(1))
        Array(1.644934, dtype=float32)
    """

    operands = "x", "q"
    numpy = numpy_gamma.zeta

    def second(self, order, x):
        return -order * self(order + 1, x)


@register
class NextAfter(_Special, Binary):
    """The float next to the first operand in the direction of the second. XLA: NextAfter (chlo).

    Args:
        lhs: an array of floats.
        rhs: an array of the same shape and element type.

    Example:
        >>> ops.next_after(np.float32(1), np.float32(2)) - 1
        Array(1.1920929e-07, dtype=float32)
    """

    element_types = FLOATS - {ELEMENT_TYPES["f8e8m0fnu"]}  # chlo's counts on a sign
    zero_derivative = "it is piecewise constant"
    in_double, least_bits = False, 0

    def reference(self, lhs, rhs):
        # ml_dtypes extends NumPy's to its types; NumPy's f16 keeps the sign of lhs between zeros.
        return np.where(lhs == rhs, rhs, np.nextafter(lhs, rhs))


# They do not broadcast.
next_after, polygamma, zeta = map(builder, (NextAfter, Polygamma, Zeta))

#: By chlo's name.
SPECIAL: dict[str, Operation] = {
    f"chlo.{each.builder_name}": each()
    for each in REGISTRY.values()
    if issubclass(each, _Special) and each is not Erf
}
