"""Errors of arrays, in units of the last place and relative to bounds."""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from minixla.core.element_types import ElementType, element_type


class Comparison(NamedTuple):
    """The error of an array."""

    #: The largest error of an element in units of the last place; for integers and booleans, the
    #: largest difference.
    ulp: float
    error: float  # the largest error
    relative: float  # the largest error divided by the largest element
    #: The allowed error, in ulp, of the element that exceeds its bound most; its error divided by
    #: that bound, which must be at most 1; and the index of that element.
    bound: float
    excess: float
    worst: tuple[int, ...]
    #: True if an element is NaN or infinite where the other is a number or another infinity.
    is_special: bool = False


def compared(actual: np.ndarray, truth: np.ndarray, bound: np.ndarray | None = None) -> Comparison:
    """Compare an array with the truth, in double, and each error with its bound."""
    if actual.shape != truth.shape:
        return Comparison(np.inf, np.inf, np.inf, 0.0, np.inf, ())
    if actual.size == 0:
        return Comparison(0.0, 0.0, 0.0, 0.0, 0.0, ())
    if not element_type(actual.dtype).is_inexact:
        kind = np.uint64 if actual.dtype == np.uint64 else np.int64
        ours, theirs = actual.astype(kind), truth.astype(kind)
        ends = [choose(ours, theirs).astype(np.uint64) for choose in (np.maximum, np.minimum)]
        apart = np.asarray(np.subtract(*ends), np.float64)
        largest = float(apart.max())
        excess = np.inf if largest else 0.0
        return Comparison(largest, largest, float(largest > 0), 0.0, excess, _index(apart))
    assert bound is not None
    error = absolute_error(actual, truth)
    ulp = ulp_size(truth, actual.dtype)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, 0.0, error / bound)
        excess = np.where(np.isnan(excess), np.inf, excess)
        where = _index(excess)
        relative, most = relative_error(error, truth), float((error / ulp).max())
        worst = float((bound / ulp)[where]), float(excess[where]), where
        special = bool(np.isinf(error).any())
        return Comparison(most, float(error.max()), relative, *worst, special)


def _index(array: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(np.argmax(array), array.shape))


def relative_error(error: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest error divided by the largest finite element."""
    if not error.size or not error.max():
        return 0.0
    largest = np.abs(truth).max(initial=0.0, where=np.isfinite(truth))
    return float(error.max() / largest) if largest else float("inf")


def shown_element(array: np.ndarray, where: tuple[int, ...]) -> str:
    """Return an element with all its digits."""
    if array.ndim != len(where) or not array.size:
        return f"of dimensions {list(array.shape)}"
    return str(array[where])


def precision_of(kind: ElementType) -> float:
    """Return the distance from 1 to the next number of a float or complex type."""
    return float(real_part_info(kind.dtype).eps)


def real_part_info(dtype: npt.DTypeLike) -> Any:
    """Return the limits of a float type, or of the parts of a complex one."""
    dtype = np.dtype(dtype)
    return ml_dtypes.finfo(f"f{dtype.itemsize // 2}" if dtype.kind == "c" else dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """Convert a float or complex array to double."""
    return np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def ulp_size(numbers: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """Return the distance from each number (or its magnitude) to the next value of `dtype`."""
    info = real_part_info(dtype)
    magnitude = np.abs(numbers)
    is_number = np.isfinite(magnitude) & (magnitude > 0)
    exponent = np.frexp(np.where(is_number, magnitude, 1))[1]
    smallest = float(info.smallest_subnormal)
    size = np.maximum(np.ldexp(1.0, exponent - 1 - info.nmant), smallest)
    return np.where(magnitude > 0, size, smallest)


def absolute_error(actual: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the absolute error of each value, relative to numbers in double."""
    # The error is 0 where `actual` is the NaN or the infinity that the number becomes in its type.
    # It is infinite where `actual` is another one, or only one of both is finite.
    with np.errstate(all="ignore"):
        rounded, measured = wide(truth.astype(actual.dtype)), wide(actual)
        is_same = (measured == rounded) | np.isnan(measured) & np.isnan(rounded)
        if measured.dtype.kind == "c":
            # Evaluators differ in the other part of a complex infinity.
            parts = [(np.real(rounded), np.real(measured)), (np.imag(rounded), np.imag(measured))]
            infinite = [np.isinf(one) for one, _ in parts]
            equal = [~np.isinf(one) | (one == other) for one, other in parts]
            is_same |= (infinite[0] | infinite[1]) & equal[0] & equal[1]
        is_finite = np.isfinite(measured) & np.isfinite(rounded)
        return np.where(is_finite, np.abs(measured - truth), np.where(is_same, 0.0, np.inf))
