"""What a scatter's update computation does: its kind, its independent parts, and it in NumPy."""

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
    """The update computation with which updates replace what was there."""
    return update


@remembered
def combination_of(computation: Graph) -> str | None:
    """What `monoid_of` says; `sub` for old - update, `set` for the update, `keep` for the old."""
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
    """A computation of N old values and N updates as N of one each, where these are independent."""
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
    """Whether updates of any part can be combined alone: all are sums, or products, or extremes.

    What does so with bits of integers, XLA does not know to be such.
    """
    parts = separate(computation) or ()
    kinds = {(monoid_of(part), part.output_shapes[0] is Shape("pred")) for part in parts}
    monoids = {*product(("add", "mul", "max", "min"), (False,)), ("and", True), ("or", True)}
    return len(kinds) == 1 and kinds <= monoids


def split(values: Sequence[_T]) -> tuple[Sequence[_T], _T, Sequence[_T]]:
    """What there is for a scatter's N operands, for its indices, and for its N updates."""
    count = len(values) // 2
    return values[:count], values[count], values[count + 1 :]


def apply_updates(
    computation: Graph, operands: Arrays, targets: np.ndarray, updates: Arrays
) -> None:
    """Combines an update for each target, in order, with what N flat operands hold, in place."""
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
    # NumPy's function is not the operation for types of ml_dtypes and for signs of zeros.
    is_numpys = dtype.isbuiltin == 1 and (combination not in ("max", "min") or dtype.kind in "biu")
    if combination == "set":
        operand[targets] = update  # of repeated targets NumPy keeps the last
    elif combination is None or not is_numpys:
        _apply_in_rounds(computation, [operand], targets, [update])
    elif combination == "sub":
        np.subtract.at(operand, targets, update)
    elif combination != "keep":
        MONOIDS[combination].ufunc.at(operand, targets, update)


def _apply_in_rounds(
    computation: Graph, operands: Arrays, targets: np.ndarray, updates: Arrays
) -> None:
    """Any computation: first the first update of every target, then the second, and so on."""
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
