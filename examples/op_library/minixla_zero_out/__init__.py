"""ZeroOut: zeros everywhere but at one place, with a kernel in C++ and a gradient in Python."""

from pathlib import Path
from typing import Any

import numpy as np

import minixla as mx

library = mx.load_op_library(Path(__file__).with_name("zero_out.so"))
operation = library.ZooZeroOut
zero_out = library.zoo_zero_out


@operation.kernel("reference")
def _reference(context: Any, to_zero: np.ndarray) -> np.ndarray:
    index = context.attr("preserve_index")
    context.require(index < to_zero.size or not to_zero.size, "preserve_index out of range")
    zeroed = np.zeros_like(to_zero)
    zeroed.reshape(-1)[index : index + 1] = to_zero.reshape(-1)[index : index + 1]
    return zeroed


@operation.gradient
def _gradient(context: Any, grad: Any) -> list[Any]:
    """ZeroOut is linear, and symmetric: its transpose is itself."""
    return [zero_out(grad, preserve_index=context.attr("preserve_index"))]
