"""Element-wise arithmetic of two operands, and operations on their bits."""

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
    """lhs + rhs; integers wrap, pred is a logical or. XLA: Add.

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
    """lhs - rhs; integers wrap. XLA: Sub.

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
    """lhs * rhs; integers wrap, pred is a logical and. XLA: Mul.

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
        if in_imported_program():
            return [
                scaled(cotangents, rhs) if linear[0] else None,
                scaled(cotangents, lhs) if linear[1] else None,
            ]
        return [cotangents * rhs if linear[0] else None, lhs * cotangents if linear[1] else None]


@register
class Div(Binary):
    """lhs / rhs; of integers rounded toward zero. XLA: Div.

    XLA leaves an integer divided by 0, and the least one divided by -1, to the implementation; here
    all bits of the first are set and the second wraps.

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
        """The operation on a tangent or cotangent."""
        return divided(change, divisor)

    def times(self, lhs: Array, rhs: Array) -> Array:
        """The product of the result with a tangent or cotangent, in any order.

        In imported programs it is 0 where either is: 1 / (1 + exp(x)) is 0 where exp(x) overflows.
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
            # The share of the numerator would be an array more that XLA keeps.
            return [None, self.over(self.times(-cotangents, results), operands[1])]
        share = self.over(cotangents, operands[1])
        return [share, self.times(-share, results) if active[1] else None]


@register
class Rem(Binary):
    """The remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem.

    Of an integer and 0 it is the integer; of the least one and -1 it is 0.

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

    Powers of integers wrap; those with a negative exponent are rounded toward zero (and 0 for 0).

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
            # x ** 0 does not change with x, not at 0 either, where x ** -1 is infinite.
            is_constant = (lhs == 0) & (rhs == 0)
            return rhs * self(ops.select(is_constant, ones_like(lhs), lhs), rhs - 1)

        def of_exponent() -> Array:
            # 0 ** y does not change with y, though log(0) is infinite.
            return ops.log(ops.select(lhs == 0, ones_like(lhs), lhs)) * result

        return of_base, of_exponent


def _chosen(is_first: Array, lhs: Array, rhs: Array) -> Array:
    """One of two complex numbers: what is NaN, else lhs where it is first."""
    return ops.select(ops.ne(lhs, lhs) | (is_first & ops.eq(rhs, rhs)), lhs, rhs)


class _Extremum(Binary):
    """Base class of Max and Min. Where the operands are equal, each has half of the derivative.

    StableHLO's of complex numbers are not used: XLA compares only the real parts.
    """

    element_types = families.ALL
    lowered_types = families.COMPLEX
    #: How the operand that is chosen compares with the other.
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
    """The larger of lhs and rhs; NaN if either is NaN, and +0 is larger than -0. XLA: Max.

    pred is a logical or; complex numbers are ordered by real parts and then by imaginary ones.

    Example:
        >>> ops.max(np.float32([1, 5]), np.float32([3, np.nan]))
        Array([ 3., nan], dtype=float32)
    """

    stablehlo_name = "maximum"
    direction = "GT"
    numpy = special.maximum


@register
class Min(_Extremum):
    """The smaller of lhs and rhs; NaN if either is NaN, and -0 is smaller than +0. XLA: Min.

    pred is a logical and; complex numbers are ordered by real parts and then by imaginary ones.

    Example:
        >>> ops.min(np.float32([1, 5]), np.float32([3, np.nan]))
        Array([ 1., nan], dtype=float32)
    """

    stablehlo_name = "minimum"
    direction = "LT"
    numpy = special.minimum


@register
class Atan2(Binary):
    """The angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2.

    Of complex numbers -i * log((rhs + i * lhs) / sqrt(rhs**2 + lhs**2)).

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
        # The pairing is that of JAX: Re(cotangent * tangent), without a conjugate.
        return [
            ops.real(cotangents) if linear[0] else None,
            -ops.imag(cotangents) if linear[1] else None,
        ]


def binary_builder(operation: type[Binary]) -> Callable[..., Array]:
    """The function of two arrays that broadcasts them as XLA does and applies `operation`."""
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
    broadcast_dimensions: for each dimension of the operand of lower rank which dimension of the
        other it is; needed where the ranks differ, unless one operand is a scalar.

Returns:
    An array of the dimensions that both broadcast to.

Raises:
    ShapeError: the operands do not fit each other (B1, E1 ... E9), or the operation does not take
        their element type (C2).
""")


class _Bitwise(Binary):
    """Base class of the operations on bits."""

    element_types = families.INTEGERS_AND_PRED
    is_cheap = True
    zero_derivative = "integers have no derivative"


class _Shift(_Bitwise):
    """Base class of shifts by rhs bits; amounts outside [0, width) shift every bit out."""

    element_types = families.INTEGERS
    #: As signed (s) or unsigned (u) integers of which NumPy sees the operands.
    seen_as = "u"

    def reference(self, lhs, rhs):
        kind = element_type(lhs.dtype)
        seen = ELEMENT_TYPES[f"{self.seen_as}{kind.bits}"]
        return cast(super().reference(cast(lhs, seen), cast(rhs, seen)), kind)


@register
class And(_Bitwise):
    """The bits that lhs and rhs both have; of pred a logical and. XLA: And.

    Example:
        >>> ops.and_(np.int32(0b1100), np.int32(0b1010))
        Array(8, dtype=int32)
    """

    stablehlo_name = "and"
    numpy = np.bitwise_and


@register
class Or(_Bitwise):
    """The bits that lhs or rhs has; of pred a logical or. XLA: Or.

    Example:
        >>> ops.or_(np.int32(0b1100), np.int32(0b1010))
        Array(14, dtype=int32)
    """

    stablehlo_name = "or"
    numpy = np.bitwise_or


@register
class Xor(_Bitwise):
    """The bits that one of lhs and rhs has; of pred whether they differ. XLA: Xor.

    Example:
        >>> ops.xor(np.int32(0b1100), np.int32(0b1010))
        Array(6, dtype=int32)
    """

    stablehlo_name = "xor"
    numpy = np.bitwise_xor


@register
class ShiftLeft(_Shift):
    """The bits of lhs moved left by rhs; zeros come in. XLA: ShiftLeft.

    Example:
        >>> ops.shift_left(np.int32([1, 3]), np.int32([4, 1]))
        Array([16,  6], dtype=int32)
    """

    stablehlo_name = "shift_left"
    numpy = np.left_shift


@register
class ShiftRightLogical(_Shift):
    """The bits of lhs moved right by rhs; zeros come in. XLA: ShiftRightLogical.

    Example:
        >>> ops.shift_right_logical(np.int32([-8, 8]), np.int32([28, 1]))
        Array([15,  4], dtype=int32)
    """

    stablehlo_name = "shift_right_logical"
    numpy = np.right_shift


@register
class ShiftRightArithmetic(_Shift):
    """The bits of lhs moved right by rhs; its first bit is repeated. XLA: ShiftRightArithmetic.

    Example:
        >>> ops.shift_right_arithmetic(np.int32([-8, 8]), np.int32([1, 1]))
        Array([-4,  4], dtype=int32)
    """

    stablehlo_name = "shift_right_arithmetic"
    numpy = np.right_shift
    seen_as = "s"


fill_role("add", Add())
