"""Folding in NumPy: monoids through ufuncs, general computations over whole slices.

Floats up to f32, and c64, are summed and multiplied in double and rounded once: the result is
within a unit in the last place of the exact sum of the operands. f64 and c128 are summed pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Graph
from minixla_ops.evaluation import apply_elementwise

__all__ = ["fold_computation", "fold_monoid", "monoid_ufunc", "wide_dtype"]

_UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def monoid_ufunc(monoid: str) -> np.ufunc:
    """NumPy's function of a monoid (as `monoid_of` names it)."""
    return _UFUNCS[monoid]


def wide_dtype(monoid: str, dtype: np.dtype) -> np.dtype:
    """The NumPy type that elements of `dtype` are folded in; exact for every value of `dtype`."""
    if dtype.kind in "biu":
        return dtype
    if "int" in dtype.name:  # 2 and 4 bits: arithmetic modulo 2**8 is right modulo 2**4
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    if dtype.kind == "c":
        return np.dtype(np.complex128) if monoid in ("add", "mul") else dtype
    if monoid in ("add", "mul"):
        return np.dtype(np.float64)
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def fold_monoid(
    monoid: str, array: np.ndarray, axes: tuple[int, ...], initial: np.ndarray
) -> np.ndarray:
    """`array` folded over `axes`, which the result no longer has, starting from `initial`.

    Args:
        monoid: as `monoid_of` names it.
        array: of any element type that the monoid takes.
        axes: none of them twice.
        initial: a scalar.
    """
    wide = wide_dtype(monoid, array.dtype)
    with np.errstate(all="ignore"):
        if not axes:
            combined = monoid_ufunc(monoid)(initial.astype(wide), array.astype(wide))
            return np.asarray(combined).astype(array.dtype)
        start = initial.astype(wide)
        # ufuncs convert NumPy's own types piece by piece, those of ml_dtypes not at all.
        ordered = array if array.dtype.isbuiltin == 1 else array.astype(wide)
        if monoid == "add" and wide == array.dtype and wide.kind in "fc":
            ordered, axes = _summed_last(array, axes)
        folded = monoid_ufunc(monoid).reduce(ordered, axis=axes, dtype=wide, initial=start)
        return np.asarray(folded).astype(array.dtype, copy=False)


def _summed_last(array: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    # NumPy sums pairwise only where the summed elements lie side by side.
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    ordered = array.transpose(*kept, *axes)
    sizes = ordered.shape[: len(kept)]
    return ordered.reshape(*sizes, math.prod(ordered.shape[len(kept) :])), (len(kept),)


def fold_computation(
    computation: Graph, arrays: Sequence[np.ndarray], initials: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Arrays folded over their first dimension, in order, by a computation of scalars.

    Args:
        computation: takes N running values and N elements.
        arrays: N arrays of equal dimensions.
        initials: N scalars.
    """
    count, *kept = arrays[0].shape
    running: list[Any] = [np.broadcast_to(initial, kept) for initial in initials]
    with np.errstate(all="ignore"):
        for index in range(count):
            running = apply_elementwise(computation, [*running, *(each[index] for each in arrays)])
    return [
        np.asarray(value).astype(array.dtype, copy=False)
        for value, array in zip(running, arrays, strict=True)
    ]
