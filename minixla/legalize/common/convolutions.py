"""Convolutions of complex arrays."""

from typing import Any

import minixla_ops as ops
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import COMPLEX
from minixla_ops.products.convolution import ConvGeneralDilated


@legalize(ConvGeneralDilated, ("cpu", "cuda", "tpu"), element_types=COMPLEX)
def complex_convolutions(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA has no complex convolutions on GPUs, and slow ones on CPUs."""
    lhs, rhs = ((ops.real(operand), ops.imag(operand)) for operand in operands)
    kind = operation.preferred_element_type
    parts = operation.replace(preferred_element_type=kind and kind.real)
    real = parts(lhs[0], rhs[0]) - parts(lhs[1], rhs[1])
    return ops.complex(real, parts(lhs[0], rhs[1]) + parts(lhs[1], rhs[0]))
