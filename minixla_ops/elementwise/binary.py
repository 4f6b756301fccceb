"""Element-wise arithmetic and bitwise operations of two operands."""

from collections.abc import Callable, Sequence

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, REGISTRY, element_type, register
from minixla.core.builders import derived
from minixla.core.linear import add_cotangents
from minixla.core.operation import EACH_OPERAND
from minixla.core.operation_docstrings import joined, sections
from minixla.core.registry import fill_role
from minixla.core.tracebacks import hide_frames
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import families
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.families import Binary
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.changes import divided, in_imported_program, scaled
from minixla_ops.helpers.shorthand import full_like, ones_like
from minixla_ops.movement.broadcasting import broadcast_operands


@register
class Add(Binary):
    """Element-wise sum; integers wrap, logical OR for pred. XLA: Add.

    Example:
        >>> ops.add(np.int32([1, 2]), np.int32([10, 20]))
        Array([11, 22], dtype=int32)
    """

    stablehlo_name = "add"
    is_cheap = True
    element_types = families.ALL
    numpy = np.add
    linear_operands = (0, 1)

    def jvp(self, primals, tangents, results):
        return add_cotangents(*tangents)

    def transpose(self, cotangents, operands, linear):
        return [cotangents if wanted else None for wanted in linear]


@register
class Sub(Binary):
    """Element-wise difference; integers wrap. XLA: Sub.

    Example:
        >>> ops.sub(np.int32([1, 2]), np.int32([10, 20]))
        Array([ -9, -18], dtype=int32)
    """

    stablehlo_name = "subtract"
    is_cheap = True
    element_types = families.NUMERIC
    numpy = np.subtract
    linear_operands = (0, 1)

    def jvp(self, primals, tangents, results):
        left, right = tangents
        if left is None:
            return -right
        return left if right is None else self(left, right)

    def transpose(self, cotangents, operands, linear):
        return [cotangents if linear[0] else None, -cotangents if linear[1] else None]


@register
class Mul(Binary):
    """Element-wise product; integers wrap, logical AND for pred. XLA: Mul.

    Example:
        >>> ops.mul(np.int32([1, 2]), np.int32([10, 20]))
        Array([10, 40], dtype=int32)
    """

    stablehlo_name = "multiply"
    is_cheap = True
    element_types = families.ALL
    numpy = np.multiply
    linear_operands = EACH_OPERAND

    def jvp(self, primals, tangents, results):
        if not in_imported_program():
            return super().jvp(primals, tangents, results)
        pairs = zip(tangents, reversed(primals), strict=True)
        return add_cotangents(*[None if t is None else scaled(t, other) for t, other in pairs])

    def transpose(self, cotangents, operands, linear):
        lhs, rhs = operands
        # Both use the same order of operands, so that the two products of a square are identical.
        return [
            scaled(cotangents, rhs) if linear[0] else None,
            scaled(cotangents, lhs) if linear[1] else None,
        ]


@register
class Div(Binary):
    """Element-wise quotient; integers round toward zero. XLA: Div.

    XLA leaves an integer divided by 0, and the smallest integer divided by -1, to the
    implementation. Here all bits of the first are set, and the second wraps.

    Example:
        >>> ops.div(np.float32([1, 2]), np.float32([2, 2]))
        Array([0.5, 1. ], dtype=float32)
        >>> ops.div(np.int32(-7), np.int32(2))
        Array(-3, dtype=int32)
    """

    stablehlo_name = "divide"
    is_cheap = True
    element_types = families.NUMERIC
    numpy = special.quotient
    linear_operands = (0,)

    def over(self, change: Array, divisor: Array) -> Array:
        """Apply the operation to a tangent or cotangent."""
        return divided(change, divisor)

    def times(self, lhs: Array, rhs: Array) -> Array:
        """Multiply the result with a tangent or cotangent, in any order.

        In imported programs, 0 times infinity is 0, so the derivative of 1 / (1 + exp(x)) is 0 if
        exp(x) overflows.
        """
        if in_imported_program():
            return REGISTRY["MulNoNan"](either=True)(lhs, rhs)
        return lhs * rhs

    def jvp(self, primals, tangents, results):
        left, right = tangents
        if right is not None:
            change = self.times(results, right)
            left = -change if left is None else left - change
        return self.over(left, primals[1])

    def transpose(self, cotangents, operands, linear):
        return [self.over(cotangents, operands[1]), None]

    def vjp(self, cotangents, operands, results, active):
        if not active[0]:
            # Do not reuse the numerator's share: XLA would keep one more array.
            return [None, self.over(self.times(-cotangents, results), operands[1])]
        share = self.over(cotangents, operands[1])
        return [share, self.times(-share, results) if active[1] else None]


@register
class Rem(Binary):
    """Element-wise remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem.

    For an integer and 0 it is the integer; for the smallest integer and -1 it is 0.

    Example:
        >>> ops.rem(np.int32([7, -7]), np.int32([3, 3]))
        Array([ 1, -1], dtype=int32)
    """

    stablehlo_name = "remainder"
    element_types = families.REALS
    numpy = special.remainder

    def derivatives(self, lhs, rhs, result):
        return lambda: ones_like(lhs), lambda: -ops.round_nearest_even((lhs - result) / rhs)


@register
class Pow(Binary):
    """lhs raised to the power rhs. XLA: Pow.

    Integer powers wrap; negative exponents round toward zero, and give 0 for base 0.

    Example:
        >>> ops.pow(np.float32([2, 4]), np.float32([3, 0.5]))
        Array([8., 2.], dtype=float32)
    """

    stablehlo_name = "power"
    element_types = families.NUMERIC
    numpy = special.power
    in_double = True

    def derivatives(self, lhs, rhs, result):
        def of_base() -> Array:
            # The derivative of x ** 0 is 0, also at 0, where x ** -1 is infinite.
            is_constant = (lhs == 0) & (rhs == 0)
            return rhs * self(ops.select(is_constant, ones_like(lhs), lhs), rhs - 1)

        def of_exponent() -> Array:
            # The derivative of 0 ** y is 0, though log(0) is infinite.
            return ops.log(ops.select(lhs == 0, ones_like(lhs), lhs)) * result

        return of_base, of_exponent


def _chosen(is_first: Array, lhs: Array, rhs: Array) -> Array:
    """Choose one of two complex numbers: one that is NaN, else lhs if `is_first`."""
    return ops.select(ops.ne(lhs, lhs) | (is_first & ops.eq(rhs, rhs)), lhs, rhs)


class _Extremum(Binary):
    """Base class of Max and Min; for equal operands, each gets half of the derivative.

    StableHLO's operations are not used for complex numbers: XLA compares only the real parts.
    """

    element_types = families.ALL
    lowered_types = families.COMPLEX
    #: The direction in which the chosen operand compares with the other.
    direction = ""

    def lowered(self, lhs, rhs):
        return _chosen(ops.compare(lhs, rhs, self.direction), lhs, rhs)

    def derivatives(self, lhs, rhs, result):
        return lambda: self._share(lhs, rhs), lambda: self._share(rhs, lhs)

    def _share(self, chosen: Array, other: Array) -> Array:
        nothing, half, all_ = (full_like(chosen, share) for share in (0, 0.5, 1))
        is_chosen = ops.compare(chosen, other, self.direction)
        return ops.select(chosen == other, half, ops.select(is_chosen, all_, nothing))


@register
class Max(_Extremum):
    """Element-wise maximum; NaN if either is NaN, and +0 is larger than -0. XLA: Max.

    Logical OR for pred. Complex numbers are ordered by real parts, then by imaginary parts.

    Example:
        >>> ops.max(np.float32([1, 5]), np.float32([3, np.nan]))
        Array([ 3., nan], dtype=float32)
    """

    stablehlo_name = "maximum"
    direction = "GT"
    numpy = special.maximum


@register
class Min(_Extremum):
    """Element-wise minimum; NaN if either is NaN, and -0 is smaller than +0. XLA: Min.

    Logical AND for pred. Complex numbers are ordered by real parts, then by imaginary parts.

    Example:
        >>> ops.min(np.float32([1, 5]), np.float32([3, np.nan]))
        Array([ 1., nan], dtype=float32)
    """

    stablehlo_name = "minimum"
    direction = "LT"
    numpy = special.minimum


@register
class Atan2(Binary):
    """Element-wise angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2.

    For complex numbers, -i * log((rhs + i * lhs) / sqrt(rhs**2 + lhs**2)).

    Example:
        >>> ops.atan2(np.float32([1, -1]), np.float32([1, -1]))
        Array([ 0.7853982, -2.3561945], dtype=float32)
    """

    stablehlo_name = "atan2"
    element_types = families.INEXACT
    numpy = special.atan2
    in_double = True

    def derivatives(self, lhs, rhs, result):
        square = lhs * lhs + rhs * rhs
        return lambda: rhs / square, lambda: -lhs / square


@register
class Complex(Binary):
    """The complex number with real part lhs and imaginary part rhs. XLA: Complex.

    Example:
        >>> ops.complex(np.float32([1, 2]), np.float32([0, -1]))
        Array([1.+0.j, 2.-1.j], dtype=complex64)
    """

    stablehlo_name = "complex"
    element_types = frozenset((ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]))
    numpy = special.with_parts
    linear_operands = (0, 1)

    def result_shape(self, operand):
        return operand.with_element_type(operand.element_type.complex)

    def transpose(self, cotangents, operands, linear):
        # JAX's pairing is Re(cotangent * tangent), without a conjugate.
        return [
            ops.real(cotangents) if linear[0] else None,
            -ops.imag(cotangents) if linear[1] else None,
        ]


def binary_builder(operation: type[Binary]) -> Callable[..., Array]:
    """Build the function that broadcasts two arrays by XLA's rule and applies `operation`."""
    record = operation()

    def builder(
        lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = None
    ) -> Array:
        try:
            return record(*broadcast_operands(record, lhs, rhs, broadcast_dimensions))
        except Exception as error:
            hide_frames(error)
            raise

    builder = derived(operation, builder)
    builder.__doc__ = joined({**sections(builder.__doc__ or ""), **_ARGUMENTS})
    return builder


_ARGUMENTS = sections("""Args:
    lhs: an array.
    rhs: an array of the same element type.
    broadcast_dimensions: for each dimension of the lower-rank operand, its dimension in the other
        operand. Required if the ranks differ, unless one operand is a scalar.

Returns:
    An array with the dimensions that both operands broadcast to.

Raises:
    ShapeError: the operands do not broadcast (B1, E1 ... E9), or the operation does not support
        their element type (C2).
""")


class _Bitwise(Binary):
    """Base class of bitwise operations."""

    element_types = families.INTEGERS_AND_PRED
    is_cheap = True
    zero_derivative = "integers have no derivative"


class _Shift(_Bitwise):
    """Base class of shifts by rhs bits; an amount outside [0, width) shifts out all bits."""

    element_types = families.INTEGERS
    #: NumPy treats the operands as signed (s) or unsigned (u) integers.
    seen_as = "u"

    def reference(self, lhs, rhs):
        kind = element_type(lhs.dtype)
        seen = ELEMENT_TYPES[f"{self.seen_as}{kind.bits}"]
        return cast(super().reference(cast(lhs, seen), cast(rhs, seen)), kind)


@register
class And(_Bitwise):
    """Bitwise AND; logical AND for pred. XLA: And.

    Example:
        >>> ops.and_(np.int32(0b1100), np.int32(0b1010))
        Array(8, dtype=int32)
    """

    stablehlo_name = "and"
    numpy = np.bitwise_and


@register
class Or(_Bitwise):
    """Bitwise OR; logical OR for pred. XLA: Or.

    Example:
        >>> ops.or_(np.int32(0b1100), np.int32(0b1010))
        Array(14, dtype=int32)
    """

    stablehlo_name = "or"
    numpy = np.bitwise_or


@register
class Xor(_Bitwise):
    """Bitwise XOR; logical XOR for pred. XLA: Xor.

    Example:
        >>> ops.xor(np.int32(0b1100), np.int32(0b1010))
        Array(6, dtype=int32)
    """

    stablehlo_name = "xor"
    numpy = np.bitwise_xor


@register
class ShiftLeft(_Shift):
    """Shift the bits of lhs left by rhs, filling with zeros. XLA: ShiftLeft.

    Example:
        >>> ops.shift_left(np.int32([1, 3]), np.int32([4, 1]))
        Array([16,  6], dtype=int32)
    """

    stablehlo_name = "shift_left"
    numpy = np.left_shift


@register
class ShiftRightLogical(_Shift):
    """Shift the bits of lhs right by rhs, filling with zeros. XLA: ShiftRightLogical.

    Example:
        >>> ops.shift_right_logical(np.int32([-8, 8]), np.int32([28, 1]))
        Array([15,  4], dtype=int32)
    """

    stablehlo_name = "shift_right_logical"
    numpy = np.right_shift


@register
class ShiftRightArithmetic(_Shift):
    """Shift the bits of lhs right by rhs, repeating the sign bit. XLA: ShiftRightArithmetic.

    Example:
        >>> ops.shift_right_arithmetic(np.int32([-8, 8]), np.int32([1, 1]))
        Array([-4,  4], dtype=int32)
    """

    stablehlo_name = "shift_right_arithmetic"
    numpy = np.right_shift
    seen_as = "s"


fill_role("add", Add())
