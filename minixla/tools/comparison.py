"""One array against the same in double: errors, the bound, the worst element."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.tools.ulp import absolute_error, ulp_distance, ulp_size


class Comparison(NamedTuple):
    """How far an array is from what it should be.

    Attributes:
        ulp: the largest error of an element in units of the last place; for integers and booleans
            the largest difference.
        error: the largest error.
        relative: it over the largest element.
        bound: what is allowed at the element whose error exceeds its bound most, in ulp.
        excess: that error over its bound: more than 1 is too much.
        worst: the index of that element.
    """

    ulp: float
    error: float
    relative: float
    bound: float
    excess: float
    worst: tuple[int, ...]


def compared(actual: np.ndarray, truth: np.ndarray, bound: np.ndarray | None = None) -> Comparison:
    """Compares an array with what it should be.

    Args:
        actual: of its declared type.
        truth: in double where that is a float or complex type, else of the type.
        bound: the error that is allowed for each element; not used for integers and booleans, which
            must be equal.
    """
    if actual.shape != truth.shape:
        return Comparison(np.inf, np.inf, np.inf, 0.0, np.inf, ())
    if actual.size == 0:
        return Comparison(0.0, 0.0, 0.0, 0.0, 0.0, ())
    if not element_type(actual.dtype).is_inexact:
        steps = ulp_distance(actual, truth.astype(actual.dtype, copy=False))
        largest = float(steps.max())
        where = _index(steps)
        excess = np.inf if largest else 0.0
        return Comparison(largest, largest, float(largest > 0), 0.0, excess, where)
    assert bound is not None
    error = absolute_error(actual, truth)
    ulp = ulp_size(truth, actual.dtype)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, 0.0, error / bound)
        excess = np.where(np.isnan(excess), np.inf, excess)
        where = _index(excess)
        return Comparison(
            float((error / ulp).max()),
            float(error.max()),
            relative_error(error, truth),
            float((bound / ulp)[where]),
            float(excess[where]),
            where,
        )


def _index(array: np.ndarray) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(np.argmax(array), array.shape))


def relative_error(error: np.ndarray, truth: np.ndarray) -> float:
    """The largest error over the largest finite element."""
    if not error.size or not error.max():
        return 0.0
    finite = np.abs(truth)[np.isfinite(truth)]
    largest = float(finite.max()) if finite.size else 0.0
    return float(error.max() / largest) if largest else float("inf")


def shown_element(array: np.ndarray, where: tuple[int, ...]) -> str:
    """An element with all its digits."""
    if array.ndim != len(where) or not array.size:
        return f"of dimensions {list(array.shape)}"
    return str(array[where])
