"""What a scatter's update computation does: its kind, and the independent parts it falls into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.graph import Graph
from minixla_ops.programs.computations import monoid_of


def overwrite(old: Any, update: Any) -> Any:
    """The update computation with which updates replace what was there."""
    return update


def combination_of(computation: Graph) -> str | None:
    """What a computation of one old value and one update does.

    Returns:
        What `monoid_of` does, `sub` for old - update, `set` for the update itself, `keep` for the
        old value, and None for everything else.
    """
    return computation.remembered("combination", _find_combination, computation)


def _find_combination(computation: Graph) -> str | None:
    monoid = monoid_of(computation)
    if monoid is not None:
        return monoid
    if len(computation.inputs) != 2 or len(computation.outputs) != 1:
        return None
    (result,) = computation.outputs
    instruction = result.instruction
    if instruction is None:
        return "set" if result is computation.inputs[1] else "keep"
    is_difference = instruction.op.name == "Sub"
    return "sub" if is_difference and instruction.operands == computation.inputs else None


def separate(computation: Graph) -> tuple[Graph, ...] | None:
    """A computation of N old values and N updates as N of one each, where the N are independent.

    Returns:
        For each result the computation of it from its own old value and update; None where one
        reads another's.
    """
    return computation.remembered("separate", _find_parts, computation)


def _find_parts(computation: Graph) -> tuple[Graph, ...] | None:
    count = len(computation.outputs)
    if count == 1:
        return (computation,)
    parts = []
    for index, output in enumerate(computation.outputs):
        own = (computation.inputs[index], computation.inputs[count + index])
        part = Graph(own, computation.instructions, (output,), computation.name).pruned()
        read = {*part.outputs, *(value for each in part.instructions for value in each.operands)}
        if any(value.instruction is None and value not in own for value in read):
            return None
        parts.append(part)
    return tuple(parts)


def split(values: Sequence[Any]) -> tuple[Sequence[Any], Any, Sequence[Any]]:
    """What there is for a scatter's N operands, for its indices, and for its N updates."""
    count = len(values) // 2
    return values[:count], values[count], values[count + 1 :]
