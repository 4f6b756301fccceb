"""Conversions between integers."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import INTEGERS


def _is_narrowing(operation: Any, operands: Operands, target: Target) -> bool:
    source, narrow = type_of(operands[0]), operation.new_element_type
    return narrow.kind == "signed" and 8 <= narrow.bits < source.bits


@legalize(classes("ConvertElementType"), "cpu", element_types=INTEGERS, when=_is_narrowing)
def narrowed_integers(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU crashes (SIGSEGV) on `and` and `or` of narrowed integers and their sums over windows.

    Converted to the unsigned type first, the same bits compile.
    """
    narrow = operation.new_element_type
    unsigned = ops.convert_element_type(operands[0], ELEMENT_TYPES[f"u{narrow.bits}"])
    return ops.bitcast_convert_type(unsigned, narrow)
