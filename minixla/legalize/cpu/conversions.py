"""Conversions between element types."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.barriers import type_of
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import COMPLEX, INTEGERS


def _is_narrowing(operation: Any, operands: Operands, target: Target) -> bool:
    source, narrow = type_of(operands[0]), operation.new_element_type
    return narrow.kind == "signed" and 8 <= narrow.bits < source.bits


@legalize(classes("ConvertElementType"), "cpu", element_types=INTEGERS, when=_is_narrowing)
def narrowed_integers(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU crashes (SIGSEGV) on `and` and `or` of narrowed integers and their sums over windows.

    The same bits compile if they are converted to the unsigned type first.
    """
    narrow = operation.new_element_type
    unsigned = ops.convert_element_type(operands[0], ELEMENT_TYPES[f"u{narrow.bits}"])
    return ops.bitcast_convert_type(unsigned, narrow)


def _drops_imaginary_part(operation: Any, operands: Operands, target: Target) -> bool:
    return not operation.new_element_type.is_complex


@legalize(classes("ConvertElementType"), "cpu", element_types=COMPLEX, when=_drops_imaginary_part)
def real_parts(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU crashes when it folds the conversion of a complex constant to a real type."""
    return operation(ops.real(operands[0]))
