"""Constants that XLA changes."""

from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import INEXACT


def _is_like_iota(operation: Any, operands: Operands, target: Target) -> bool:
    literal = operation.literal
    shape = literal.shape
    if shape.rank != 1 or shape.size < 2 or not literal.is_printed or literal.is_splat:
        return False
    array = literal.array
    if array[0] != 0 or array[1] != 1:  # most constants
        return False
    parts = [array.real, array.imag] if shape.element_type.is_complex else [array]
    has_negative_zero = any(np.signbit(x.astype(np.float64))[x == 0].any() for x in parts)
    return has_negative_zero and bool((array == np.arange(shape.size)).all())


@legalize(classes("Constant"), "cpu", element_types=INEXACT, when=_is_like_iota)
def constants_like_iota(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA takes the constant [-0, 1, 2, ...] for an iota, whose first element is +0.

    The negated constant does not look like an iota.
    """
    return ops.neg(ops.optimization_barrier(ops.constant(-operation.literal.array)))
