"""Division of integers by 0, and of floats by large constants."""

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Value
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes, distinct
from minixla.legalize.registry import NOTES, Operands, Target, legalize
from minixla_ops.elementwise.families import FLOATS, INEXACT, INTEGERS
from minixla_ops.programs.runs_programs import CallsProgram

_DIV = classes("Div")


def _may_fold_a_zero(operation: Any, operands: Operands, target: Target) -> bool:
    if not all(map(target.is_constant, operands)):
        return False
    divisor = target.array(operands[1])
    return divisor is None or bool((distinct(divisor).astype(np.int64) == 0).any())


@legalize(classes("Div Rem"), "cpu", folds=True, element_types=INTEGERS, when=_may_fold_a_zero)
def integer_division_by_zero(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA's folder ends the process (SIGFPE) when it divides integers by 0."""
    return on_hidden(operation, operands)


@cache
def _limit(kind: ElementType) -> float:
    """Return the magnitude above which a reciprocal is subnormal."""
    least = float(ml_dtypes.finfo(kind.dtype).smallest_normal)
    return 1 / least


def _reciprocal_is_lost(operation: Any, operands: Operands, target: Target) -> bool:
    divisor = target.array(operands[1])
    if divisor is None:
        return False
    limit = _limit(type_of(operands[0]))
    if not any(divisor.strides) and divisor.size:  # the fast path
        return limit < abs(float(divisor[(0,) * divisor.ndim])) < math.inf
    magnitudes = np.abs(divisor.astype(np.float64))
    return bool(((magnitudes > limit) & np.isfinite(magnitudes)).any())


@legalize(_DIV, "cpu", element_types=FLOATS, when=_reciprocal_is_lost)
def division_by_large_constants(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA multiplies by the reciprocal of a constant, which is 0 if it would be subnormal."""
    return on_hidden(operation, operands, 1)


def _is_quotient(value: Value, target: Target) -> bool:
    step = value.instruction
    while step is not None and isinstance(step.op, CallsProgram):
        value = step.op.computations[0].outputs[value.index]
        step = value.instruction
    if step is None:
        return bool(target.note(value, "quotient"))
    return isinstance(step.op, _DIV) and type_of(value).is_inexact


NOTES["quotient"] = _is_quotient


def _divides_quotient(operation: Any, operands: Operands, target: Target) -> bool:
    return any(_is_quotient(operand, target) for operand in operands)


@legalize(_DIV, "cpu", element_types=INEXACT, when=_divides_quotient)
def quotient_of_quotients(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA computes x / y / z as x / (y * z), which is 0 if y * z overflows.

    It computes x / (y / z) as x * z / y. Two divisions take as long as a division and a
    product.
    """
    return on_hidden(operation, operands)
