"""Snapshots: one object while the array is unchanged, safe from later writes, forgotten in time."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

from minixla.core import snapshots
from minixla.core.snapshots import holds, snapshot

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.arange(6, dtype=np.int64)[::-2],
    np.array(1.5),
    np.zeros((0, 3)),
    np.full(3, np.nan),
    np.arange(4).astype(ml_dtypes.int4),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_an_unchanged_array_has_one_snapshot(array):
    taken = snapshot(array)
    np.testing.assert_array_equal(taken, array)
    assert taken.dtype == array.dtype
    assert snapshot(array) is taken
    assert snapshot(taken) is taken
    assert holds(taken, array)
    with pytest.raises(ValueError, match="read-only"):
        taken[...] = 0


@pytest.mark.parametrize("before, after", [(0.0, 1.0), (0.0, -0.0), (np.nan, np.float32(-np.nan))])
def test_a_changed_array_has_another(before, after):
    array = np.full(3, before, np.float32)
    first = snapshot(array)
    array[1] = after
    assert not holds(first, array)
    second = snapshot(array)
    assert second is not first
    assert first.tobytes() == np.full(3, before, np.float32).tobytes()
    assert second.tobytes() == array.tobytes()


def test_a_reshaped_array():
    array = np.zeros(6, np.float32)
    first = snapshot(array)
    array.shape = (2, 3)
    assert snapshot(array).shape == (2, 3)
    assert first.shape == (6,)


def test_nothing_is_kept_alive():
    array = np.zeros(3)
    key = id(array)
    snapshot(array)
    assert snapshots._TAKEN[key][1]() is None, "nobody else holds the snapshot"
    del array
    gc.collect()
    assert key not in snapshots._TAKEN
