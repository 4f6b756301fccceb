"""Hide the operands of an operation from XLA's folder and simplifier, as most rules do."""

from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.graph import Value
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.legalize.registry import Target


def on_hidden(operation: Operation, operands: Sequence[Any], *indices: int) -> Any:
    """Apply the operation with barriers on the operands at `indices`, by default on all."""
    at = indices or range(len(operands))
    hidden = dict(zip(at, ops.optimization_barrier([operands[i] for i in at]), strict=True))
    return operation(*[hidden.get(i, operand) for i, operand in enumerate(operands)])


def type_of(operand: Value) -> Any:
    """Return the element type of an array."""
    assert isinstance(operand.shape, Shape), "operands of rules must be arrays"
    return operand.shape.element_type


def are_constants(operation: Operation, operands: Sequence[Value], target: Target) -> bool:
    """Return whether XLA may fold an operation."""
    return all(map(target.is_constant, operands))
