"""Integers of 2 and 4 bits, which XLA:CPU stores in bytes and does not always wrap."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.barriers import on_hidden
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.casting import widened
from minixla_ops.helpers.shorthand import array_shape

_S8 = ELEMENT_TYPES["s8"]
_TWO_BITS = (ELEMENT_TYPES["s2"], ELEMENT_TYPES["u2"])
_NARROW = [ELEMENT_TYPES[name] for name in ("s2", "s4", "u2", "u4")]


def _widens_narrow(operation: Any, operands: Operands, target: Target) -> bool:
    wide = operation.new_element_type
    return wide.is_integer and wide.bits >= 8


@legalize(classes("ConvertElementType"), "cpu", element_types=_NARROW, when=_widens_narrow)
def widened_results(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU computes s4 and u4 in bytes, and converts the bytes without wrapping them first."""
    return on_hidden(operation, operands)


@legalize(classes("Eq Ne Lt Le Gt Ge Max Min Clamp"), "cpu", element_types=_NARROW[:1])
def signs_of_two_bits(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU treats the s2 constants -1 and -2 as 3 and 2 in comparisons."""
    hidden = ops.optimization_barrier(operands)
    wide = operation(*[ops.convert_element_type(operand, _S8) for operand in hidden])
    is_number = array_shape(wide).element_type is _S8
    return ops.convert_element_type(wide, ELEMENT_TYPES["s2"]) if is_number else wide


@legalize(classes("ShiftRightLogical"), "cpu", element_types=_NARROW[:2])
def shifts_of_narrow_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU shifts the constant -1 of s2 and s4 as a byte of ones."""
    kind = array_shape(operands[0]).element_type
    unsigned = ELEMENT_TYPES[f"u{kind.bits}"]
    shifted = operation(*[ops.bitcast_convert_type(operand, unsigned) for operand in operands])
    return ops.bitcast_convert_type(shifted, kind)


def on_bytes(operation: Any, operands: Operands) -> Any:
    """Apply an operation that moves elements to integers of 8 bits."""
    kind = array_shape(operands[0]).element_type
    wide = [ops.convert_element_type(operand, widened(kind)) for operand in operands]
    return ops.convert_element_type(operation(*wide), kind)


@legalize(classes("ConcatInDim"), "cpu", element_types=_TWO_BITS)
def joined_arrays_of_two_bits(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU crashes when it concatenates arrays of 2-bit integers."""
    return on_bytes(operation, operands)


@legalize(classes("AllGather AllToAll CollectivePermute"), "cpu", element_types=_TWO_BITS)
def collectives_of_two_bits(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU loses all but the first of the 2-bit integers that share a byte."""
    return on_bytes(operation, operands)
