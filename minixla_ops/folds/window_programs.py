"""Windows as programs of slices and pads: what windowed operations of any computation derive by.

The elements of a window are told apart by their offset; for each there is one value that holds,
for every position of the window, the element at that offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla_ops.folds.fold_programs import spread_mask
from minixla_ops.folds.sliding_windows import Window, dilated_size
from minixla_ops.programs.computations import apply_computation
from minixla_ops.vocabulary.shorthand import array_shape, splat, zeros


def window_elements(operand: Any, window: Window) -> list[Any]:
    """For each offset in the window, in row-major order, the elements there at all positions.

    Where the window's `present` is False they are arbitrary elements of the operand, so that
    computations meet no values that are not there.
    """
    base = array_shape(operand)
    positions = window.positions(base.dimensions)
    if base.size == 0 or math.prod(positions) == 0:
        return [zeros(base.with_dimensions(positions))] * math.prod(window.sizes)
    padded = _padded(operand, window)
    spans = [
        dilated_size(count, step) for count, step in zip(positions, window.strides, strict=True)
    ]
    return [
        ops.slice(padded, offset, list(map(sum, zip(offset, spans, strict=True))), window.strides)
        for offset in window.offsets()
    ]


def _padded(operand: Any, window: Window) -> Any:
    config = window.padding_config
    if not any(map(any, config)):
        return operand
    if all(low <= 0 and high <= 0 and not holes for low, high, holes in config):
        return ops.pad(operand, zeros(array_shape(operand).with_dimensions(())), config)
    first = ops.slice(operand, [0] * len(config), [1] * len(config))
    return ops.pad(operand, ops.reshape(first, ()), config)


def selected_elements(operand: Any, select: Graph, window: Window) -> Any:
    """For each position of the window the number of the offset whose element is selected, s32.

    The first element stays while `select(it, next)` is True, else the next takes its place. -1 is
    where the window meets no element.
    """
    elements = window_elements(operand, window)
    shape = array_shape(elements[0])
    numbers, sizes = shape.with_element_type(element_type("s32")), shape.dimensions
    there, *others = window.present(array_shape(operand).dimensions)
    best, chosen = elements[0], splat(0, numbers)
    if not there.all():
        chosen = ops.select(spread_mask(there, sizes), chosen, splat(-1, numbers))
    for number, (element, here) in enumerate(zip(elements[1:], others, strict=True), 1):
        (stays,) = apply_computation(select, [best, element])
        if not (there & here).all():
            # Where one of the two is missing, the other is taken.
            missing = spread_mask(~here, sizes)
            stays = ops.select(spread_mask(there & here, sizes), stays, missing)
        best = ops.select(stays, best, element)
        chosen = ops.select(stays, chosen, splat(number, numbers))
        there = there | here
    return chosen


def scatter_to_selected(
    select: Graph, scatter: Graph, window: Window, operand: Any, source: Any, initial: Any
) -> Any:
    """What SelectAndScatter computes, with every `scatter` in the same order."""
    base = array_shape(operand)
    result = ops.broadcast_in_dim(initial, base.dimensions, ())
    if base.size == 0 or array_shape(source).size == 0:
        return result
    chosen = selected_elements(operand, select, window)
    if not window.overlaps:
        hits, values = _spread(chosen, source, window, base)
        return ops.select(hits, apply_computation(scatter, [result, values])[0], result)
    # A place gets the values of later positions through earlier elements of the window.
    for number, offset in reversed(list(enumerate(window.offsets()))):
        is_chosen = ops.eq(chosen, splat(number, array_shape(chosen)))
        hits = _place(is_chosen, splat(False, Shape("pred")), offset, window, base)
        values = _place(source, zeros(base.with_dimensions(())), offset, window, base)
        result = ops.select(hits, apply_computation(scatter, [result, values])[0], result)
    return result


def _place(values: Any, filling: Any, offset: Sequence[int], window: Window, base: Shape) -> Any:
    """Values of the window's positions where the element at `offset` is, `filling` elsewhere."""
    config, counts = [], array_shape(values).dimensions
    columns = zip(offset, window.strides, window.padding, counts, base.dimensions, strict=True)
    for at, stride, (low, _), count, size in columns:
        start = at - low
        config.append((start, size - start - dilated_size(count, stride), stride - 1))
    return ops.pad(values, filling, config)


def _spread(chosen: Any, source: Any, window: Window, base: Shape) -> tuple[Any, Any]:
    """For windows that do not overlap: where the selected elements are, and their window's value.

    Each position is repeated over the stride's cells, of which the first are the window's.
    """
    counts = array_shape(chosen).dimensions
    rank = len(counts)
    # Dimensions alternate: position, cell, position, cell ...
    cells = [size for pair in zip(counts, window.strides, strict=True) for size in pair]
    numbers = np.full(window.strides, -2, np.int32)
    inside = tuple(slice(0, size) for size in window.sizes)
    numbers[inside] = np.arange(math.prod(window.sizes)).reshape(window.sizes)
    own = ops.broadcast_in_dim(numbers, cells, range(1, 2 * rank, 2))
    hits = ops.eq(ops.broadcast_in_dim(chosen, cells, range(0, 2 * rank, 2)), own)
    values = ops.broadcast_in_dim(source, cells, range(0, 2 * rank, 2))
    spans = [count * stride for count, stride in zip(counts, window.strides, strict=True)]
    config = [
        (-low, size + low - span, 0)
        for (low, _), size, span in zip(window.padding, base.dimensions, spans, strict=True)
    ]
    no, zero = splat(False, Shape("pred")), zeros(base.with_dimensions(()))
    return ops.pad(ops.reshape(hits, spans), no, config), ops.pad(
        ops.reshape(values, spans), zero, config
    )
