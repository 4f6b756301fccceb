"""Dot products."""

from math import prod
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.barriers import type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.products.dot import DotGeneral
from minixla_ops.products.product import summing_type

_BYTES = (ELEMENT_TYPES["s8"], ELEMENT_TYPES["u8"])


def _is_odd(operation: Any, operands: Operands, target: Target) -> bool:
    at = operation.dimension_numbers.lhs_contracting_dimensions
    sizes = operands[0].shape.dimensions
    return bool(at) and prod(sizes[dimension] for dimension in at) % 4 != 0


@legalize(DotGeneral, "cuda", element_types=_BYTES, when=_is_odd)
def products_of_bytes(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU sums some products of bytes twice in Triton tiles; cuBLAS requires multiples of 4."""
    numbers = operation.dimension_numbers
    contracting = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    padded = []
    for operand, dimensions in zip(operands, contracting, strict=True):
        shape = array_shape(operand)
        edges = [(0, 0, 0) for _ in shape.dimensions]
        edges[dimensions[-1]] = (0, -shape.dimensions[dimensions[-1]] % 4, 0)
        padded.append(ops.pad(operand, np.zeros((), shape.dtype), edges))
    return operation(*padded)


def _is_mixed(operation: Any, operands: Operands, target: Target) -> bool:
    lhs, rhs = map(type_of, operands)
    return lhs is not rhs


@legalize(DotGeneral, "cuda", when=_is_mixed)
def products_of_mixed_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:GPU supports only few pairs of different types."""
    kinds = [array_shape(operand).element_type for operand in operands]
    wide = summing_type(operation.preferred_element_type, *kinds)
    return operation(*[convert(operand, wide) for operand in operands])
