"""The way back over a loop whose number of iterations N is not known while tracing.

It cuts the iterations into blocks of B. It keeps the states before some blocks in S slots, used as
a stack; to go back over the block before which it stands it computes the B states in it again, and
then applies the body's reverse derivative from the last to the first. A part of n blocks whose
first state is in the top slot, with f slots free, is cut where the second part can be gone back
over with f - 1 free slots in as many repetitions r as the whole needs; C(f + r, r) blocks need no
more than r (Griewank, Achieving logarithmic growth of temporal and spatial complexity in reverse
automatic differentiation, 1992). Memory is that of S + B states, whatever N is. With S = B = 128 an
iteration is computed again at most twice up to N = 16,000 and three times up to a million
(1,073,280), the last of them in its block; states of more than a MiB get fewer slots, down to 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np

import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.shapes import Shape, ShapeList
from minixla.core.tracing import evaluate_graph
from minixla.typing import Array
from minixla_ops.control_flow import loops
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.runs_programs import split

# Slots, and states in a block; fewer where so many states would be larger than this.
_MOST_STATES, _FEWEST_STATES, _STATE_BYTES = 128, 16, 1 << 27


def back_in_blocks(
    advance: Graph,
    pull: Callable[..., list[Array]],
    trips: Array,
    first: Sequence[Array],
    fixed: Sequence[Array],
    after: Sequence[Array],
) -> list[Array]:
    """The cotangents before the first of `trips` iterations from those after the last."""
    # An iteration advances from the state before it, and the constants `fixed` of the loop, to that
    # after it, and pulls cotangents back by the same. `first` is the state before the first one.
    shapes = list(map(array_shape, first))
    width, size = len(first), _number_of_states(shapes)
    block, one, zero = np.int32(size), np.int32(1), np.int32(0)
    capacities, empty = (
        _capacities(size),
        [zeros(shape.with_dimension(0, size)) for shape in shapes],
    )

    def record(index: Array, carried: Sequence[Array], fixed: Sequence[Array]) -> list[Array]:
        state, blocks = split(carried, width)
        kept = loops.with_elements(blocks, state, index)
        return [*evaluate_graph(advance, [*state, *fixed]), *kept]

    def retreat(
        index: Array, cotangents: Sequence[Array], elements: Sequence[Array]
    ) -> list[Array]:
        (last,), blocks, fixed = split(elements, 1, width)
        return pull([*[loops.element(block, last - index) for block in blocks], *fixed], cotangents)

    def next_part(top: Array, end: Array, trips: Array, starts: Array, *rest: Array) -> list[Array]:
        slots, fixed, cotangents = split(rest, width, len(fixed_shapes))
        start = loops.element(starts, top)
        is_block = ops.le(end - start, one)
        last = ops.select(is_block, one, zero)
        second = _second_part(capacities, end - start, np.int32(size - 1) - top)
        skipped = ops.max(end - start - second, one)
        steps = ops.select(is_block, ops.min(trips - start * block, block), skipped * block)
        state = [loops.element(slot, top) for slot in slots]
        # Of a block's last iteration only the state before it is wanted.
        state, blocks = split(loops.repeat(steps - last, record, [*state, *empty], fixed), width)
        values = [steps - one, *loops.with_elements(blocks, state, steps - last), *fixed]
        cotangents = loops.repeat(steps * last, retreat, cotangents, values)
        above = top + one  # beyond the slots in use, so that what a block leaves there is not read
        return [
            ops.select(is_block, top - one, above),
            ops.select(is_block, start, end),
            trips,
            *loops.with_elements([starts, *slots], [start + skipped, *state], above),
            *fixed,
            *cotangents,
        ]

    fixed_shapes = list(map(array_shape, fixed))
    blocks = ops.div(trips + np.int32(size - 1), block)
    slots = loops.with_elements(empty, first, 0)
    starts = np.zeros(size, np.int32)
    init = [ops.min(blocks, one) - one, blocks, trips, starts, *slots, *fixed, *after]
    return list(ops.while_(lambda top, *_: ops.ge(top, zero), next_part, init)[-len(after) :])


def _second_part(capacities: np.ndarray, length: Array, free: Array) -> Array:
    """How many of `length` blocks at most come after the next cut, with `free` slots."""
    too_few = ops.lt(loops.element(capacities.T, free), length)
    repetitions = sum_over(ops.convert_element_type(too_few, "s32"), [0])
    return loops.element(loops.element(capacities.T, free - 1), repetitions)


def _capacities(size: int) -> np.ndarray:
    """How many blocks can be gone back over in r repetitions with f slots free, at [r, f]."""
    rows, most = [], 2**31 - 1
    while not rows or rows[-1][-1] * size < most:
        r = len(rows)
        rows.append([comb(f + r, r) for f in range(size)])
    return np.minimum(np.array(rows, object), most).astype(np.int32)


def _number_of_states(shapes: Sequence[Shape]) -> int:
    """How many slots there are for states, and states in a block."""
    fitting = _STATE_BYTES // (bytes_of(shapes) or 1)
    return sorted((_FEWEST_STATES, fitting, _MOST_STATES))[1]


def bytes_of(shapes: ShapeList) -> int:
    """How much memory the arrays of such shapes take."""
    return sum(s.size * s.dtype.itemsize for s in shapes if isinstance(s, Shape))
