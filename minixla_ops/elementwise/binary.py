"""Element-wise arithmetic of two operands; operations on bits are in `bitwise`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.builders import named_like
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.linear import add_cotangents
from minixla.core.operation import register
from minixla.core.registry import fill_role
from minixla.core.shapes import Shape
from minixla.core.tracebacks import hide_frames
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.elementwise.families import ALL, INEXACT, NUMERIC, REALS, Binary
from minixla_ops.movement.broadcasting import broadcast_operands
from minixla_ops.vocabulary.shorthand import full_like, ones_like, written

_PRED = ELEMENT_TYPES["pred"]


@register
class Add(Binary):
    """lhs + rhs; integers wrap, pred is a logical or. XLA: Add."""

    stablehlo_name = "add"
    element_types = ALL
    numpy = np.add
    linear_operands = (0, 1)

    def jvp(self, primals, tangents, results):
        return add_cotangents(*tangents)

    def transpose(self, cotangents, operands, linear):
        return [cotangents if wanted else None for wanted in linear]


@register
class Sub(Binary):
    """lhs - rhs; integers wrap. XLA: Sub."""

    stablehlo_name = "subtract"
    element_types = NUMERIC
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
    """lhs * rhs; integers wrap, pred is a logical and. XLA: Mul."""

    stablehlo_name = "multiply"
    element_types = ALL
    numpy = np.multiply
    linear_operands = (0, 1)
    jointly_linear = False

    def transpose(self, cotangents, operands, linear):
        lhs, rhs = operands
        return [cotangents * rhs if linear[0] else None, lhs * cotangents if linear[1] else None]


@register
class Div(Binary):
    """lhs / rhs; of integers rounded toward zero. XLA: Div.

    XLA leaves an integer divided by 0, and the least one divided by -1, to the implementation; here
    they are as on XLA:CPU, which sets all bits of the first and wraps the second.
    """

    stablehlo_name = "divide"
    element_types = NUMERIC
    numpy = special.quotient
    linear_operands = (0,)

    def jvp(self, primals, tangents, results):
        left, right = tangents
        if right is not None:
            change = results * right
            left = -change if left is None else left - change
        return left / primals[1]

    def transpose(self, cotangents, operands, linear):
        return [cotangents / operands[1], None]

    def vjp(self, cotangents, operands, results, active):
        share = cotangents / operands[1]
        return [share if active[0] else None, -share * results if active[1] else None]


@register
class Rem(Binary):
    """The remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem.

    Of an integer and 0 it is, as on XLA:CPU, the integer; of the least one and -1 it is 0.
    """

    stablehlo_name = "remainder"
    element_types = REALS
    numpy = special.remainder

    def derivatives(self, lhs, rhs, result):
        return lambda: ones_like(lhs), lambda: -ops.round_nearest_even((lhs - result) / rhs)


@register
class Pow(Binary):
    """lhs raised to the power rhs. XLA: Pow.

    Powers of integers wrap; those with a negative exponent are rounded toward zero (and 0 for 0).
    XLA:CPU takes an integer exponent modulo 64, so that its powers differ beyond.
    """

    stablehlo_name = "power"
    element_types = NUMERIC
    numpy = special.power
    in_double = True

    def derivatives(self, lhs, rhs, result):
        def of_base() -> Any:
            # x ** 0 does not change with x, not at 0 either, where x ** -1 is infinite.
            is_constant = (lhs == 0) & (rhs == 0)
            return rhs * self(ops.select(is_constant, ones_like(lhs), lhs), rhs - 1)

        def of_exponent() -> Any:
            # 0 ** y does not change with y, though log(0) is infinite.
            return ops.log(ops.select(lhs == 0, ones_like(lhs), lhs)) * result

        return of_base, of_exponent


def emit_compare(emit: Any, direction: str, how: str, operands: Sequence[str], shape: Shape) -> str:
    """Writes a comparison of two operands of `shape`; returns the result's name."""
    text = f"stablehlo.compare {direction}, {', '.join(operands)}, {how}"
    types = f"({shape.stablehlo}, {shape.stablehlo}) -> {shape.with_element_type(_PRED).stablehlo}"
    return written(emit, f"{text} : {types}")[0]


def emit_lexicographic(emit: Any, direction: str, operands: Sequence[str], shape: Shape) -> str:
    """Writes the ordered comparison of two complex operands of `shape`; returns the result's name.

    StableHLO's own has this meaning, but XLA:CPU compares only the real parts.
    """
    part = shape.with_element_type(shape.element_type.real)
    pred = shape.with_element_type(_PRED)
    real, imag = (
        [emit.operation(f"stablehlo.{name}", [each], [shape], [part])[0] for each in operands]
        for name in ("real", "imag")
    )
    is_tie = emit_compare(emit, "EQ", "FLOAT", real, part)
    choices = [emit_compare(emit, direction, "FLOAT", each, part) for each in (imag, real)]
    return emit.operation("stablehlo.select", [is_tie, *choices], [pred, pred, pred], [pred])[0]


class _Extremum(Binary):
    """Base class of Max and Min. Where the operands are equal, each has half of the derivative."""

    element_types = ALL
    #: How the operand that is chosen compares with the other.
    direction = ""

    def stablehlo(self, emit, operands, shapes, results):
        return [self.emit(emit, operands, shapes[0])]

    def emit(self, emit: Any, operands: Sequence[str], shape: Any) -> str:
        """Writes the operation on two operands of `shape`; returns the result's name."""
        if not shape.element_type.is_complex:
            return emit.same_shape(f"stablehlo.{self.stablehlo_name}", operands, shape)[0]
        # XLA:CPU compares only the real parts.
        is_first = emit_lexicographic(emit, self.direction, operands, shape)
        types = [shape.with_element_type(_PRED), shape, shape]
        return emit.operation("stablehlo.select", [is_first, *operands], types, [shape])[0]

    def derivatives(self, lhs, rhs, result):
        return lambda: self._share(lhs, rhs), lambda: self._share(rhs, lhs)

    def _share(self, own: Any, other: Any) -> Any:
        nothing, half, all_ = (full_like(own, share) for share in (0, 0.5, 1))
        is_chosen = ops.compare(own, other, self.direction)
        return ops.select(own == other, half, ops.select(is_chosen, all_, nothing))


@register
class Max(_Extremum):
    """The larger of lhs and rhs; NaN if either is NaN, and +0 is larger than -0. XLA: Max.

    pred is a logical or; complex numbers are ordered by real parts and then by imaginary ones.
    """

    stablehlo_name = "maximum"
    direction = "GT"
    numpy = special.maximum


@register
class Min(_Extremum):
    """The smaller of lhs and rhs; NaN if either is NaN, and -0 is smaller than +0. XLA: Min.

    pred is a logical and; complex numbers are ordered by real parts and then by imaginary ones.
    """

    stablehlo_name = "minimum"
    direction = "LT"
    numpy = special.minimum


@register
class Atan2(Binary):
    """The angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2.

    Of complex numbers -i * log((rhs + i * lhs) / sqrt(rhs**2 + lhs**2)).
    """

    stablehlo_name = "atan2"
    element_types = INEXACT
    numpy = special.atan2
    in_double = True

    def derivatives(self, lhs, rhs, result):
        square = lhs * lhs + rhs * rhs
        return lambda: rhs / square, lambda: -lhs / square


@register
class Complex(Binary):
    """The complex number with real part lhs and imaginary part rhs. XLA: Complex."""

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


def binary_builder(operation: type[Binary]) -> Callable[..., Any]:
    """The function of two arrays that broadcasts them as XLA does and applies `operation`."""
    record = operation()

    def builder(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Any:
        try:
            return record(*broadcast_operands(record, lhs, rhs, broadcast_dimensions))
        except Exception as error:
            hide_frames(error)
            raise

    builder = named_like(builder, operation)
    builder.__doc__ = f"{builder.__doc__}\n\n{_ARGUMENTS}"
    return builder


_ARGUMENTS = """Args:
    lhs: an array.
    rhs: an array of the same element type.
    broadcast_dimensions: for each dimension of the operand of lower rank which dimension of the
        other it is; needed where the ranks differ, unless one operand is a scalar.

Returns:
    An array of the dimensions that both broadcast to.

Raises:
    ShapeError: the operands do not fit each other (B1, E1 ... E9), or the operation does not take
        their element type (C2).
"""


add, sub, mul, div, rem, pow = map(binary_builder, (Add, Sub, Mul, Div, Rem, Pow))
max, min, atan2, complex = map(binary_builder, (Max, Min, Atan2, Complex))
fill_role("add", Add())
