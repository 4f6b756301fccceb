"""Scatters into several arrays."""

from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.shorthand import zeros_like


def _may_share(operation: Any, operands: Operands, target: Target) -> bool:
    arrays = operands[: len(operands) // 2]
    return len({array.shape for array in arrays}) < len(arrays)


@legalize(classes("Scatter"), "cpu", when=_may_share)
def scatters_into_one_array(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU merges equal arrays of a scatter into one, so that all results equal the first.

    Each array except the first becomes a select that XLA cannot simplify, so it is copied.
    """
    arrays = operands[: len(operands) // 2]
    copies = [
        _copied(array, np.int32(number)) if number else array for number, array in enumerate(arrays)
    ]
    return operation(*copies, *operands[len(arrays) :])


def _copied(array: Any, number: Any) -> Any:
    chooses = ops.eq(ops.optimization_barrier(ops.constant(number)), ops.constant(number))
    return ops.select(chooses, array, ops.optimization_barrier(zeros_like(array)))
