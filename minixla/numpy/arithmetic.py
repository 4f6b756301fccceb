"""Element-wise functions of two operands, and the operators' functions of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import minixla_ops as ops
from minixla.core.errors import ShapeError, explain
from minixla.core.promotion import numeric_type
from minixla.core.tracebacks import hide_frames
from minixla.core.tracing import one_program
from minixla.numpy.operands import (
    lifted,
    marked,
    operand_shape,
    promote_any,
    promote_inexact,
    promote_numeric,
)
from minixla.numpy.own_derivatives import with_derivatives
from minixla_ops.elementwise import binary, operators
from minixla_ops.vocabulary.shorthand import full_like, ones_like

__all__ = [
    "abs",
    "absolute",
    "add",
    "arctan2",
    "atan2",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "divide",
    "divmod",
    "float_power",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "heaviside",
    "hypot",
    "invert",
    "left_shift",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "positive",
    "pow",
    "power",
    "remainder",
    "right_shift",
    "subtract",
    "true_divide",
]


def named(function: Callable[..., Any], name: str, text: str) -> Any:
    """`function` with a name and a docstring, for those that a table makes."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def of_two_operands(name: str, function: Callable[[Any, Any], Any], text: str) -> Any:
    def of_two(x1: Any, x2: Any, /) -> Any:
        try:
            return function(x1, x2)
        except Exception as error:
            hide_frames(error)
            raise

    return named(of_two, name, text)


def _of_one(name: str, function: Callable[[Any], Any], text: str) -> Any:
    def of_one(x: Any, /) -> Any:
        operand_shape(x, name)
        return lifted(function(x))

    return named(of_one, name, text)


add = of_two_operands("add", operators.add, "The sum; of booleans, their or.")
subtract = of_two_operands("subtract", operators.subtract, "The difference.")
multiply = of_two_operands("multiply", operators.multiply, "The product; of booleans, their and.")
divide = of_two_operands("divide", operators.divide, "The quotient; of integers a float.")
true_divide = divide
floor_divide = of_two_operands("floor_divide", operators.floor_divide, "The quotient rounded down.")
remainder = of_two_operands(
    "remainder", operators.remainder, "What floor_divide leaves, with the sign of x2."
)
mod = remainder
power = of_two_operands(
    "power", operators.power, "x1 to the power of x2; a known integer x2 means repeated products."
)
pow = power
bitwise_and = of_two_operands("bitwise_and", operators.bitwise_and, "The and of each bit.")
bitwise_or = of_two_operands("bitwise_or", operators.bitwise_or, "The or of each bit.")
bitwise_xor = of_two_operands("bitwise_xor", operators.bitwise_xor, "The exclusive or of each bit.")
left_shift = of_two_operands(
    "left_shift", operators.left_shift, "The bits of x1 moved up by x2 places."
)
bitwise_left_shift = left_shift
right_shift = of_two_operands(
    "right_shift", operators.right_shift, "The bits of x1 moved down by x2 places; the sign stays."
)
bitwise_right_shift = right_shift
maximum = of_two_operands("maximum", operators.promoting(binary.Max()), "The greater; NaN wins.")
minimum = of_two_operands("minimum", operators.promoting(binary.Min()), "The smaller; NaN wins.")

negative = _of_one("negative", operators.negative, "The number with the other sign.")
positive = _of_one("positive", operators.positive, "The number itself.")
absolute = _of_one("absolute", operators.absolute, "The absolute value, of complex numbers too.")
abs = absolute
bitwise_not = _of_one("bitwise_not", operators.bitwise_not, "Each bit the other way.")
invert = bitwise_invert = bitwise_not


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """The pair of `floor_divide` and `remainder`."""
    return operators.divmod(x1, x2)


def fmod(x1: Any, x2: Any, /) -> Any:
    """What division rounded toward zero leaves, with the sign of x1; 0 of an integer by 0."""
    (x1, x2), kind, weak = promote_numeric("fmod", x1, x2)
    if kind.is_integer:
        x2 = ops.select(x2 == 0, ones_like(x2), x2)
    result = ops.rem(x1, x2)
    return marked(result, weak)


def float_power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power of x2, as floats."""
    (x1, x2), _, weak = promote_inexact("float_power", x1, x2)
    return marked(ops.pow(x1, x2), weak)


def arctan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point (x2, x1), in (-pi, pi]."""
    (x1, x2), _, weak = promote_inexact("arctan2", x1, x2)
    return marked(ops.atan2(x1, x2), weak)


atan2 = arctan2


def fmax(x1: Any, x2: Any, /) -> Any:
    """The greater; of a NaN and a number, the number."""
    (x1, x2), _, weak = promote_any("fmax", x1, x2)
    return marked(ops.select((x1 > x2) | (x2 != x2), x1, x2), weak)


def fmin(x1: Any, x2: Any, /) -> Any:
    """The smaller; of a NaN and a number, the number."""
    (x1, x2), _, weak = promote_any("fmin", x1, x2)
    return marked(ops.select((x1 < x2) | (x2 != x2), x1, x2), weak)


def _refuse_complex(kind: Any, name: str) -> None:
    if kind.is_complex:
        raise explain(
            ShapeError,
            name,
            "it is not defined for complex numbers",
            advice="Give the real or imaginary part, or the absolute value.",
        )


@one_program()
def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1**2 + x2**2), without overflow on the way; its derivative at 0, 0 is 0.

    Raises:
        ShapeError: the operands are complex.
    """
    (x1, x2), kind, weak = promote_inexact("hypot", x1, x2)
    _refuse_complex(kind, "hypot")
    return marked(_hypot(x1, x2), weak)


def _root_of_squares(x: Any, y: Any) -> Any:
    x, y = ops.abs(x), ops.abs(y)
    is_infinite = (x == math.inf) | (y == math.inf)
    large, small = ops.max(x, y), ops.min(x, y)
    ratio = small / ops.select(large == 0, ones_like(large), large)
    result = ops.select(large == 0, large, large * ops.sqrt(1 + ratio * ratio))
    return ops.select(is_infinite, full_like(result, math.inf), result)


def _share(x: Any, result: Any) -> Any:
    """The derivative of the root of squares by x: x / result, its sign where that is infinite."""
    is_end = (result == 0) | (ops.abs(x) == math.inf)
    one = ones_like(result)
    return ops.select(is_end, ops.sign(x), x) / ops.select(is_end, one, result)


# The scale has corners, where second derivatives of the formula are wrong.
_hypot = with_derivatives(
    _root_of_squares,
    lambda result, x, y: _share(x, result),
    lambda result, x, y: _share(y, result),
)


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where x1 < 0, x2 where it is 0, 1 where it is greater."""
    (x1, x2), _, weak = promote_inexact("heaviside", x1, x2)
    at_zero = ops.select(x1 != x1, x1, x2)
    above = ops.select(x1 > 0, ones_like(x1), at_zero)
    return marked(ops.select(x1 < 0, full_like(x1, 0), above), weak)


def copysign(x1: Any, x2: Any, /) -> Any:
    """x1 with the sign of x2.

    Raises:
        ShapeError: the operands are complex.
    """
    from minixla.numpy.logic import signbit

    (x1, x2), kind, weak = promote_inexact("copysign", x1, x2)
    _refuse_complex(kind, "copysign")
    size = ops.abs(x1)
    return marked(ops.select(signbit(x2), -size, size), weak)


def bitwise_count(x: Any, /) -> Any:
    """How many bits of the absolute value are 1, as u8."""
    kind = numeric_type(operand_shape(x, "bitwise_count").element_type)
    count = ops.population_count(operators.absolute(lifted(operators.convert(x, kind))))
    return ops.convert_element_type(count, "u8")
