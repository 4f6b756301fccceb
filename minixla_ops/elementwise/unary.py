"""Exact element-wise operations of one operand: signs, parts of numbers, bits, rounding.

Functions with rounded results are in `transcendental`.
"""

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, element_type, register
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import families
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.families import Unary
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.shorthand import array_shape, full_like, ones_like, zeros_like


def conjugate(value: Array) -> Array:
    """Return the complex conjugate; a value of another type is unchanged."""
    return ops.complex(ops.real(value), -ops.imag(value)) if _is_complex(value) else value


def _is_complex(value: object) -> bool:
    return array_shape(value).element_type.is_complex


@register
class Neg(Unary):
    """Element-wise negation, -x; integers wrap. XLA: Neg.

    Example:
        >>> ops.neg(np.float32([1, -2]))
        Array([-1.,  2.], dtype=float32)
    """

    stablehlo_name = "negate"
    is_cheap = True
    element_types = families.NUMERIC
    linear_operands = (0,)
    numpy = np.negative

    def transpose(self, cotangents, operands, linear):
        return (-cotangents,)


@register
class Abs(Unary):
    """Element-wise absolute value; the modulus of a complex number. XLA: Abs.

    The least integer is its own absolute value. A complex operand has a real result. The derivative
    at 0 is 1 for real numbers and 0 for complex numbers, as in JAX.

    Returns:
        An array with the operand's dimensions; for complex numbers, with the type of their parts.

    Example:
        >>> ops.abs(np.float32([-1.5, 2]))
        Array([1.5, 2. ], dtype=float32)
        >>> ops.abs(np.complex64(3 + 4j))
        Array(5., dtype=float32)
    """

    stablehlo_name = "abs"
    is_cheap = True
    element_types = families.SIGNED | families.INEXACT
    numpy = np.abs

    def result_shape(self, operand):
        return operand.with_element_type(operand.element_type.real)

    def derivative(self, operand, result):
        if _is_complex(operand):
            # The derivative is 0 if the operand is 0.
            return conjugate(operand) / _as_type_of(operand, _without_zero(result))
        signs = ones_like(operand), full_like(operand, -1)
        return ops.select(ops.ge(operand, zeros_like(operand)), *signs)

    def jvp(self, primals, tangents, results):
        moved = super().jvp(primals, tangents, results)
        return ops.real(moved) if _is_complex(primals[0]) else moved

    def vjp(self, cotangents, operands, results, active):
        if _is_complex(operands[0]):
            cotangents = _as_type_of(operands[0], cotangents)
        return super().vjp(cotangents, operands, results, active)


def _as_type_of(operand: Array, value: Array) -> Array:
    """Convert reals to an operand's complex type, also under strict promotion of dtypes."""
    return ops.convert_element_type(value, array_shape(operand).element_type)


def _without_zero(value: Array) -> Array:
    return ops.select(ops.eq(value, zeros_like(value)), ones_like(value), value)


@register
class Sign(Unary):
    """Element-wise sign: -1, 0 or 1; zeros (-0 too) and NaNs are kept. XLA: Sign.

    For a complex number z it is z / |z|. The derivative is 0 for real operands. For complex
    operands it is the rotation (t - s Re(conj(s) t)) / |z| with s = sign(z), which JAX omits.

    Example:
        >>> ops.sign(np.float32([-3, 0, 2]))
        Array([-1.,  0.,  1.], dtype=float32)
    """

    stablehlo_name = "sign"
    element_types = families.SIGNED | families.INEXACT
    in_double = True
    numpy = special.sign

    def jvp(self, primals, tangents, results):
        return _turned(tangents[0], primals[0], results)

    def vjp(self, cotangents, operands, results, active):
        return (_turned(cotangents, operands[0], conjugate(results)),)


def _turned(change: Array, operand: Array, direction: Array) -> Array | None:
    """Project a change orthogonally to a direction, divided by |z|; None for real numbers."""
    if not _is_complex(operand):
        return None
    radial = direction * _as_type_of(operand, ops.real(conjugate(direction) * change))
    # 1 / |z|, or 0 if z is 0.
    scale = ops.abs(direction) / _without_zero(ops.abs(operand))
    return (change - radial) * _as_type_of(operand, scale)


class _Part(Unary):
    """Base class of the parts of a complex number; reals have the imaginary part 0."""

    element_types = families.INEXACT
    linear_operands = (0,)

    def result_shape(self, operand):
        return operand.with_element_type(operand.element_type.real)


@register
class Real(_Part):
    """Real part; a real operand is returned unchanged. XLA: Real.

    Returns:
        An array of floats with the operand's dimensions.

    Example:
        >>> ops.real(np.complex64([1 + 2j, 3]))
        Array([1., 3.], dtype=float32)
    """

    stablehlo_name = "real"
    numpy = np.real

    def stablehlo(self, emit, operands, shapes, results):
        if shapes[0] is results[0]:  # XLA folds complex(real(x), imag(x)) to x for every type
            return operands
        return super().stablehlo(emit, operands, shapes, results)

    def transpose(self, cotangents, operands, linear):
        if not _is_complex(operands[0]):
            return (cotangents,)
        return (ops.complex(cotangents, zeros_like(cotangents)),)


@register
class Imag(_Part):
    """Imaginary part; 0 for a real operand. XLA: Imag.

    Returns:
        An array of floats with the operand's dimensions.

    Example:
        >>> ops.imag(np.complex64([1 + 2j, 3]))
        Array([2., 0.], dtype=float32)
    """

    stablehlo_name = "imag"
    numpy = np.imag

    def transpose(self, cotangents, operands, linear):
        if not _is_complex(operands[0]):
            return (None,)
        # JAX's pullbacks are adjoint in Re(x y), not in Re(conj(x) y).
        return (ops.complex(zeros_like(cotangents), -cotangents),)


@register
class IsFinite(Unary):
    """Element-wise test for values that are neither infinite nor NaN. XLA: IsFinite.

    Returns:
        A pred array with the operand's dimensions.

    Example:
        >>> ops.is_finite(np.float32([1, np.inf, np.nan]))
        Array([ True, False, False], dtype=bool)
    """

    stablehlo_name = "is_finite"
    element_types = families.FLOATS
    zero_derivative = "its result is pred"
    numpy = np.isfinite

    def result_shape(self, operand):
        return operand.with_element_type(ELEMENT_TYPES["pred"])


@register
class Not(Unary):
    """Logical NOT for pred, bitwise NOT for integers. XLA: Not.

    Example:
        >>> ops.not_(np.int32([0, 5]))
        Array([-1, -6], dtype=int32)
        >>> ops.not_(np.array([True, False]))
        Array([False,  True], dtype=bool)
    """

    stablehlo_name = "not"
    is_cheap = True
    element_types = families.INTEGERS_AND_PRED
    zero_derivative = "integers have no derivative"
    numpy = np.invert


class _BitCount(Unary):
    """Base class of bit counts; the count wraps if the type is too narrow.

    Subclasses define `count(bits, width)` for unsigned elements and their number of bits.
    """

    count = GIVEN
    element_types = families.INTEGERS
    zero_derivative = "integers have no derivative"

    def reference(self, operand):
        kind = element_type(operand.dtype)
        whole = cast(operand, widened(kind))
        bits = whole.view(f"u{whole.dtype.itemsize}")
        bits = bits & np.array((1 << kind.bits) - 1, bits.dtype)
        return cast(np.asarray(self.count(bits, kind.bits)), kind)


@register
class Clz(_BitCount):
    """Number of leading zero bits; for 0, the width of the type. XLA: Clz.

    Example:
        >>> ops.clz(np.int32([0, 1, -1]))
        Array([32, 31,  0], dtype=int32)
    """

    stablehlo_name = "count_leading_zeros"

    def count(self, bits, width):
        # After all bits below the leading one are set, the zero bits are the leading zeros.
        for distance in (1, 2, 4, 8, 16, 32):
            if distance < width:
                bits = bits | (bits >> distance)
        return width - np.bitwise_count(bits)


@register
class PopulationCount(_BitCount):
    """Number of set bits. XLA: PopulationCount.

    Example:
        >>> ops.population_count(np.int32([0, 5, -1]))
        Array([ 0,  2, 32], dtype=int32)
    """

    stablehlo_name = "popcnt"

    def count(self, bits, width):
        return np.bitwise_count(bits)


def _half_away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    # trunc(x + 0.5) would round up the number before 0.5.
    step = np.where(np.abs(x - whole) >= 0.5, 1, 0).astype(x.dtype)
    return whole + np.copysign(step, x)


class _Rounding(Unary):
    """Base class of rounding operations."""

    element_types = families.FLOATS
    zero_derivative = "it is piecewise constant"


@register
class Ceil(_Rounding):
    """Smallest integral value not below x. XLA: Ceil.

    Example:
        >>> ops.ceil(np.float32([1.5, -1.5]))
        Array([ 2., -1.], dtype=float32)
    """

    stablehlo_name = "ceil"
    numpy = np.ceil


@register
class Floor(_Rounding):
    """Largest integral value not above x. XLA: Floor.

    Example:
        >>> ops.floor(np.float32([1.5, -1.5]))
        Array([ 1., -2.], dtype=float32)
    """

    stablehlo_name = "floor"
    numpy = np.floor


@register
class RoundNearestEven(_Rounding):
    """Nearest integral value, ties to even: 1.5 -> 2. XLA: RoundNearestEven.

    Example:
        >>> ops.round_nearest_even(np.float32([2.5, 3.5]))
        Array([2., 4.], dtype=float32)
    """

    stablehlo_name = "round_nearest_even"
    numpy = np.rint


@register
class RoundNearestAfz(_Rounding):
    """Nearest integral value, ties away from zero: 2.5 -> 3, -0.5 -> -1. XLA: RoundNearestAfz.

    Example:
        >>> ops.round_nearest_afz(np.float32([2.5, -0.4]))
        Array([ 3., -0.], dtype=float32)
    """

    spec_names = "RoundNearestAfz", "Round"
    stablehlo_name = "round_nearest_afz"
    numpy = _half_away_from_zero


def round(operand: ArrayLike) -> Array:
    """Round to the nearest integral values, ties away from zero, like `round_nearest_afz`.

    XLA: Round.

    Args:
        operand: an array of floats.

    Returns:
        An array with the operand's shape.

    Example:
        >>> ops.round(np.float32([2.5, -0.4]))
        Array([ 3., -0.], dtype=float32)
    """
    return ops.round_nearest_afz(operand)
