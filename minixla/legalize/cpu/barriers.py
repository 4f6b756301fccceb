"""What most rules do: hide the operands of an operation from XLA's folder and simplifier."""

from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.operation import Operation


def on_hidden(operation: Operation, operands: Sequence[Any], *indices: int) -> Any:
    """The operation on operands behind a barrier: those at `indices`, by default all."""
    at = indices or range(len(operands))
    hidden = dict(zip(at, ops.optimization_barrier([operands[i] for i in at]), strict=True))
    return operation(*[hidden.get(i, each) for i, each in enumerate(operands)])
