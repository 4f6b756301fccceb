"""Convolutions."""

from typing import Any

from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import are_constants, on_hidden, type_of
from minixla.legalize.registry import Operands, Target, legalize


def _is_constant_integer(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).is_integer and are_constants(operation, operands, target)


@legalize(classes("ConvGeneralDilated"), "cpu", when=_is_constant_integer)
def integer_convolution(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds convolutions of integers in double precision and saturates instead of wrapping."""
    return on_hidden(operation, operands)
