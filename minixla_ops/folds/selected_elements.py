"""SelectAndScatter as a program: the selected elements of windows, and the scatter to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import minixla_ops as ops
from minixla.core import Graph, Shape
from minixla.core.element_types import S32
from minixla.typing import Array, ArrayLike
from minixla_ops.folds.fold_programs import fold_in_order, spread_mask, started
from minixla_ops.folds.reduce_window import window_elements
from minixla_ops.folds.sliding_windows import Window, dilated_size
from minixla_ops.helpers.shorthand import array_shape, full_like, splat
from minixla_ops.movement.slicing import pad_with_zeros
from minixla_ops.programs.computations import apply_computation, padding_element


def selected_elements(operand: Array, select: Graph, window: Window) -> ArrayLike:
    """Return the index of the selected element for each window position, s32; -1 for no element."""
    elements = window_elements(operand, window)
    shape = array_shape(elements[0])
    numbers, sizes = shape.with_element_type(S32), shape.dimensions
    there, *others = window.present(array_shape(operand).dimensions)
    best, chosen = elements[0], splat(0, numbers)
    if not there.all():
        chosen = ops.select(spread_mask(there, sizes), chosen, splat(-1, numbers))
    for number, (element, here) in enumerate(zip(elements[1:], others, strict=True), 1):
        (stays,) = apply_computation(select, [best, element])
        if not (there & here).all():
            # If one of the two is missing, take the other.
            missing = spread_mask(~here, sizes)
            stays = ops.select(spread_mask(there & here, sizes), stays, missing)
        best = ops.select(stays, best, element)
        chosen = ops.select(stays, chosen, splat(number, numbers))
        there = there | here
    return chosen


def scatter_to_selected(
    scatter: Graph, window: Window, base: Shape, chosen: ArrayLike, source: Array, initial: Array
) -> Array:
    """Scatter to the selected elements, with every `scatter` in the same order.

    `chosen` are the indices of the selected elements.
    """
    result = ops.broadcast_in_dim(initial, base.dimensions, ())
    if base.size == 0 or array_shape(source).size == 0:
        return result
    if not window.overlaps:
        hits, values = _spread(chosen, source, window, base)
        return ops.select(hits, apply_computation(scatter, [result, values])[0], result)
    numbered, counts = [*enumerate(window.offsets())], array_shape(chosen).dimensions
    placings = [_placing(offset, window, counts, base.dimensions) for _, offset in numbered]
    are_chosen = [ops.eq(chosen, splat(number, array_shape(chosen))) for number, _ in numbered]
    # Later window positions reach a target through earlier elements of the window.
    rows = [*zip(are_chosen, placings, strict=True)][::-1]
    nothing = padding_element(scatter, base.element_type)
    if nothing is not None:
        others = full_like(source, nothing.item())
        values = (
            [ops.pad(ops.select(is_chosen, source, others), nothing, config)]
            for is_chosen, config in rows
        )
        (total,) = fold_in_order(scatter, values, next(values), base.dimensions)
        return started(scatter, initial, total)
    for is_chosen, config in rows:
        hits, values = (pad_with_zeros(array, config) for array in (is_chosen, source))
        result = ops.select(hits, apply_computation(scatter, [result, values])[0], result)
    return result


def _placing(
    offset: Sequence[int], window: Window, counts: Sequence[int], base: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return the padding that moves the window's positions to the element at `offset`."""
    config = []
    columns = zip(offset, window.strides, window.padding, counts, base, strict=True)
    for at, stride, (low, _), count, size in columns:
        start = at - low
        config.append((start, size - start - dilated_size(count, stride), stride - 1))
    return config


def _spread(chosen: ArrayLike, source: Array, window: Window, base: Shape) -> tuple[Array, Array]:
    """Return, for windows that do not overlap, a mask of the selected elements and their values.

    Each position is repeated over the cells of a stride; the window covers the first cells.
    """
    counts = array_shape(chosen).dimensions
    rank = len(counts)
    # Dimensions alternate: position, cell, position, cell ...
    cells = [size for pair in zip(counts, window.strides, strict=True) for size in pair]
    numbers = np.full(window.strides, -2, np.int32)
    inside = tuple(slice(0, size) for size in window.sizes)
    numbers[inside] = np.arange(math.prod(window.sizes)).reshape(window.sizes)
    numbers_of_cells = ops.broadcast_in_dim(numbers, cells, range(1, 2 * rank, 2))
    hits = ops.eq(ops.broadcast_in_dim(chosen, cells, range(0, 2 * rank, 2)), numbers_of_cells)
    values = ops.broadcast_in_dim(source, cells, range(0, 2 * rank, 2))
    spans = [count * stride for count, stride in zip(counts, window.strides, strict=True)]
    config = [
        (-low, size + low - span, 0)
        for (low, _), size, span in zip(window.padding, base.dimensions, spans, strict=True)
    ]
    hits, values = (pad_with_zeros(ops.reshape(array, spans), config) for array in (hits, values))
    return hits, values
