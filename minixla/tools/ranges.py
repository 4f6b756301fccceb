"""Casts of floats to integers whose values are outside the range of the integer type."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape
from minixla.tools.comparison import wide


def outside(step: Instruction, operand: Any) -> np.ndarray:
    """Mark the elements that a cast to an integer type cannot represent; none for other steps."""
    if not isinstance(operand, np.ndarray):  # a tuple or a token
        return np.zeros((), bool)
    if step.op.name != "ConvertElementType":
        return np.zeros(operand.shape, bool)
    shape = step.results[0].shape
    assert isinstance(shape, Shape)  # a cast returns an array
    kind = shape.element_type
    if kind.kind not in ("signed", "unsigned") or not element_type(operand.dtype).is_float:
        return np.zeros(operand.shape, bool)
    bits, is_signed = kind.bits, kind.kind == "signed"
    lowest = -(2.0 ** (bits - 1)) if is_signed else 0.0
    highest = 2.0 ** (bits - is_signed)
    truncated = np.trunc(wide(operand))
    return ~((truncated >= lowest) & (truncated < highest))


def harmful_casts(graph: Graph, values: dict[Value, Any]) -> list[tuple[Instruction, np.ndarray]]:
    """Return the casts out of range that an output depends on, with the marks of `outside`."""
    harmful = []
    for number, step in enumerate(graph.instructions):
        marks = outside(step, values[step.operands[0]]) if len(step.operands) == 1 else None
        if marks is not None and marks.any():
            result = values[step.results[0]]
            # Use other numbers at these places.
            changed = np.where(marks, np.where(result == 1, 0, 1).astype(result.dtype), result)
            later = graph.instructions[number + 1 :]
            if _depends(graph, values, later, (step.results[0], changed)):
                harmful.append((step, marks))
    return harmful


def _depends(
    graph: Graph, values: dict[Value, Any], steps: Sequence[Instruction], change: tuple[Value, Any]
) -> bool:
    """Test whether an output changes if one value is replaced by another."""
    changed = dict([change])
    for step in steps:
        if changed.keys().isdisjoint(step.operands):
            continue
        with np.errstate(all="ignore"):
            outcome = step.op.reference(*[changed.get(x, values[x]) for x in step.operands])
        results = (outcome,) if step.single else outcome
        changed.update(zip(step.results, results, strict=True))
    pairs = [(np.asarray(changed[x]), values[x]) for x in graph.outputs if x in changed]
    return any(_bits(one) != _bits(other) for one, other in pairs)


def _bits(array: Any) -> bytes:
    """Return the bits of an array, to compare arrays that may hold NaN."""
    return np.ascontiguousarray(array).tobytes()
