"""Counts and reinterpretations of bits."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import SIGNED


@legalize(classes("Clz"), "cpu", folds=True, element_types=SIGNED)
def leading_zeros(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds count_leading_zeros of constants in 64 bits, so that some counts are negative."""
    return on_hidden(operation, operands)


@legalize(classes("PopulationCount"), "cpu", folds=True, element_types=[ELEMENT_TYPES["s2"]])
def bits_of_two(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds popcnt of s2 constants in a wider type, and counts copies of the sign bit."""
    return on_hidden(operation, operands)


def _becomes_narrow(operation: Any, operands: Operands, target: Target) -> bool:
    return operation.new_element_type.bits < min(8, type_of(operands[0]).bits)


@legalize(classes("BitcastConvertType"), "cpu", folds=True, when=_becomes_narrow)
def bits_of_narrow_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds bitcast_convert of constants to 2 or 4 bits to uninitialized bytes."""
    return on_hidden(operation, operands)


@legalize(classes("PopulationCount"), "cpu", element_types=[ELEMENT_TYPES["s4"]])
def bits_of_four(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU counts the bits of s4 after it has extended the sign."""
    count = operation(ops.bitcast_convert_type(operands[0], "u4"))
    return ops.bitcast_convert_type(count, "s4")
