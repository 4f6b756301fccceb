"""Fourier transforms."""

from typing import Any

import minixla_ops as ops
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.linear_algebra.fft import Fft


def _is_symmetric(operation: Any, operands: Operands, target: Target) -> bool:
    return operation.fft_type == "IRFFT" and len(operation.fft_length) > 1


@legalize(Fft, ("cuda", "tpu"), when=_is_symmetric)
def inverse_by_dimension(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU assumes the symmetry of IRFFT along all dimensions.

    The replacement is IFFT of the outer dimensions, then IRFFT of the last.
    """
    (operand,) = operands
    last, lengths = array_shape(operand).rank - 1, operation.fft_length
    first = last + 1 - len(lengths)
    moved = ops.fft(move_dimension(operand, last, first), "IFFT", lengths[:-1])
    return ops.fft(move_dimension(moved, first, last), "IRFFT", lengths[-1:])
