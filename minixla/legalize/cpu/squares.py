"""Integers that XLA assumes to be nonnegative although they may have overflowed."""

from typing import Any

from minixla.core.graph import Value
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import MOVES, classes, holds_only, is_same
from minixla.legalize.registry import NOTES, Operands, Target, legalize
from minixla_ops.elementwise.families import SIGNED
from minixla_ops.programs.runs_programs import CallsProgram

_MUL, _POW, _ABS = classes("Mul"), classes("Pow"), classes("Abs")
_CHOICES = classes("Max Min Select ConcatInDim Pad Clamp DynamicSlice Gather")
# The depth in instructions of the search for squares.
_STEPS = 32


def _is_square(value: Value, target: Target) -> bool:
    """Return whether a value consists of elements of squares or magnitudes."""
    kind = type_of(value)
    if kind is None or kind.kind != "signed":
        return False
    pending, count = [value], 0
    while pending and count < _STEPS:
        current, count = pending.pop(), count + 1
        step = current.instruction
        if step is None:
            if target.note(current, "square"):
                return True
            continue
        op = step.op
        if isinstance(op, _ABS) or (
            isinstance(op, _MUL) and is_same(step.operands[0], step.operands[1])
        ):
            return True
        if isinstance(op, _POW) and holds_only(step.operands[1], 2):
            return True
        if isinstance(op, MOVES + _CHOICES):
            pending.extend(step.operands)
        elif isinstance(op, CallsProgram):
            pending.append(op.computations[0].outputs[current.index])
    return False


NOTES["square"] = _is_square


def _reads_square(operation: Any, operands: Operands, target: Target) -> bool:
    return any(_is_square(operand, target) for operand in operands)


@legalize(
    classes("Abs Div Rem Lt Le Gt Ge Max Min Sign"),
    "cpu",
    element_types=SIGNED,
    when=_reads_square,
)
def overflown_squares(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA assumes that x * x and abs(x) of integers are nonnegative, though they may overflow.

    It uses this to simplify abs, sign, comparisons with 0, and rem and div by powers of two. It
    does so also if the square was broadcast, reshaped or selected by max or select.
    """
    return on_hidden(operation, operands)
