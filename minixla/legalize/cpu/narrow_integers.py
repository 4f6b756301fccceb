"""Integers of 2 and 4 bits, which XLA:CPU holds in bytes and does not always wrap."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import on_hidden, type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.vocabulary.shorthand import array_shape

_S8 = ELEMENT_TYPES["s8"]


def _widens_narrow(operation: Any, operands: Operands, target: Target) -> bool:
    source, wide = type_of(operands[0]), operation.new_element_type
    return source.is_integer and source.bits < 8 and wide.is_integer and wide.bits >= 8


@legalize(classes("ConvertElementType"), "cpu", when=_widens_narrow)
def widened_results(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU computes s4 and u4 in bytes, and converts the bytes without wrapping them first."""
    return on_hidden(operation, operands)


def _is_s2(operation: Any, operands: Operands, target: Target) -> bool:
    kind = type_of(operands[-1])
    return kind.kind == "signed" and kind.bits == 2


@legalize(classes("Eq Ne Lt Le Gt Ge Max Min Clamp"), "cpu", when=_is_s2)
def signs_of_two_bits(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU takes the s2 constants -1 and -2 for 3 and 2 when it compares."""
    hidden = ops.optimization_barrier(operands)
    found = operation(*[ops.convert_element_type(each, _S8) for each in hidden])
    is_number = array_shape(found).element_type is _S8
    return ops.convert_element_type(found, ELEMENT_TYPES["s2"]) if is_number else found


def _is_narrow_signed(operation: Any, operands: Operands, target: Target) -> bool:
    kind = type_of(operands[0])
    return kind.kind == "signed" and kind.bits < 8


@legalize(classes("ShiftRightLogical"), "cpu", when=_is_narrow_signed)
def shifts_of_narrow_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU shifts the constant -1 of s2 and s4 as a byte of ones."""
    kind = array_shape(operands[0]).element_type
    unsigned = ELEMENT_TYPES[f"u{kind.bits}"]
    found = operation(*[ops.bitcast_convert_type(each, unsigned) for each in operands])
    return ops.bitcast_convert_type(found, kind)
