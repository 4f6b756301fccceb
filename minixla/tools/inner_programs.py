"""The programs that loops, branches and composed operations run, with what they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction
from minixla.tools.graph_parts import composition_of
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.reference_evaluation import reference_graph

#: Of a loop, the first iterations are followed.
_MOST_TRIPS = 8

Run = tuple[Graph, Sequence[Any]]


def inner_runs(step: Instruction, operands: Sequence[Any]) -> Iterator[Run] | None:
    """The programs that an instruction runs, and the operands of each, in order.

    Args:
        step: the instruction.
        operands: its operands.

    Returns:
        Pairs, or None where the instruction is not made of programs (those that run for every
        element of an array, as in a reduction, are not followed).
    """
    if step.op.name == "While":
        return _of_loop(step, operands)
    if step.op.name == "Conditional":
        return _of_branch(step, operands)
    if isinstance(step.op, Composed) and step.op.computations:
        return iter([(composition_of(step), operands)])
    return None


def _of_loop(step: Instruction, operands: Sequence[Any]) -> Iterator[Run]:
    condition, body = step.op.condition, step.op.body
    values = operands
    for _ in range(_MOST_TRIPS):
        yield condition, values
        if not reference_graph(condition, values)[0]:
            return
        yield body, values
        values = reference_graph(body, values)


def _of_branch(step: Instruction, operands: Sequence[Any]) -> Iterator[Run]:
    branches = step.op.branches
    index = np.asarray(operands[0])
    number = int(not index) if index.dtype == np.bool_ else int(index)
    if not 0 <= number < len(branches):
        number = len(branches) - 1
    yield branches[number], operands[1:]
