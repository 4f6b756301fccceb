"""Convolutions."""

from typing import Any

from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.products.convolution import ConvGeneralDilated


def _is_reversed(operation: Any, operands: Operands, target: Target) -> bool:
    return any(operation.window_reversal)


@legalize(ConvGeneralDilated, "cuda", when=_is_reversed)
def reversed_windows(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU ignores the reversal of windows in its own loops; cuDNN cannot reverse them."""
    lhs, rhs = operands
    kernel = operation.reversed(rhs, operation.window_reversal)
    return operation(lhs, kernel, window_reversal=(False,) * len(operation.window_reversal))
