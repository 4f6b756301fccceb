"""Counts and reinterpretations of bits."""

from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import always, on_hidden, type_of
from minixla.legalize.registry import legalize


@legalize(classes("Clz"), "cpu", when=always)
def leading_zeros(operation, operands, target):
    """XLA folds count_leading_zeros of constants in 64 bits, so that some counts are negative."""
    return on_hidden(operation, operands)


def _has_two_bits(operation, operands, target):
    return type_of(operands[0]).bits == 2


@legalize(classes("PopulationCount"), "cpu", when=_has_two_bits)
def bits_of_two(operation, operands, target):
    """XLA folds popcnt of s2 constants with the copies of the sign, as a count of wider numbers."""
    return on_hidden(operation, operands)


def _becomes_narrow(operation, operands, target):
    return operation.new_element_type.bits < 8 <= type_of(operands[0]).bits


@legalize(classes("BitcastConvertType"), "cpu", when=_becomes_narrow)
def bits_of_narrow_types(operation, operands, target):
    """XLA folds bitcast_convert of constants to types of 2 and 4 bits to bytes that it never set."""
    return on_hidden(operation, operands)
