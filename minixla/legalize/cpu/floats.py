"""Comparisons, signs and formats of floats that XLA folds wrongly."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import F32
from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import are_constants, on_hidden, type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.comparisons import MEMBERS

_ODD = ("f4e2m1fn", "f8e8m0fnu")
# XLA folds these of f8e8m0fnu rightly; XLA:CPU takes its least number, which f32 has not, for 0.
_RIGHT_OF_POWERS = ("Add", "Mul", "Div", "Min", "Max", "Clamp")
_ELEMENTWISE = classes(
    "Abs Neg Sign Floor Ceil RoundNearestAfz RoundNearestEven IsFinite Add Sub Mul Div Rem Max Min "
    "Pow Clamp Eq Ne Lt Le Gt Ge ConvertElementType ReducePrecision Sqrt Rsqrt Cbrt Exp Log"
)


def _is_constant_float(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).is_float and are_constants(operation, operands, target)


@legalize(
    [each for (_, is_total), each in MEMBERS.items() if is_total], "cpu", when=_is_constant_float
)
def total_order(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds comparisons in total order by the rules of IEEE 754, where -0 equals +0."""
    return on_hidden(operation, operands)


@legalize(classes("Sign"), "cpu", when=_is_constant_float)
def sign_of_zero(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds the sign of -0 to +0."""
    return on_hidden(operation, operands)


def _is_narrow_constant(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).bits <= 16 and are_constants(operation, operands, target)


@legalize(classes("ReducePrecision"), "cpu", when=_is_narrow_constant)
def reduced_subnormals(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds reduce_precision with 5 exponent bits of subnormal f16 and f8e5m2fnuz to 0."""
    return on_hidden(operation, operands)


def _is_f8e3m4(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).name == "f8e3m4"


@legalize(classes("RoundNearestAfz RoundNearestEven"), "cpu", when=_is_f8e3m4)
def rounded_f8e3m4(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds roundings of f8e3m4 constants to NaN."""
    return on_hidden(operation, operands)


def _is_odd(operation: Any, operands: Operands, target: Target) -> bool:
    source = type_of(operands[0]).name
    is_conversion = operation.name == "ConvertElementType"
    result = operation.new_element_type.name if is_conversion else source
    if source == result == "f8e8m0fnu" and operation.name in _RIGHT_OF_POWERS:
        return False
    return result != "pred" and (source in _ODD or result in _ODD)


@legalize(_ELEMENTWISE, "cpu", when=_is_odd)
def formats_without_infinity(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds f8e8m0fnu and f4e2m1fn constants with zeros, signs or infinities that they lack."""
    return on_hidden(operation, operands)


def _is_f4_as_integer(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).name == "f4e2m1fn" and operation.new_element_type.is_integer


@legalize(classes("ConvertElementType"), "cpu", when=_is_f4_as_integer)
def f4_as_integer(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU converts 6, the greatest f4e2m1fn, to the greatest integer."""
    return operation(ops.convert_element_type(operands[0], F32))
