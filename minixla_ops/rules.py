"""The small vocabulary that derivative and batching rules are written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minixla.core.linear import add_cotangents, instantiate, zeros_like
from minixla.core.roles import fill_role
from minixla.core.shapes import AnyShape, DeclaredArray, Shape
from minixla.core.tracing import shape_of

__all__ = [
    "add_cotangents",
    "array_shape",
    "common_sizes",
    "full_like",
    "instantiate",
    "ones_like",
    "splat",
    "sum_over",
    "zeros",
    "zeros_like",
]

_SPLATS: dict[Any, np.ndarray] = {}
_MOST_SPLATS = 4096


def splat(value: Any, shape: Shape) -> np.ndarray:
    """An array of `shape` that holds the Python number `value` everywhere, in no memory.

    Traces record it as one constant; it is a read-only zero-stride NumPy array.
    """
    # 0 == -0.0 and 1 == 1.0 == True must not share an entry.
    key = (value.__class__, value if value else repr(value), shape)
    found = _SPLATS.get(key)
    if found is None:
        if len(_SPLATS) >= _MOST_SPLATS:
            _SPLATS.clear()
        with np.errstate(over="ignore"):
            scalar = np.asarray(value).astype(shape.dtype)
        found = _SPLATS[key] = np.broadcast_to(scalar, shape.dimensions).view(DeclaredArray)
    return found


def array_shape(value: Any) -> Shape:
    """The Shape of a value that is known to be an array."""
    shape = shape_of(value)
    assert isinstance(shape, Shape), f"{shape} is not an array"
    return shape


def zeros(shape: AnyShape) -> np.ndarray:
    """Zeros of an array shape."""
    assert isinstance(shape, Shape), f"there are no zeros of shape {shape}"
    return splat(0, shape)


def full_like(value: Any, number: Any) -> np.ndarray:
    """`number` everywhere, in the shape and element type of `value`."""
    return splat(number, array_shape(value))


def ones_like(value: Any) -> np.ndarray:
    """Ones in the shape and element type of `value`."""
    return splat(1, array_shape(value))


def common_sizes(*values: Any) -> Sequence[Any]:
    """Values of equal dimensions, each dynamic where any is, and as large; others as they are."""
    if not Shape.any_dynamic or len({shape_of(value) for value in values}) == 1:
        return values
    from minixla_ops.dynamic_sizes import in_common_sizes

    return in_common_sizes(values)


def sum_over(value: Any, dimensions: Iterable[int]) -> Any:
    """The sum over `dimensions`, which the result no longer has."""
    from minixla_ops.binary import add
    from minixla_ops.reduction import reduce

    listed: Sequence[int] = sorted(dimensions)
    if not listed:
        return value
    zero = splat(0, Shape(array_shape(value).element_type))
    return reduce([value], [zero], add, listed)


fill_role("zeros", zeros)
