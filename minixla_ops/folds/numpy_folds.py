"""Folds in NumPy, which define the meaning of reductions.

ufuncs fold monoids; other computations are applied in order to whole slices. Floats up to f32, and
c64, are summed and multiplied in f64 and rounded once. Without cancellation, sums of up to a
million elements are then correctly rounded. f64 and c128 are summed pairwise. XLA and StableHLO's
interpreter round intermediate sums to the element type. For up to ten thousand random elements they
are within eps * sum(|x|) of the exact sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

import numpy as np

from minixla.core import Graph, element_type
from minixla_ops.folds.sliding_windows import Window, padded_base, window_view
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.shorthand import repeated
from minixla_ops.programs.computations import MONOIDS, padding_of
from minixla_ops.programs.reference_evaluation import apply_elementwise

Arrays = Sequence[np.ndarray]


def _wide_dtype(monoid: str, dtype: np.dtype) -> np.dtype:
    """Return the NumPy type in which `dtype` is folded; it can represent all its values."""
    if dtype.kind in "biu":
        return dtype
    if "int" in dtype.name:  # 2 and 4 bits: arithmetic modulo 2**8 is correct modulo 2**4
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    if dtype.kind == "c":
        return np.dtype(np.complex128) if monoid in ("add", "mul") else dtype
    if monoid in ("add", "mul"):
        return np.dtype(np.float64)
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def fold_monoid(
    monoid: str, array: np.ndarray, axes: tuple[int, ...], initial: np.ndarray
) -> np.ndarray:
    """Fold `array` over distinct `axes`, and remove them, from a scalar."""
    dtype, wide = array.dtype, _wide_dtype(monoid, array.dtype)
    start = initial.astype(wide)
    repeated = math.prod([array.shape[axis] for axis in axes if not array.strides[axis]])
    if repeated > _FEW_COPIES:
        array = _fold_copies(monoid, array, axes)
    # ufuncs convert NumPy's types piecewise, but do not convert ml_dtypes' types.
    ordered = array if array.dtype.isbuiltin == 1 else array.astype(wide)
    if monoid == "add" and wide == array.dtype and wide.kind in "fc":
        # NumPy sums pairwise only if the summed elements are contiguous.
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        sizes = [array.shape[axis] for axis in kept]
        last = math.prod([array.shape[axis] for axis in axes])
        ordered = np.ascontiguousarray(array.transpose(*kept, *axes)).reshape(*sizes, last)
        axes = (len(kept),)
    with np.errstate(all="ignore"):
        folded = MONOIDS[monoid].ufunc.reduce(ordered, axis=axes, dtype=wide, initial=start)
        folded = _with_signs(
            monoid, folded, lambda ufunc: ufunc.reduce(np.signbit(ordered), axis=axes), start
        )
        return cast(folded, element_type(dtype))


_FEW_COPIES = 1 << 16


def _fold_copies(monoid: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Replace elements repeated along axes by one element, their fold."""
    wide, ufunc = _wide_dtype(monoid, array.dtype), MONOIDS[monoid].ufunc
    along = [axis for axis in axes if not array.strides[axis]]
    count = math.prod([array.shape[axis] for axis in along])
    first = tuple([slice(0, 1) if axis in along else slice(None) for axis in range(array.ndim)])
    with np.errstate(all="ignore"):
        return np.asarray(repeated(array[first].astype(wide), count, ufunc))


# +0 is larger than -0, which NumPy's functions ignore. A maximum that is zero is -0 only if all
# signs are negative, and a minimum that is zero if any sign is.
_OF_SIGNS = {"max": np.logical_and, "min": np.logical_or}


def _with_signs(
    monoid: str, folded: np.ndarray, fold_signs: Callable[[np.ufunc], np.ndarray], start: np.ndarray
) -> np.ndarray:
    """Correct the signs of zeros in a folded array; `fold_signs` folds the elements' signs."""
    folded, ufunc = np.asarray(folded), _OF_SIGNS.get(monoid)
    if ufunc is None or folded.dtype.kind != "f" or not (folded == 0).any():
        return folded
    is_negative = ufunc(fold_signs(ufunc), np.signbit(start))
    return np.where(folded == 0, np.where(is_negative, -0.0, 0.0).astype(folded.dtype), folded)


def fold_computation(computation: Graph, arrays: Arrays, initials: Arrays) -> list[np.ndarray]:
    """Fold N arrays of equal dimensions over the first dimension, in order, from N scalars."""
    count, *kept = arrays[0].shape
    rows = ([array[index] for array in arrays] for index in range(count))
    return _fold_rows(computation, rows, initials, kept, repeat(np.ones((), np.bool_)))


def _fold_rows(
    computation: Graph,
    rows: Iterable[Arrays],
    initials: Arrays,
    sizes: Sequence[int],
    present: Iterable[np.ndarray],
) -> list[np.ndarray]:
    """Run `fold_in_order` in NumPy; results have the element types of `initials`."""
    running: list[np.ndarray] = [np.broadcast_to(initial, sizes) for initial in initials]
    with np.errstate(all="ignore"):
        for row, there in zip(rows, present, strict=False):
            if there.any():
                combined = apply_elementwise(computation, [*running, *row])
                pairs = zip(combined, running, strict=True)
                is_whole = there.all()
                running = combined if is_whole else [np.where(there, *pair) for pair in pairs]
    pairs = zip(running, initials, strict=True)
    return [np.asarray(value).astype(start.dtype, copy=False) for value, start in pairs]


def fold_windows(
    computation: Graph, arrays: Arrays, window: Window, initials: Arrays
) -> list[np.ndarray]:
    """Fold the elements of N arrays at each window position in order, from N scalars."""
    base = arrays[0].shape
    filled = map(padded_base, arrays, initials, repeat(window))
    views = [window_view(array, window) for array in filled]
    rows = ([view[(..., *index)] for view in views] for index in np.ndindex(*window.sizes))
    sizes, present = window.positions(base), window.present(base)
    return _fold_rows(computation, rows, initials, sizes, present)


def fold_windows_by_monoid(
    monoid: str, array: np.ndarray, window: Window, initial: np.ndarray
) -> np.ndarray:
    """Fold the elements at each window position by a monoid, from a scalar.

    Monoids are associative and commutative, so windows are folded one dimension after the other.
    """
    wide, ufunc = _wide_dtype(monoid, array.dtype), MONOIDS[monoid].ufunc
    start, nothing = initial.astype(wide), padding_of(monoid, wide)
    padded = padded_base(array.astype(wide, copy=False), nothing, window)

    def over(elements: np.ndarray, ufunc: np.ufunc, **first: np.ndarray) -> np.ndarray:
        for axis in range(array.ndim):
            view = window_view(np.moveaxis(elements, axis, -1), window.along(axis))
            folded = ufunc.reduce(view, axis=-1, dtype=elements.dtype, **first)
            elements = np.moveaxis(folded, -1, axis)
        return elements

    with np.errstate(all="ignore"):
        folded = ufunc(start, over(padded, ufunc, initial=nothing))
        folded = _with_signs(monoid, folded, lambda f: over(np.signbit(padded), f), start)
        return cast(folded, element_type(array.dtype))
