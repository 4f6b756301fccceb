"""Rows of operations with indices. Those out of bounds too: starts are clamped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import minixla_ops as ops
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import (
    INTEGERS,
    KINDS,
    small,
)
from tests.programs.draft import Draft
from tests.programs.fold_rows import monoid
from tests.programs.rows import Call, row

_STARTS = small(-2, 6)


@row("dynamic_slice")
def _dynamic_slice(d: Draft) -> Call:
    value = d.array()
    sizes = array_shape(value).dimensions
    kind = d.kind(INTEGERS)
    starts = [d.array((kind,), _STARTS, sizes=()) for _ in sizes]
    return (value, starts, [d.integer(0, size) for size in sizes]), {}


@row("dynamic_update_slice")
def _dynamic_update_slice(d: Draft) -> Call:
    (value, starts, sizes), _ = _dynamic_slice(d)
    update = d.array((str(array_shape(value).element_type),), sizes=sizes)
    return (value, update, starts), {}


class _Windows(NamedTuple):
    """Where windows of an array are taken or put."""

    window: list[int]
    dropped: list[int]
    mapped: list[int]
    offsets: list[int]
    vector_at: int
    batching: list[int]
    indices_batching: list[int]
    index_sizes: list[int]
    result_sizes: list[int]


def _windows(d: Draft, sizes: Sequence[int]) -> _Windows:
    rank = len(sizes)
    batching = [each for each in range(rank) if d.chance(5)]
    window = [1 if i in batching and s else d.integer(0, s) for i, s in enumerate(sizes)]
    dropped = [i for i in range(rank) if i not in batching and window[i] == 1 and d.chance()]
    mapped = d.shuffled([i for i in range(rank) if i not in batching and d.chance(3) is False])
    others = d.sizes((1, 0, 2))
    # The batch of the indices: sizes of their own, and those of the batching dimensions.
    named = d.shuffled([*[(size, None) for size in others], *[(sizes[i], i) for i in batching]])
    vector_at = d.integer(0, len(named))
    index_sizes = [size for size, _ in named]
    places = {i: at + (at >= vector_at) for at, (_, i) in enumerate(named) if i is not None}
    kept = [window[i] for i in range(rank) if i not in dropped and i not in batching]
    result_rank = len(named) + len(kept)
    offsets = sorted(d.shuffled(range(result_rank))[: len(kept)])
    batch, slices = iter(index_sizes), iter(kept)
    result = [next(slices) if i in offsets else next(batch) for i in range(result_rank)]
    if len(mapped) != 1 or vector_at != len(named) or d.chance():
        index_sizes = [*index_sizes[:vector_at], len(mapped), *index_sizes[vector_at:]]
    return _Windows(
        window,
        dropped,
        mapped,
        offsets,
        vector_at,
        batching,
        [places[i] for i in batching],
        index_sizes,
        result,
    )


@row("gather")
def _gather(d: Draft) -> Call | None:
    value = d.array(ranks=(2, 1, 3, 0))
    sizes = array_shape(value).dimensions
    w = _windows(d, sizes)
    if any(not sizes[i] for i in w.batching) or math.prod(w.result_sizes) > 200:
        return None
    numbers = ops.GatherDimensionNumbers(
        w.offsets, w.dropped, w.mapped, w.vector_at, w.batching, w.indices_batching
    )
    return (value, d.array(INTEGERS, _STARTS, sizes=w.index_sizes), numbers, w.window), {}


@row("scatter")
def _scatter(d: Draft) -> Call | None:
    kind = d.kind(KINDS)
    function, _, domain = monoid(d, kind, 40)
    value = d.array((kind,), domain, ranks=(2, 1, 3, 0))
    sizes = array_shape(value).dimensions
    w = _windows(d, sizes)
    if any(not sizes[i] for i in w.batching) or math.prod(w.result_sizes) > 200:
        return None
    numbers = ops.ScatterDimensionNumbers(
        w.offsets, w.dropped, w.mapped, w.vector_at, w.batching, w.indices_batching
    )
    # The interpreter applies a part of a window, XLA nothing, where it is not within bounds.
    room = min([sizes[i] - w.window[i] for i in w.mapped], default=0)
    starts = _STARTS if all(each == 1 for each in w.window) else small(0, room)
    indices = d.array(INTEGERS, starts, sizes=w.index_sizes)
    updates = d.array((kind,), domain, sizes=w.result_sizes)
    value = ops.reshape(value, sizes)  # the interpreter writes to the operand
    return (value, indices, updates, function, numbers), {}
