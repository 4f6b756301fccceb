"""Start indices of slices, gathers and scatters."""

from typing import Any

from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize


def _starts(operation: Any, operands: Operands) -> list[int]:
    """Return the positions of the operands with start indices."""
    if operation.name == "Scatter":
        return [(len(operands) - 1) // 2]
    return list(range(2 if operation.name == "DynamicUpdateSlice" else 1, len(operands)))


def _has_unsigned_start(operation: Any, operands: Operands, target: Target) -> bool:
    starts = [operands[i] for i in _starts(operation, operands)]
    unsigned = [start for start in starts if type_of(start).kind == "unsigned"]
    return any(map(target.is_constant, unsigned))


@legalize(
    classes("DynamicSlice DynamicUpdateSlice Gather Scatter"), "cpu", when=_has_unsigned_start
)
def unsigned_starts(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA treats unsigned constant starts with the top bit set as negative and clamps to 0."""
    return on_hidden(operation, operands, *_starts(operation, operands))
