"""Element-wise operations of two operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.linear import add_cotangents
from minixla.core.operation import register
from minixla.core.roles import fill_role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops import numpy_arithmetic
from minixla_ops.broadcasting import broadcast_operands
from minixla_ops.comparison import emit_lexicographic
from minixla_ops.elementwise import (
    ALL,
    INEXACT,
    INTEGERS,
    INTEGERS_AND_PRED,
    NUMERIC,
    REALS,
    Binary,
    named_like,
)
from minixla_ops.rules import full_like, ones_like
from minixla_ops.special import with_parts

__all__ = [
    "add",
    "and_",
    "atan2",
    "complex",
    "div",
    "max",
    "min",
    "mul",
    "or_",
    "pow",
    "rem",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sub",
    "xor",
]

Partials = tuple[Callable[[], Any], Callable[[], Any]]


@register
class Add(Binary):
    """lhs + rhs; integers wrap, pred is a logical or. XLA: Add."""

    stablehlo_name = "add"
    element_types = ALL
    numpy = np.add
    linear_operands = (0, 1)

    def jvp(self, primals: Any, tangents: Any, results: Any, /, **attributes: Any) -> Any:
        return add_cotangents(*tangents)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        return [cotangents if wanted else None for wanted in linear]


@register
class Sub(Binary):
    """lhs - rhs; integers wrap. XLA: Sub."""

    hlo_name = "subtract"
    stablehlo_name = "subtract"
    element_types = NUMERIC
    numpy = np.subtract
    linear_operands = (0, 1)

    def jvp(self, primals: Any, tangents: Any, results: Any, /, **attributes: Any) -> Any:
        left, right = tangents
        if left is None:
            return -right
        return left if right is None else bind(self, left, right)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        return [cotangents if linear[0] else None, -cotangents if linear[1] else None]


@register
class Mul(Binary):
    """lhs * rhs; integers wrap, pred is a logical and. XLA: Mul."""

    hlo_name = "multiply"
    stablehlo_name = "multiply"
    element_types = ALL
    numpy = np.multiply
    linear_operands = (0, 1)
    jointly_linear = False

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        lhs, rhs = operands
        return [cotangents * rhs if linear[0] else None, lhs * cotangents if linear[1] else None]


@register
class Div(Binary):
    """lhs / rhs; of integers rounded toward zero. XLA: Div.

    XLA leaves an integer divided by 0, and the least one divided by -1, to the implementation; here
    they are as on XLA:CPU, which sets all bits of the first and wraps the second.
    """

    hlo_name = "divide"
    stablehlo_name = "divide"
    element_types = NUMERIC
    numpy = staticmethod(numpy_arithmetic.quotient)
    linear_operands = (0,)

    def jvp(self, primals: Any, tangents: Any, results: Any, /, **attributes: Any) -> Any:
        left, right = tangents
        if right is not None:
            change = results * right
            left = -change if left is None else left - change
        return left / primals[1]

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        return [cotangents / operands[1], None]

    def vjp(
        self, cotangents: Any, operands: Any, results: Any, active: Any, /, **attributes: Any
    ) -> Any:
        share = cotangents / operands[1]
        return [share if active[0] else None, -share * results if active[1] else None]


@register
class Rem(Binary):
    """The remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem.

    Of an integer and 0 it is, as on XLA:CPU, the integer; of the least one and -1 it is 0.
    """

    hlo_name = "remainder"
    stablehlo_name = "remainder"
    element_types = REALS
    numpy = staticmethod(numpy_arithmetic.remainder)

    def derivatives(self, lhs: Any, rhs: Any, result: Any, /) -> Partials:
        from minixla_ops.unary import round_nearest_even

        return lambda: ones_like(lhs), lambda: -round_nearest_even((lhs - result) / rhs)


@register
class Pow(Binary):
    """lhs raised to the power rhs. XLA: Pow.

    Powers of integers wrap; those with a negative exponent are rounded toward zero (and 0 for 0).
    XLA:CPU takes an integer exponent modulo 64, so that its powers differ beyond.
    """

    hlo_name = "power"
    stablehlo_name = "power"
    element_types = NUMERIC
    numpy = staticmethod(numpy_arithmetic.power)
    in_double = True

    def derivatives(self, lhs: Any, rhs: Any, result: Any, /) -> Partials:
        from minixla_ops.selection import select
        from minixla_ops.unary import log

        def of_exponent() -> Any:
            # 0 ** rhs does not change with rhs, though log(0) is infinite.
            return log(select(lhs == 0, ones_like(lhs), lhs)) * result

        return lambda: rhs * bind(self, lhs, rhs - 1), of_exponent


class _Extremum(Binary):
    """Base class of Max and Min. Where the operands are equal, each has half of the derivative."""

    element_types = ALL
    #: How the operand that is chosen compares with the other.
    direction = ""

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        return [self.emit(emit, operands, shapes[0])]

    def emit(self, emit: Any, operands: Sequence[str], shape: Any) -> str:
        """Writes the operation on two operands of `shape`; returns the result's name."""
        if not shape.element_type.is_complex:
            return emit.same_shape(f"stablehlo.{self.stablehlo_name}", operands, shape)[0]
        # XLA:CPU compares only the real parts.
        is_first = emit_lexicographic(emit, self.direction, operands, shape)
        pred = shape.with_element_type(ELEMENT_TYPES["pred"])
        return emit.operation(
            "stablehlo.select", [is_first, *operands], [pred, shape, shape], [shape]
        )[0]

    def derivatives(self, lhs: Any, rhs: Any, result: Any, /) -> Partials:
        return lambda: self._share(lhs, rhs), lambda: self._share(rhs, lhs)

    def _share(self, own: Any, other: Any) -> Any:
        from minixla_ops.comparison import compare
        from minixla_ops.selection import select

        nothing, half, all_ = (full_like(own, share) for share in (0, 0.5, 1))
        is_chosen = compare(own, other, self.direction)
        return select(own == other, half, select(is_chosen, all_, nothing))


@register
class Max(_Extremum):
    """The larger of lhs and rhs; NaN if either is NaN, and +0 is larger than -0. XLA: Max.

    pred is a logical or; complex numbers are ordered by real parts and then by imaginary ones.
    """

    hlo_name = "maximum"
    stablehlo_name = "maximum"
    direction = "GT"
    numpy = staticmethod(numpy_arithmetic.maximum)


@register
class Min(_Extremum):
    """The smaller of lhs and rhs; NaN if either is NaN, and -0 is smaller than +0. XLA: Min.

    pred is a logical and; complex numbers are ordered by real parts and then by imaginary ones.
    """

    hlo_name = "minimum"
    stablehlo_name = "minimum"
    direction = "LT"
    numpy = staticmethod(numpy_arithmetic.minimum)


class _Bitwise(Binary):
    """Base class of the operations on bits."""

    element_types = INTEGERS_AND_PRED
    zero_derivative = "integers have no derivative"


@register
class And(_Bitwise):
    """The bits that lhs and rhs both have; of pred a logical and. XLA: And."""

    stablehlo_name = "and"
    builder_name = "and_"
    numpy = np.bitwise_and


@register
class Or(_Bitwise):
    """The bits that lhs or rhs has; of pred a logical or. XLA: Or."""

    stablehlo_name = "or"
    builder_name = "or_"
    numpy = np.bitwise_or


@register
class Xor(_Bitwise):
    """The bits that one of lhs and rhs has; of pred whether they differ. XLA: Xor."""

    stablehlo_name = "xor"
    numpy = np.bitwise_xor


class _Shift(_Bitwise):
    """Base class of shifts by rhs bits; amounts outside [0, width) shift every bit out."""

    element_types = INTEGERS

    def reference(self, lhs: np.ndarray, rhs: np.ndarray, /, **attributes: Any) -> np.ndarray:
        kind = element_type(lhs.dtype)
        # The bits stand at the left end of 64; what is shifted out is shifted by 63 and by 1.
        free = np.uint64(64 - kind.bits)
        bits = lhs.astype(np.int64).view(np.uint64) << free
        amount = rhs.astype(np.int64)
        is_inside = (amount >= 0) & (amount < kind.bits)
        for step in (np.where(is_inside, amount, 63), np.where(is_inside, 0, 1)):
            bits = self.shifted(bits, step.astype(np.uint64))
        return np.asarray((bits >> free).astype(lhs.dtype))

    def shifted(self, bits: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Patterns of 64 bits shifted by amounts in [0, 63]."""
        raise NotImplementedError


@register
class ShiftLeft(_Shift):
    """The bits of lhs moved left by rhs; zeros come in. XLA: ShiftLeft."""

    stablehlo_name = "shift_left"

    def shifted(self, bits: np.ndarray, amount: np.ndarray) -> np.ndarray:
        return bits << amount


@register
class ShiftRightArithmetic(_Shift):
    """The bits of lhs moved right by rhs; copies of the first bit come in. XLA: ShiftRightArithmetic."""

    stablehlo_name = "shift_right_arithmetic"

    def shifted(self, bits: np.ndarray, amount: np.ndarray) -> np.ndarray:
        return (bits.view(np.int64) >> amount.view(np.int64)).view(np.uint64)


@register
class ShiftRightLogical(_Shift):
    """The bits of lhs moved right by rhs; zeros come in. XLA: ShiftRightLogical."""

    stablehlo_name = "shift_right_logical"

    def shifted(self, bits: np.ndarray, amount: np.ndarray) -> np.ndarray:
        return bits >> amount


@register
class Atan2(Binary):
    """The angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2.

    Of complex numbers -i * log((rhs + i * lhs) / sqrt(rhs**2 + lhs**2)).
    """

    stablehlo_name = "atan2"
    element_types = INEXACT
    numpy = staticmethod(numpy_arithmetic.atan2)
    in_double = True

    def derivatives(self, lhs: Any, rhs: Any, result: Any, /) -> Partials:
        square = lhs * lhs + rhs * rhs
        return lambda: rhs / square, lambda: -lhs / square


@register
class Complex(Binary):
    """The complex number with real part lhs and imaginary part rhs. XLA: Complex."""

    stablehlo_name = "complex"
    element_types = frozenset((ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]))
    numpy = staticmethod(with_parts)
    linear_operands = (0, 1)

    def result_shape(self, operand: Shape, /, **attributes: Any) -> Shape:
        return operand.with_element_type(operand.element_type.complex)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /, **attributes: Any) -> Any:
        from minixla_ops.unary import imag, real

        # The pairing is that of JAX: Re(cotangent * tangent), without a conjugate.
        return [real(cotangents) if linear[0] else None, -imag(cotangents) if linear[1] else None]


def _binary(operation: type[Binary]) -> Callable[..., Any]:
    instance = operation.instance

    def builder(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Any:
        lhs, rhs = broadcast_operands(instance, lhs, rhs, broadcast_dimensions)
        return bind(instance, lhs, rhs)

    return named_like(builder, operation)


add = _binary(Add)
sub = _binary(Sub)
mul = _binary(Mul)
div = _binary(Div)
rem = _binary(Rem)
pow = _binary(Pow)
max = _binary(Max)
min = _binary(Min)
and_ = _binary(And)
or_ = _binary(Or)
xor = _binary(Xor)
shift_left = _binary(ShiftLeft)
shift_right_arithmetic = _binary(ShiftRightArithmetic)
shift_right_logical = _binary(ShiftRightLogical)
atan2 = _binary(Atan2)
complex = _binary(Complex)

fill_role("add", lambda x, y: bind(Add.instance, x, y))
