"""Folding in NumPy: monoids through ufuncs, general computations over whole slices.

Floats up to f32, and c64, are summed and multiplied in double and rounded once, so that sums of up
to a million elements are the exact sum correctly rounded, but for cancellation. f64 and c128 are
summed pairwise. XLA:CPU and StableHLO's interpreter round intermediate sums to the element type:
they are within eps * sum(|x|) of the exact sum for up to ten thousand random elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Graph
from minixla_ops.computations import identity_of
from minixla_ops.evaluation import apply_elementwise
from minixla_ops.windows import Window, padded_base, window_positions, window_view

__all__ = [
    "fold_computation",
    "fold_monoid",
    "fold_windows",
    "fold_windows_by_monoid",
    "monoid_ufunc",
]

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


def _wide_dtype(monoid: str, dtype: np.dtype) -> np.dtype:
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
    dtype, wide = array.dtype, _wide_dtype(monoid, array.dtype)
    start = initial.astype(wide)
    repeated = math.prod([array.shape[axis] for axis in axes if not array.strides[axis]])
    if repeated > _FEW_COPIES:
        array = _fold_copies(monoid, array, axes)
    # ufuncs convert NumPy's own types piece by piece, those of ml_dtypes not at all.
    ordered = array if array.dtype.isbuiltin == 1 else array.astype(wide)
    if monoid == "add" and wide == array.dtype and wide.kind in "fc":
        ordered, axes = _summed_last(array, axes)
    with np.errstate(all="ignore"):
        folded = _UFUNCS[monoid].reduce(ordered, axis=axes, dtype=wide, initial=start)
        folded = np.asarray(folded)
        if _has_extreme_zeros(monoid, folded):
            signs = _SIGN_UFUNCS[monoid].reduce(
                np.signbit(ordered), axis=axes, initial=np.signbit(start)
            )
            folded = np.where(folded == 0, np.copysign(folded, np.where(signs, -1.0, 1.0)), folded)
        return folded.astype(dtype)


_FEW_COPIES = 1 << 16


def _fold_copies(monoid: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`array` with one element, folded, in place of the same one many times along axes.

    Copies are folded in pairs, pairs of pairs and so on, as a constant may have any size.
    """
    wide, ufunc = _wide_dtype(monoid, array.dtype), _UFUNCS[monoid]
    along = [axis for axis in axes if not array.strides[axis]]
    count = math.prod([array.shape[axis] for axis in along])
    first = tuple([slice(0, 1) if axis in along else slice(None) for axis in range(array.ndim)])
    power, folded = array[first].astype(wide), None
    with np.errstate(all="ignore"):
        while count:
            if count & 1:
                folded = power if folded is None else ufunc(folded, power)
            power, count = ufunc(power, power), count >> 1
    return np.asarray(folded)


# Of zeros, +0 is the larger and -0 the smaller, which NumPy's functions do not heed: a maximum that
# is zero is -0 only where every sign is negative, such a minimum where any is.
_SIGN_UFUNCS = {"max": np.logical_and, "min": np.logical_or}


def _has_extreme_zeros(monoid: str, folded: np.ndarray) -> bool:
    return monoid in _SIGN_UFUNCS and folded.dtype.kind == "f" and bool((folded == 0).any())


def _summed_last(array: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    # NumPy sums pairwise only where the summed elements lie side by side.
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    ordered = np.ascontiguousarray(array.transpose(*kept, *axes))
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


#: Windows up to this size are folded slice by slice, larger ones through a view.
_FEW = 32


def fold_windows_by_monoid(
    monoid: str, array: np.ndarray, window: Window, initial: np.ndarray
) -> np.ndarray:
    """The elements under each position of a window folded by a monoid, from `initial`.

    Monoids are associative and commutative: the window is folded one dimension after the other.

    Args:
        monoid: as `monoid_of` names it.
        array: of any element type that the monoid takes.
        window: over all dimensions of `array`.
        initial: a scalar.
    """
    wide = _wide_dtype(monoid, array.dtype)
    start = initial.astype(wide)
    padded = padded_base(array.astype(wide, copy=False), identity_of(monoid, wide), window)
    with np.errstate(all="ignore"):
        folded = _UFUNCS[monoid](start, _fold_axes(_UFUNCS[monoid], padded, window))
        if _has_extreme_zeros(monoid, folded):
            ufunc = _SIGN_UFUNCS[monoid]
            signs = ufunc(np.signbit(start), _fold_axes(ufunc, np.signbit(padded), window))
            folded = np.where(folded == 0, np.copysign(folded, np.where(signs, -1.0, 1.0)), folded)
        return np.asarray(folded).astype(array.dtype, copy=False)


def _fold_axes(ufunc: np.ufunc, padded: np.ndarray, window: Window) -> np.ndarray:
    for axis in range(padded.ndim):
        padded = _fold_axis(ufunc, padded, axis, window)
    return padded


def _fold_axis(ufunc: np.ufunc, array: np.ndarray, axis: int, window: Window) -> np.ndarray:
    """The window folded in one dimension only."""
    size, stride, extent = window.sizes[axis], window.strides[axis], window.extents[axis]
    count = window_positions(array.shape[axis], extent, stride)
    if size > _FEW and count:
        whole = (1,) * array.ndim
        line = Window(
            _with(whole, axis, size),
            _with(whole, axis, stride),
            ((0, 0),) * array.ndim,
            whole,
            _with(whole, axis, window.window_dilations[axis]),
        )
        view = window_view(array, line)
        return ufunc.reduce(view, axis=tuple(range(array.ndim, 2 * array.ndim)), dtype=array.dtype)
    folded: Any = None
    for index in range(size):
        start = index * window.window_dilations[axis]
        part = slice(start, start + max((count - 1) * stride + 1, 0) if count else start, stride)
        element = array[(slice(None),) * axis + (part,)]
        folded = element if folded is None else ufunc(folded, element)
    return folded


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def fold_windows(
    computation: Graph, arrays: Sequence[np.ndarray], window: Window, initials: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The elements under each position of a window folded in order by a computation of scalars.

    Args:
        computation: takes N running values and N elements.
        arrays: N arrays of equal dimensions.
        window: over all of these.
        initials: N scalars.
    """
    base = arrays[0].shape
    present = window.present(base)
    views = [
        window_view(padded_base(array, initial, window), window)
        for array, initial in zip(arrays, initials, strict=True)
    ]
    positions = window.positions(base)
    running: list[Any] = [np.broadcast_to(initial, positions) for initial in initials]
    with np.errstate(all="ignore"):
        for there, index in zip(present, np.ndindex(*window.sizes), strict=True):
            if there.any():
                elements = [view[(..., *index)] for view in views]
                combined = apply_elementwise(computation, [*running, *elements])
                whole = there.all()
                running = [
                    new if whole else np.where(there, new, old)
                    for new, old in zip(combined, running, strict=True)
                ]
    return [
        np.asarray(value).astype(array.dtype, copy=False)
        for value, array in zip(running, arrays, strict=True)
    ]
