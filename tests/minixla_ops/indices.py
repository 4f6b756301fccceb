"""Start indices for the tests of Gather and Scatter, in and out of bounds."""

import ml_dtypes
import numpy as np


def starts(*sizes, low=-3, high=9, dtype=np.int32, seed=0):
    return np.random.default_rng(seed).integers(low, high, sizes).astype(dtype)


def starts_of(dtype):
    """Starts of an integer type: its ends, and what is next to those of 300 elements."""
    info = ml_dtypes.iinfo(dtype)
    given = sorted({int(info.min), -1, 0, 1, 3, 100, 297, 298, 299, int(info.max)})
    return [each for each in given if info.min <= each <= info.max]


def indices_of(dtype):
    """The starts of an integer type, an index vector each."""
    wide = np.int64 if ml_dtypes.iinfo(dtype).min else np.uint64
    return np.array(starts_of(dtype), wide).astype(dtype)[:, None]
