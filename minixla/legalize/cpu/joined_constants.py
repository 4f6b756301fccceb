"""Products and sums with several constants, which XLA joins into one constant."""

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from minixla.core.graph import Value
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes, distinct
from minixla.legalize.registry import NOTES, Operands, Target, legalize
from minixla_ops.elementwise.families import FLOATS
from minixla_ops.programs.runs_programs import CallsProgram

_SCALES, _SHIFTS = classes("Mul Div"), classes("Add Sub")
# The depth in instructions to which constants are joined.
_STEPS = 16


class _Scale(NamedTuple):
    """A product of constants, as the binary logarithms of its smallest and largest magnitudes."""

    low: float
    high: float

    def joined(self, other: "_Scale", sign: int) -> "_Scale":
        """Multiply by another product, or by its inverse."""
        bounds = (other.low, other.high) if sign > 0 else (-other.high, -other.low)
        return _Scale(self.low + bounds[0], self.high + bounds[1])


def _may_hold(value: Value, kinds: tuple) -> bool:
    """Return whether a value may be computed with a constant; a fast check, as most are not."""
    step = value.instruction
    return step is None or isinstance(step.op, CallsProgram) or type(step.op) in kinds


def _is_float(value: Value) -> bool:
    return getattr(value.shape, "element_type", None) in FLOATS


def _parts(value: Value, kinds: tuple, target: Target) -> tuple | None:
    """Return a value's operation, varying operand and constant, and whether the constant is first.

    Return None if the operation is not one of `kinds`, or has no constant with known numbers.
    """
    step = value.instruction
    while step is not None and isinstance(step.op, CallsProgram):
        value = step.op.computations[0].outputs[value.index]
        step = value.instruction
    if step is None or not isinstance(step.op, kinds):
        return None
    for index in (1, 0):
        numbers = _numbers(step.operands[index], target)
        if numbers is not None:
            return step.op.name, step.operands[1 - index], numbers, index == 0
    return None


def _numbers(value: Value, target: Target) -> np.ndarray | None:
    array = target.array(value)
    if array is None or not array.size:
        return None
    array = distinct(array)
    numbers = np.abs(array.astype(np.float64))
    return array.astype(np.float64) if (np.isfinite(numbers) & (numbers > 0)).all() else None


def _joined(name: str, before: _Scale | None, numbers: np.ndarray, is_first: bool) -> _Scale:
    magnitudes = np.log2(np.abs(numbers))
    scale = _Scale(float(magnitudes.min()), float(magnitudes.max()))
    none = _Scale(0.0, 0.0)
    if name == "Div" and is_first:  # constant / value
        return scale.joined(before or none, -1)
    return (before or none).joined(scale, 1 if name == "Mul" else -1)


def _summed(
    name: str, before: tuple[float, float] | None, numbers: np.ndarray, is_first: bool
) -> tuple[float, float]:
    """Return the sum of the constants added to a value, and their largest magnitude.

    An array of constants is represented by its element of largest magnitude.
    """
    number = float(numbers.flat[np.abs(numbers).argmax()])
    total, most = before or (0.0, 0.0)
    if name == "Sub":
        total, number = (-total, number) if is_first else (total, -number)
    return total + number, max(most, abs(number))


class _Chain(NamedTuple):
    """Operations of some kinds on one value, each with a constant, which XLA joins.

    `join(name, before, numbers, is_first)` joins the constant of an operation to those before it.
    `note` names the joined constants in `NOTES`.
    """

    kinds: tuple
    note: str
    join: Callable[..., Any]

    def of(self, value: Value, target: Target, steps: int = _STEPS) -> Any:
        """Return the joined constants of a value, or None."""
        if not _is_float(value):
            return None
        if value.instruction is None:
            return target.note(value, self.note)
        parts = _parts(value, self.kinds, target) if steps else None
        if parts is None:
            return None
        name, rest, numbers, is_first = parts
        return self.join(name, self.of(rest, target, steps - 1), numbers, is_first)

    def whole(self, operation: Any, operands: Operands, target: Target) -> Any:
        """Return the joined constants of a result with several of them, or None."""
        for index in (1, 0):
            if not _may_hold(operands[1 - index], self.kinds):
                continue
            numbers = _numbers(operands[index], target)
            before = None if numbers is None else self.of(operands[1 - index], target)
            if numbers is not None and before is not None:
                return self.join(operation.name, before, numbers, index == 0)
        return None


_FACTORS, _TERMS = _Chain(_SCALES, "scale", _joined), _Chain(_SHIFTS, "shift", _summed)


def _is_lost(operation: Any, operands: Operands, target: Target) -> bool:
    whole = _FACTORS.whole(operation, operands, target)
    if whole is None:
        return False
    limits = ml_dtypes.finfo(type_of(operands[0]).dtype)
    least, most = np.log2(float(limits.smallest_normal)), limits.maxexp
    extremes = (whole.low, whole.high, -whole.low, -whole.high)
    return not all(least <= extreme < most for extreme in extremes[:2]) or (
        operation.name == "Div" and not all(least <= extreme < most for extreme in extremes[2:])
    )


@legalize(_SCALES, "cpu", element_types=FLOATS, when=_is_lost)
def joined_factors(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA computes (x * c) * d as x * (c * d), so that c * d may overflow or become 0.

    The same applies to quotients, such as (x / c) / d and (c / x) * d.
    """
    return on_hidden(operation, operands)


def _cancels(operation: Any, operands: Operands, target: Target) -> bool:
    whole = _TERMS.whole(operation, operands, target)
    if whole is None:
        return False
    total, most = whole
    greatest = float(ml_dtypes.finfo(type_of(operands[0]).dtype).max)
    return abs(total) < most / 2 or abs(total) > greatest


@legalize(_SHIFTS, "cpu", element_types=FLOATS, when=_cancels)
def joined_terms(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA computes (x + c) + d as x + (c + d), without the rounding of x + c."""
    return on_hidden(operation, operands)


NOTES.update({family.note: family.of for family in (_FACTORS, _TERMS)})
