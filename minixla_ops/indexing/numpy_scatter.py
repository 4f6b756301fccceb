"""Scattering in NumPy: where updates go, and how those with the same target follow each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minixla.core.graph import Graph
from minixla_ops.indexing.index_numbers import IndexNumbers, window_dimensions
from minixla_ops.indexing.indexed_windows import element_places, window_starts
from minixla_ops.indexing.scatter_computations import combination_of, separate
from minixla_ops.programs.computations import MONOIDS
from minixla_ops.programs.reference_evaluation import apply_elementwise


def target_places(
    indices: np.ndarray, dimensions: Sequence[int], numbers: IndexNumbers, windows: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Where each element of each window is in the flat operand, and whether it is inside.

    The positions of those outside mean nothing. Both have the sizes of the indices without
    index_vector_dim, then those of the windows.
    """
    outer, starts = window_starts(indices, dimensions, numbers)
    inner = window_dimensions(len(dimensions), numbers)
    sizes = (*outer, *(windows[d] for d in inner))
    places, inside = np.zeros(sizes, np.int64), np.ones(sizes, bool)
    along = element_places(dict(enumerate(starts)), inner, windows)
    for place, size in zip(along, dimensions, strict=True):
        inside &= (place >= 0) & (place < size)
        places = places * size + place
    return places, inside


def apply_updates(
    computation: Graph,
    operands: Sequence[np.ndarray],
    targets: np.ndarray,
    updates: Sequence[np.ndarray],
) -> None:
    """Combines updates with what N flat operands hold at their targets, in place and in order.

    The computation goes from N old values and N updates to N new values; there are N arrays of one
    update for each target.
    """
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
    combination = combination_of(computation)
    if combination == "set":
        operand[targets] = update  # of repeated targets NumPy keeps the last
    elif combination is None or not _is_numpys(combination, operand.dtype):
        _apply_in_rounds(computation, [operand], targets, [update])
    elif combination == "sub":
        np.subtract.at(operand, targets, update)
    elif combination != "keep":
        MONOIDS[combination].ufunc.at(operand, targets, update)


def _is_numpys(combination: str, dtype: np.dtype) -> bool:
    """Whether NumPy's function is the operation: not for types of ml_dtypes and signs of zeros."""
    return dtype.isbuiltin == 1 and (combination not in ("max", "min") or dtype.kind in "biu")


def _apply_in_rounds(
    computation: Graph,
    operands: Sequence[np.ndarray],
    targets: np.ndarray,
    updates: Sequence[np.ndarray],
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
        new = apply_elementwise(computation, [*old, *(update[chosen] for update in updates)])
        for operand, value in zip(operands, new, strict=True):
            operand[places] = value.astype(operand.dtype, copy=False)
