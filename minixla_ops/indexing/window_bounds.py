"""Indexed windows in and out of bounds: programs for the rules of Gather and Scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.shapes import DeclaredArray, Shape
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers.shorthand import array_shape, splat
from minixla_ops.indexing import index_numbers
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, IndexNumbers, Sizes

#: The padding of `pad` in each dimension: before, after and between.
Frame = Sequence[tuple[int, int, int]]


def clamped_starts(
    indices: Array, numbers: IndexNumbers, dimensions: Sizes, windows: Sizes
) -> Array:
    """Clamp index vectors so that each window is inside an operand of sizes `dimensions`."""
    limits = [dimensions[d] - windows[d] for d in numbers[2]]
    return _clamped(indices, numbers.index_vector_dim, [0] * len(limits), limits)


def _clamped(indices: Array, index_vector_dim: int, lowest: Sizes, highest: Sizes) -> Array:
    """Clamp each component to [lowest, highest], as far as its type can represent them."""
    shape = array_shape(indices)
    info = ml_dtypes.iinfo(shape.dtype)
    low, high = int(info.min), int(info.max)
    lows, highs = [max(number, low) for number in lowest], [min(each, high) for each in highest]
    least, most = (_for_each_component(bounds, shape, index_vector_dim) for bounds in (lows, highs))
    return ops.clamp(least, indices, most)


def _for_each_component(values: Sizes, shape: Shape, index_vector_dim: int) -> ArrayLike:
    """Return a bound for each component of index vectors: a scalar if all are equal."""
    if len(set(values)) == 1:
        return splat(values[0], Shape(shape.element_type))
    vector = np.array(values).astype(shape.dtype).view(DeclaredArray)
    return ops.broadcast_in_dim(vector, shape.dimensions, (index_vector_dim,))


def starts_in_bounds(
    indices: Array, numbers: IndexNumbers, dimensions: Sizes, windows: Sizes
) -> Array:
    """Return a mask, shaped like the indices without index_vector_dim, of windows inside."""
    clamped = clamped_starts(indices, numbers, dimensions, windows)
    inside = ops.eq(indices, clamped)
    at, sizes = numbers.index_vector_dim, array_shape(indices).dimensions
    if at == len(sizes):
        return inside
    return ops.reduce(inside, splat(True, Shape("pred")), ops.and_, [at])


def may_lie_partly_outside(numbers: IndexNumbers, windows: Sizes) -> bool:
    """Return whether a window can be partly outside the operand."""
    inner = index_numbers.window_dimensions(len(windows), numbers)
    return any(windows[d] > 1 for d in numbers[2] if d in inner)


def into_padding(
    indices: Array, numbers: IndexNumbers, dimensions: Sizes, windows: Sizes
) -> tuple[list[tuple[int, int, int]], Array]:
    """Return padding that catches elements outside, and index vectors (s32, s64) within it."""
    moving = numbers[2]
    margins = [windows[d] for d in moving]
    config = [(w, w, 0) if d in moving else (0, 0, 0) for d, w in enumerate(windows)]
    if not moving:
        return config, indices
    lows, highs = [-margin for margin in margins], [dimensions[d] for d in moving]
    clamped = _clamped(indices, numbers.index_vector_dim, lows, highs)
    largest = max(dimensions[d] + 2 * windows[d] for d in moving)
    wide = array_shape(indices).with_element_type(element_type("s64" if largest >> 31 else "s32"))
    margin = _for_each_component(margins, wide, numbers.index_vector_dim)
    return config, ops.convert_element_type(clamped, wide.element_type) + margin


def framed(value: ArrayLike, config: Frame | None, fill: complex = 0) -> Any:
    """Pad an array with `fill`; None: no padding."""
    if config is None:
        return value
    return ops.pad(value, splat(fill, Shape(array_shape(value).element_type)), config)


def unframed(value: Array, config: Frame | None) -> Array:
    """Remove the padding of `framed`."""
    if config is None:
        return value
    pairs = zip(array_shape(value).dimensions, config, strict=True)
    limits = [size - high for size, (_, high, _) in pairs]
    return ops.slice(value, [low for low, _, _ in config], limits)


def gather_or_fill(
    operand: ArrayLike,
    indices: Array,
    numbers: GatherDimensionNumbers,
    windows: Sizes,
    fill: complex = 0,
    is_sorted: bool = False,
) -> Array:
    """Gather without clamping starts: elements outside the operand are `fill`."""
    shape = array_shape(operand)
    if may_lie_partly_outside(numbers, windows):
        config, moved = into_padding(indices, numbers, shape.dimensions, windows)
        return ops.gather(framed(operand, config, fill), moved, numbers, windows)
    slices = ops.gather(operand, indices, numbers, windows, is_sorted)
    inside = starts_in_bounds(indices, numbers, shape.dimensions, windows)
    result = array_shape(slices)
    outer = index_numbers.outer_dimensions(result.rank, numbers)
    spread = ops.broadcast_in_dim(inside, result.dimensions, outer)
    return ops.select(spread, slices, splat(fill, result))
