"""The backward pass of a loop whose number of iterations N is unknown while tracing.

Iterations are cut into blocks of B. The states before some blocks are stored in S slots, used as a
stack. For each block, the B states are recomputed from the stored state. Then the body's reverse
derivative is applied from the last iteration to the first. Consider n blocks whose first state is
in the top slot, with f free slots. They are split such that the second part can be reversed with f
- 1 free slots in the r repetitions that the whole needs. C(f + r, r) blocks need at most r
repetitions (Griewank, Achieving logarithmic growth of temporal and spatial complexity in reverse
automatic differentiation, 1992). Memory holds S + B states for every N. If S = B = 128, iterations
are recomputed at most twice up to N = 16,000 and three times up to a million (1,073,280). This
includes the recomputation in its block. States larger than 1 MiB get fewer slots, down to 16.
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

# The number of slots, and of states in a block; reduced if the states would exceed these bytes.
_MOST_STATES, _FEWEST_STATES, _STATE_BYTES = 128, 16, 1 << 27


def back_in_blocks(
    advance: Graph,
    pull: Callable[..., list[Array]],
    trips: Array,
    first: Sequence[Array],
    fixed: Sequence[Array],
    after: Sequence[Array],
) -> list[Array]:
    """Pull cotangents back from after the last of `trips` iterations to before the first."""
    # `advance` computes the state after an iteration from the state before it and the loop's
    # constants `fixed`; `pull` pulls cotangents back from the same values. `first` is the initial
    # state.
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
        # For a block's last iteration, only the state before it is needed.
        state, blocks = split(loops.repeat(steps - last, record, [*state, *empty], fixed), width)
        values = [steps - one, *loops.with_elements(blocks, state, steps - last), *fixed]
        cotangents = loops.repeat(steps * last, retreat, cotangents, values)
        above = top + one  # beyond the slots in use, so that a block's leftovers are not read
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
    """Return the maximum number of `length` blocks after the next cut, with `free` slots."""
    too_few = ops.lt(loops.element(capacities.T, free), length)
    repetitions = sum_over(ops.convert_element_type(too_few, "s32"), [0])
    return loops.element(loops.element(capacities.T, free - 1), repetitions)


def _capacities(size: int) -> np.ndarray:
    """Return, at [r, f], the number of blocks reversible in r repetitions with f free slots."""
    rows, most = [], 2**31 - 1
    while not rows or rows[-1][-1] * size < most:
        r = len(rows)
        rows.append([comb(f + r, r) for f in range(size)])
    return np.minimum(np.array(rows, object), most).astype(np.int32)


def _number_of_states(shapes: Sequence[Shape]) -> int:
    """Return the number of slots for states, and of states in a block."""
    fitting = _STATE_BYTES // (bytes_of(shapes) or 1)
    return sorted((_FEWEST_STATES, fitting, _MOST_STATES))[1]


def bytes_of(shapes: ShapeList) -> int:
    """Return the memory size of arrays with these shapes."""
    return sum(s.size * s.dtype.itemsize for s in shapes if isinstance(s, Shape))
