"""Arithmetic of pred."""

from typing import Any

import minixla_ops as ops
from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import on_hidden, type_of
from minixla.legalize.registry import Operands, Target, legalize


def _is_pred(operation: Any, operands: Operands, target: Target) -> bool:
    return type_of(operands[0]).kind == "pred"


@legalize(classes("Add"), "cpu", when=_is_pred)
def sum_of_booleans(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds additions of pred as exclusive or."""
    return ops.or_(*operands)


@legalize(classes("Clamp"), "cpu", when=_is_pred)
def clamped_booleans(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA folds clamp(false, false, true) of constants to true."""
    return on_hidden(operation, operands)
