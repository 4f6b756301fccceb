"""Asserting that two arrays of one type are the same, or nearly."""

from collections.abc import Sequence

import numpy as np

from minixla.tools.ulp import describe, flush_denormals, ulp_distance

__all__ = ["assert_same", "flush_denormals", "ulp_distance"]


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
        raise AssertionError(f"{prefix}{describe(actual)} instead of {describe(expected)}")
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
