"""Analysis and NumPy evaluation of a scatter's update computation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import numpy as np

from minixla.core.graph import Graph, remembered
from minixla.core.shapes import Shape
from minixla_ops.programs.computations import MONOIDS, monoid_of
from minixla_ops.programs.reference_evaluation import apply_elementwise

_T = TypeVar("_T")
Arrays = Sequence[np.ndarray]


def overwrite(old: object, update: _T) -> _T:
    """Return the update. This is the update computation that overwrites elements."""
    return update


@remembered
def combination_of(computation: Graph) -> str | None:
    """Return `monoid_of`; `sub` for old - update, `set` for the update, `keep` for the old."""
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


@remembered
def separate(computation: Graph) -> tuple[Graph, ...] | None:
    """Split a computation of N old values and N updates into N computations if independent."""
    count = len(computation.outputs)
    if count == 1:
        return (computation,)
    parts = []
    for index, output in enumerate(computation.outputs):
        pair = (computation.inputs[index], computation.inputs[count + index])
        part = Graph(pair, computation.instructions, (output,), computation.name).pruned()
        read = {
            *part.outputs,
            *(value for instruction in part.instructions for value in instruction.operands),
        }
        if any(value.instruction is None and value not in pair for value in read):
            return None
        parts.append(part)
    return tuple(parts)


@remembered
def combines(computation: Graph) -> bool:
    """Return whether updates of all parts can be combined first: all sums, products or extremes.

    XLA does not recognize bitwise operations on integers as such computations.
    """
    parts = separate(computation) or ()
    kinds = {(monoid_of(part), part.output_shapes[0] is Shape("pred")) for part in parts}
    monoids = {*product(("add", "mul", "max", "min"), (False,)), ("and", True), ("or", True)}
    return len(kinds) == 1 and kinds <= monoids


def split(values: Sequence[_T]) -> tuple[Sequence[_T], _T, Sequence[_T]]:
    """Split a sequence into the parts for N operands, for the indices, and for N updates."""
    count = len(values) // 2
    return values[:count], values[count], values[count + 1 :]


def apply_updates(
    computation: Graph, operands: Arrays, targets: np.ndarray, updates: Arrays
) -> None:
    """Combine updates with N flat operands at the targets, in order and in place."""
    if not len(targets):
        return
    parts = separate(computation)
    with np.errstate(all="ignore"):
        if parts is None:
            _apply_in_rounds(computation, operands, targets, updates)
            return
        for part, operand, update in zip(parts, operands, updates, strict=True):
            _apply_one(part, operand, targets, update)


def _apply_one(
    computation: Graph, operand: np.ndarray, targets: np.ndarray, update: np.ndarray
) -> None:
    combination, dtype = combination_of(computation), operand.dtype
    # NumPy's function differs from the operation for ml_dtypes' types and for signs of zeros.
    is_numpys = dtype.isbuiltin == 1 and (combination not in ("max", "min") or dtype.kind in "biu")
    if combination == "set":
        operand[targets] = update  # NumPy keeps the last update of a repeated target
    elif combination is None or not is_numpys:
        _apply_in_rounds(computation, [operand], targets, [update])
    elif combination == "sub":
        np.subtract.at(operand, targets, update)
    elif combination != "keep":
        MONOIDS[combination].ufunc.at(operand, targets, update)


def _apply_in_rounds(
    computation: Graph, operands: Arrays, targets: np.ndarray, updates: Arrays
) -> None:
    """Apply any computation: first the first update of every target, then the second, and so on."""
    by_target = np.argsort(targets, kind="stable")
    ordered = targets[by_target]
    positions = np.arange(len(ordered))
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    ranks = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    by_rank = np.argsort(ranks, kind="stable")
    rounds = np.split(by_target[by_rank], np.cumsum(np.bincount(ranks))[:-1])
    for chosen in rounds:
        places = targets[chosen]
        old = [operand[places] for operand in operands]
        new = apply_elementwise(computation, [*old, *[update[chosen] for update in updates]])
        for operand, value in zip(operands, new, strict=True):
            operand[places] = value.astype(operand.dtype, copy=False)
