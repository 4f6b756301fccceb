"""How far two arrays of one type are apart, counted in representable values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from minixla.core.element_types import element_type

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)  # It has no sign.


def ulp_distance(
    actual: np.ndarray,
    expected: np.ndarray,
    *,
    signed_zeros: bool = False,
    normwise: bool = False,
) -> np.ndarray:
    """Number of steps from one representable value to the next between two arrays, an element each.

    Args:
        actual: array of any of XLA's types.
        expected: array of the same shape and type.
        signed_zeros: whether -0 and +0 differ, by infinitely many steps; else they are equal.
        normwise: for complex types, measure the distance of the two numbers in the plane, in steps
            at the larger part of the expected one, for ops in which one part cancels; signs of
            zeros do not count then. Without it the larger of the distances of the parts counts.

    Returns:
        float64 array: 0 where equal; NaNs of any sign and payload equal each other and are
        infinitely far from everything else; infinity is the step after the largest value. For
        integers and Booleans the absolute difference.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise TypeError(f"{describe(actual)} cannot be compared with {describe(expected)}")
    if actual.dtype.kind == "c":
        signed_zeros = signed_zeros and not normwise
        distance = np.maximum(
            _real_distance(np.real(actual), np.real(expected), signed_zeros),
            _real_distance(np.imag(actual), np.imag(expected), signed_zeros),
        )
        return _normwise_distance(actual, expected, distance) if normwise else distance
    return _real_distance(actual, expected, signed_zeros)


def flush_denormals(array: np.ndarray) -> np.ndarray:
    """The array with every denormal number replaced by the zero of its sign, as XLA:CPU does."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        parts = flush_denormals(np.real(array)), flush_denormals(np.imag(array))
        return np.stack(parts, axis=-1).view(array.dtype)[..., 0]
    bits, magnitude = _bits_and_magnitude(array)
    smallest = np.array(ml_dtypes.finfo(array.dtype).smallest_normal, array.dtype).view(bits.dtype)
    return np.where(magnitude < smallest, bits ^ magnitude, bits).view(array.dtype)


def _bits_and_magnitude(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns of real floats, and the same without the sign."""
    bits = np.asarray(array, order="C").view(f"uint{8 * array.dtype.itemsize}")
    if array.dtype == _E8M0:
        return bits, bits
    width = bit_width(array.dtype)
    bits = bits & bits.dtype.type(2**width - 1)
    return bits, bits & bits.dtype.type(2 ** (width - 1) - 1)


def _position(array: np.ndarray) -> np.ndarray:
    """Position of real values in the order of all values of their type, as uint64."""
    middle = np.uint64(2**63)
    if is_float(array.dtype):
        bits, magnitude = (part.astype(np.uint64) for part in _bits_and_magnitude(array))
        return np.where(bits != magnitude, middle - magnitude, middle + magnitude)
    if array.dtype == np.uint64:
        return array
    return array.astype(np.int64).view(np.uint64) ^ middle


def _real_distance(actual: np.ndarray, expected: np.ndarray, signed_zeros: bool) -> np.ndarray:
    """`ulp_distance` of types that are not complex."""
    positions = _position(actual), _position(expected)
    distance = np.asarray(np.maximum(*positions) - np.minimum(*positions), np.float64)
    if not is_float(actual.dtype):
        return distance
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        nans = np.isnan(actual), np.isnan(expected)
    if signed_zeros:
        differ = _bits_and_magnitude(actual)[0] != _bits_and_magnitude(expected)[0]
        distance = np.where((actual == 0) & (expected == 0) & differ, np.inf, distance)
    distance = np.where(nans[0] != nans[1], np.inf, distance)
    return np.where(nans[0] & nans[1], 0, distance)


def _normwise_distance(
    actual: np.ndarray, expected: np.ndarray, partwise: np.ndarray
) -> np.ndarray:
    """Distance of complex numbers in the plane; that of their parts where one is not finite."""
    with np.errstate(all="ignore"):
        difference = np.abs(actual.astype(np.complex128) - expected)
        steps = np.spacing(np.maximum(np.abs(np.real(expected)), np.abs(np.imag(expected))))
        finite = np.isfinite(actual) & np.isfinite(expected)
        return np.where(finite, difference / steps.astype(np.float64), partwise)


def is_float(dtype: npt.DTypeLike) -> bool:
    """Whether it is a real floating-point type, the small ones included."""
    return element_type(np.dtype(dtype)).is_float


def bit_width(dtype: npt.DTypeLike) -> int:
    """Bits of a real type that carry its value; fewer than its bytes hold for 2, 4 and 6 bits."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return 1
    return (ml_dtypes.finfo(dtype) if is_float(dtype) else ml_dtypes.iinfo(dtype)).bits


def describe(array: np.ndarray) -> str:
    """Its type and sizes: `float32[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"


def real_part_info(dtype: npt.DTypeLike) -> Any:
    """The limits of a float type, or of the parts of a complex one."""
    dtype = np.dtype(dtype)
    return ml_dtypes.finfo(f"f{dtype.itemsize // 2}" if dtype.kind == "c" else dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """A float or complex array in double."""
    return np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def ulp_size(numbers: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """The distance from one value of `dtype` to the next, at numbers in double.

    For complex numbers that of their magnitude.
    """
    info = real_part_info(dtype)
    magnitude = np.abs(numbers)
    is_number = np.isfinite(magnitude) & (magnitude > 0)
    exponent = np.frexp(np.where(is_number, magnitude, 1))[1]
    smallest = float(info.smallest_subnormal)
    size = np.maximum(np.ldexp(1.0, exponent - 1 - info.nmant), smallest)
    return np.where(magnitude > 0, size, smallest)


def absolute_error(actual: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far values are from numbers in double, an element each.

    0 where both are NaN, or where `actual` is the infinity that the number becomes in its type;
    infinity where one alone is NaN.
    """
    with np.errstate(all="ignore"):
        rounded, given = wide(truth.astype(actual.dtype)), wide(actual)
        error = np.abs(given - truth)
        is_same = (given == rounded) & ~np.isfinite(given) | np.isnan(given) & np.isnan(truth)
        return np.where(is_same, 0.0, np.where(np.isnan(error), np.inf, error))
