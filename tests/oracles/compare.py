"""How far two arrays of one type are apart, and asserting that they are the same, or nearly."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from .values import bit_width, is_float

__all__ = ["assert_same", "flush_denormals", "ulp_distance"]

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)  # It has no sign.


def assert_same(
    actual: np.ndarray,
    expected: np.ndarray,
    *,
    ulp: float = 0,
    signed_zeros: bool = True,
    normwise: bool = False,
    inputs: Sequence[np.ndarray] = (),
    name: str = "",
) -> None:
    """Assert that two arrays have one type and shape and are at most `ulp` steps apart everywhere.

    The message has the worst element: its index, the two values, the steps between them, and those
    of `inputs` that have the same shape. See `ulp_distance` for the rest.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    prefix = f"{name}: " if name else ""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise AssertionError(f"{prefix}{_described(actual)} instead of {_described(expected)}")
    distance = ulp_distance(actual, expected, signed_zeros=signed_zeros, normwise=normwise)
    if not np.any(distance > ulp):
        return
    index = np.unravel_index(np.argmax(distance), distance.shape)
    position = [int(i) for i in index]
    given = [_exact(value[index]) for value in inputs if np.shape(value) == actual.shape]
    raise AssertionError(
        f"{prefix}{np.count_nonzero(distance > ulp)} of {distance.size} elements differ by more "
        f"than {ulp} ulp; the worst by {distance[index]:g}, at {position}"
        + (f" of inputs {', '.join(given)}" if given else "")
        + f"\n  actual   {_exact(actual[index])}\n  expected {_exact(expected[index])}"
    )


def _exact(element: np.ndarray) -> str:
    """An element and, for real types, its bit pattern."""
    element = np.asarray(element)
    return str(element) + (
        f" (0x{element.tobytes()[::-1].hex()})" if element.dtype.kind != "c" else ""
    )


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
        raise TypeError(f"{_described(actual)} cannot be compared with {_described(expected)}")
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


def _described(array: np.ndarray) -> str:
    """Its type and sizes: `float32[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"
