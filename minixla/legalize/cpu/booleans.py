"""Arithmetic of pred."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.shorthand import array_shape

_PRED = (ELEMENT_TYPES["pred"],)


@legalize(classes("Add"), "cpu", element_types=_PRED)
def sum_of_booleans(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds additions of pred as exclusive or."""
    return ops.or_(*operands)


@legalize(classes("Clamp"), "cpu", element_types=_PRED)
def clamped_booleans(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds clamp(false, false, true) of constants to true, and has no code for some clamps."""
    low, operand, high = operands
    sizes = array_shape(operand).dimensions
    low, high = (
        bound if array_shape(bound).rank else ops.broadcast_in_dim(bound, sizes, ())
        for bound in (low, high)
    )
    return ops.and_(ops.or_(operand, low), high)
