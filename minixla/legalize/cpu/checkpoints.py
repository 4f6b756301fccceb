"""Recomputation of intermediate values, as requested by `minixla.checkpoint`."""

from functools import reduce
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import S32
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.programs.composite_call import RecomputationBarrier


def _is_on_one_device(operation: Any, operands: Operands, target: Target) -> bool:
    # For cotangents on several devices, the predicate would need communication.
    return target.device_count == 1


@legalize(RecomputationBarrier, "cpu", when=_is_on_one_device)
def recomputation(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU drops barriers and merges both computations, so it does not recompute values.

    The replacement selects the values by a predicate of the cotangents that is always true, but
    that XLA cannot simplify.
    """
    cotangents = [operands[index] for index in operation.cotangents]
    numbers = [_is_finite(cotangent) for cotangent in cotangents if _is_selectable(cotangent)]
    if not numbers:
        return tuple(operands)
    holds = ops.lt(reduce(ops.add, numbers), np.int32(len(numbers) + 1))
    return tuple(
        ops.select(holds, operand, zeros(array_shape(operand)))
        if index not in operation.cotangents and _is_selectable(operand)
        else operand
        for index, operand in enumerate(operands)
    )


def _is_selectable(value: Any) -> bool:
    """Return whether XLA:CPU can select elements of an array of this type."""
    shape = shape_of(value)
    if not isinstance(shape, Shape) or shape.is_dynamic or not shape.size:
        return False
    return shape.element_type.bits >= 8 or shape.element_type.kind == "pred"


def _is_finite(values: Any) -> Any:
    """Return whether the first of some floating-point numbers is finite: 0 or 1."""
    shape = array_shape(values)
    first = ops.reshape(ops.slice(values, [0] * shape.rank, [1] * shape.rank), ())
    real = ops.real(first) if shape.element_type.is_complex else first
    return convert(ops.is_finite(real), S32)
