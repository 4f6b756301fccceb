"""Snapshots: NumPy arrays as they are now, safe from what is written to them later."""

from __future__ import annotations

import weakref

import numpy as np

# By identity of the array: it and its last snapshot, while someone else keeps them alive.
_TAKEN: dict[int, tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]] = {}


def snapshot(array: np.ndarray) -> np.ndarray:
    """A read-only array of what `array` holds now; itself, where nobody can write to it.

    Two snapshots of an array that has not changed meanwhile are one object, so that a program
    which reads an array in many places holds it once.
    """
    if not array.flags.writeable:
        return array
    key = id(array)
    known, last = _TAKEN.get(key, (None, None))
    if known is not None and last is not None and known() is array:
        taken = last()
        if taken is not None and holds(taken, array):
            return taken
    taken = array.copy()
    taken.flags.writeable = False
    forget = weakref.ref(array, lambda _: _TAKEN.pop(key, None))
    _TAKEN[key] = (forget, weakref.ref(taken))
    return taken


def holds(taken: np.ndarray, array: np.ndarray) -> bool:
    """Whether an earlier snapshot of `array` still says what it holds."""
    return taken is array or (
        taken.dtype == array.dtype
        and taken.shape == array.shape
        and taken.tobytes() == array.tobytes()
    )
