"""Element-wise functions of the chlo dialect: inverse trigonometry, error and gamma functions."""

import math

import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, Operation, Shape, builder, register
from minixla.core.element_types import ELEMENT_TYPES, F32, F64, element_type
from minixla.typing import Array
from minixla_ops.elementwise import numpy_gamma
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.families import FLOATS, Binary, Elementwise, Unary, in_f32
from minixla_ops.elementwise.transcendental import FloatUnary
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.casting import cast, emit_converted
from minixla_ops.helpers.shorthand import full_like, ones_like
from minixla_ops.programs.lowering import kept_program
from minixla_ops.programs.reference_evaluation import apply_elementwise

# The derivative of erf at 0.
_BELL = 2 / math.sqrt(math.pi)
# From here on, in f64, exp(-x * x) is 0 and 1 + x * x equals x * x.
_FAR, _FAR_ROOT = 40.0, 1e9


class _Special(Elementwise):
    """Base class of functions of the chlo dialect, named after the class in snake_case.

    StableHLO programs keep the function, and backends expand it as they do for JAX. The derivative
    is the exact formula, not that of an approximating polynomial.
    """

    element_types = FLOATS
    in_double = True
    #: Types that are computed in f32, because MLIR lacks erfc for them.
    lowered_types = frozenset(kind for kind in FLOATS if kind.bits < 16)

    def lowered(self, *operands):
        return in_f32(self, *operands)

    def stablehlo(self, emit, operands, shapes, results):
        if shapes[0].element_type in self.lowered_types:
            return super().stablehlo(emit, operands, shapes, results)
        return emit.operation(f"chlo.{self.builder_name}", operands, shapes, results)


class _SpecialUnary(_Special, Unary):
    #: `slope(operand, result)`: the derivative, computed in f32 for narrower types.
    slope = GIVEN

    def derivative(self, operand, result):
        return in_f32(self.slope, operand, result)


class _Composed(_SpecialUnary):
    """Base class of functions composed of other operations, as MLIR's expansion loses digits."""

    #: `composed(operand)`: the result by other operations, in f32 for narrower types.
    composed = GIVEN
    lowered_types = FLOATS

    def lowered(self, operand):
        return in_f32(self.composed, operand)


def _bell(x: Array) -> Array:
    """Compute the derivative of erf; its own derivative is 0 if x * x is infinite."""
    x = ops.clamp(full_like(x, -_FAR), x, full_like(x, _FAR))
    return _BELL * ops.exp(-x * x)


@register
class Sinh(_Composed):
    """Hyperbolic sine. XLA: Sinh (chlo).

    Example:
        >>> ops.sinh(np.float32(1))
        Array(1.1752012, dtype=float32)
    """

    numpy = np.sinh

    def composed(self, operand):
        # 2 sinh(x / 2) cosh(x / 2) neither cancels near 0 nor overflows early.
        half = operand * 0.5
        growing, falling = ops.expm1(half), ops.expm1(-half)
        result = (growing - falling) * (0.5 * (growing + falling) + 1)
        # Half of the smallest normal number may flush to 0.
        return ops.select(ops.abs(operand) < 1e-20, operand, result)

    def slope(self, operand, result):
        return ops.cosh(operand)


@register
class Asin(_SpecialUnary):
    """Inverse sine. XLA: Asin (chlo).

    Example:
        >>> ops.asin(np.float32(1))
        Array(1.5707964, dtype=float32)
    """

    numpy = np.arcsin

    def slope(self, operand, result):
        return ops.rsqrt((1 - operand) * (1 + operand))


@register
class Acos(_SpecialUnary):
    """Inverse cosine. XLA: Acos (chlo).

    Example:
        >>> ops.acos(np.float32(0))
        Array(1.5707964, dtype=float32)
    """

    numpy = np.arccos

    def slope(self, operand, result):
        return -ops.rsqrt((1 - operand) * (1 + operand))


@register
class Atan(_SpecialUnary):
    """Inverse tangent. XLA: Atan (chlo).

    Example:
        >>> ops.atan(np.float32(1))
        Array(0.7853981, dtype=float32)
    """

    numpy = np.arctan

    def slope(self, operand, result):
        return 1 / (1 + operand * operand)


@register
class Asinh(_SpecialUnary):
    """Inverse hyperbolic sine. XLA: Asinh (chlo).

    Example:
        >>> ops.asinh(np.float32(1))
        Array(0.88137364, dtype=float32)
    """

    numpy = np.arcsinh

    def slope(self, operand, result):
        # Compute 1 / sqrt(1 + x * x) without overflow of the square.
        size = ops.abs(operand)
        is_far = size > _FAR_ROOT
        near = ops.select(is_far, full_like(operand, 1), operand)
        far = ops.select(is_far, size, full_like(operand, 1))
        return ops.select(is_far, 1 / far, ops.rsqrt(1 + near * near))


@register
class Acosh(_SpecialUnary):
    """Inverse hyperbolic cosine. XLA: Acosh (chlo).

    Example:
        >>> ops.acosh(np.float32([1, 2]))
        Array([0.      , 1.316958], dtype=float32)
    """

    numpy = np.arccosh

    def slope(self, operand, result):
        return ops.rsqrt((operand - 1) * (operand + 1))


@register
class Atanh(_Composed):
    """Inverse hyperbolic tangent. XLA: Atanh (chlo).

    Example:
        >>> ops.atanh(np.float32(0.5))
        Array(0.54930615, dtype=float32)
    """

    numpy = np.arctanh

    def composed(self, operand):
        # Use |x|: XLA's log1p is 100 ulp off in f64 between -0.41 and -0.29.
        size = ops.abs(operand)
        result = 0.5 * ops.log1p(2 * size / (1 - size))
        return ops.select(operand == 0, operand, ops.sign(operand) * result)

    def slope(self, operand, result):
        return 1 / ((1 - operand) * (1 + operand))


@register
class Erfc(_SpecialUnary):
    """Complementary error function 1 - erf(x), accurate for small results. XLA: Erfc (chlo).

    Example:
        >>> ops.erfc(np.float32([0, 1]))
        Array([1.        , 0.15729924], dtype=float32)
    """

    numpy = special.erfc

    def slope(self, operand, result):
        return -_bell(operand)


@register
class ErfInv(_SpecialUnary):
    """Inverse error function. XLA: ErfInv (chlo).

    Example:
        >>> ops.erf_inv(np.float32(0.5))
        Array(0.47693628, dtype=float32)
    """

    numpy = special.erf_inv

    def slope(self, operand, result):
        return (1 / _BELL) * ops.exp(result * result)


@register
class Lgamma(_SpecialUnary):
    """Logarithm of abs(gamma(x)). XLA: Lgamma (chlo).

    Example:
        >>> ops.lgamma(np.float32([3, 5]))
        Array([0.6931474, 3.1780548], dtype=float32)
    """

    numpy = numpy_gamma.lgamma

    def slope(self, operand, result):
        return ops.digamma(operand)


@register
class Digamma(_SpecialUnary):
    """Derivative of lgamma. XLA: Digamma (chlo).

    Example:
        >>> ops.digamma(np.float32([1, 2]))
        Array([-0.5772154 ,  0.42278463], dtype=float32)
    """

    numpy = numpy_gamma.digamma

    def slope(self, operand, result):
        return ops.polygamma(full_like(operand, 1), operand)


@register
class Erf(_SpecialUnary, FloatUnary):
    """Error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to x. XLA: Erf.

    StableHLO has no such operation. The text uses chlo.erf, which does not support
    result_accuracy, in f32 for types of 8 bits or fewer.

    Example:
        >>> ops.erf(np.float32([0, 1]))
        Array([0.        , 0.84270084], dtype=float32)
    """

    numpy = special.erf

    def slope(self, operand, result):
        # The exponent amplifies its rounding error, so narrow types are computed in f32.
        return _bell(operand)


class _Sum(_Special, Binary):
    """Base class of sums over k >= 0 of powers of x + k, for operands order and x.

    The derivative with respect to polygamma's order is not defined, as in JAX. MLIR's expansion is
    NaN if x is infinite and the sum 0, and wrong if x is negative. Let f be the fractional part of
    -x. The sum for the exponent -s is the sum from 1 - f on, plus (-1)**s times the sum from f up
    to -x. The latter is a difference of two sums. `numpy` is the sum for positive x.

    Subclasses define it and `second(order, x)`, the derivative with respect to x.
    """

    second = GIVEN
    #: The exponent s minus the order.
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
        kind, wide = element_type(x.dtype), [cast(operand, F64) for operand in (order, x)]
        with np.errstate(all="ignore"):
            order, sign, scale, *arguments = apply_elementwise(split, wide)
            sums = [self.numpy(order, x) for x in arguments]
            return cast(apply_elementwise(joined, [sign, scale, *sums])[0], kind)

    def _split(self, order: Array, x: Array) -> tuple[Array, ...]:
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


def _joined(sign: Array, scale: Array, first: Array, fractional: Array, above: Array) -> Array:
    # Add in this order: the first two may be of similar size, and the last is small beside them.
    return scale * ops.select(sign == 0, first, (first + sign * fractional) - sign * above)


@register
class Polygamma(_Sum):
    """The n-th derivative of digamma at x; n is also an array of floats. XLA: Polygamma (chlo).

    Args:
        n: an array of floats with integer values >= 0.
        x: an array with the same shape and element type.

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
    """Hurwitz zeta function: the sum of (q + k)**-x over k >= 0. XLA: Zeta (chlo).

    Args:
        x: an array of floats: the exponent.
        q: an array with the same shape and element type.

    Example:
        >>> ops.zeta(np.float32(2), np.float32(1))
        Array(1.644934, dtype=float32)
    """

    operands = "x", "q"
    numpy = numpy_gamma.zeta

    def second(self, order, x):
        return -order * self(order + 1, x)

    def derivatives(self, lhs, rhs, result):
        return lambda: in_f32(_zeta_by_exponent, lhs, rhs), lambda: self.second(lhs, rhs)


#: B(2 j) / (2 j)! for the Bernoulli numbers B.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
#: The number of terms summed before the rest is approximated by an integral.
_TERMS = 12


def _zeta_by_exponent(s: Array, q: Array) -> Array:
    """Compute the derivative of zeta(s, q) with respect to s, for s > 1 and q > 0; else NaN.

    It differentiates each term of the Euler-Maclaurin formula (DLMF 25.11.5).
    """
    is_inside = (s > 1) & (q > 0) & (s < math.inf) & (q < math.inf)
    two, one = full_like(s, 2), ones_like(q)
    s, x = ops.select(is_inside, s, two), ops.select(is_inside, q, one)
    total = full_like(s, 0)
    for _ in range(_TERMS):
        total = total - ops.log(x) * ops.pow(x, -s)
        x = x + 1
    log, power = ops.log(x), ops.pow(x, -s)
    total = total - x * power / (s - 1) * (log + 1 / (s - 1)) - 0.5 * log * power
    # The product s (s + 1) ... (s + 2 j - 2), and the sum of its factors' inverses.
    product, inverses, power = s, 1 / s, power / x
    for number, factor in enumerate(_BERNOULLI, 1):
        total = total + factor * product * (inverses - log) * power
        for step in (2 * number - 1, 2 * number):
            product, inverses = product * (s + step), inverses + 1 / (s + step)
        power = power / (x * x)
    is_limit = (q == math.inf) & (s > 1) | (s == math.inf) & (q > 1)
    outside = ops.select(is_limit, full_like(s, 0), full_like(s, math.nan))
    return ops.select(is_inside, total, outside)


@register
class NextAfter(_Special, Binary):
    """The next float after lhs in the direction of rhs. XLA: NextAfter (chlo).

    Args:
        lhs: an array of floats.
        rhs: an array with the same shape and element type.

    Example:
        >>> ops.next_after(np.float32(1), np.float32(2)) - 1
        Array(1.1920929e-07, dtype=float32)
    """

    element_types = FLOATS - {ELEMENT_TYPES["f8e8m0fnu"]}  # chlo's expansion relies on a sign bit
    zero_derivative = "it is piecewise constant"
    in_double, lowered_types = False, frozenset()

    def reference(self, lhs, rhs):
        # np.nextafter, extended by ml_dtypes to its types, keeps the sign of lhs for f16 zeros.
        return np.where(lhs == rhs, rhs, np.nextafter(lhs, rhs))


# These builders do not broadcast.
next_after, polygamma, zeta = map(builder, (NextAfter, Polygamma, Zeta))

#: Operations by the name in chlo.
SPECIAL: dict[str, Operation] = {
    f"chlo.{operation.builder_name}": operation()
    for operation in REGISTRY.values()
    if issubclass(operation, _Special) and operation is not Erf
}
