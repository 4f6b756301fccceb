"""The reverse derivative of While, made of loops, so that it has derivatives and batches itself.

Where the number of iterations N is known while tracing, the loop keeps what its body's reverse
derivative needs (residuals) of each iteration, and another loop walks back.

Elsewhere the loop counts its iterations and keeps its first values only. The way back cuts the
iterations into blocks of B. It keeps the states before some blocks in S slots, used as a stack; to
go back over the block before which it stands it computes the B states in it again, and then applies
the body's reverse derivative from the last to the first. A part of n blocks whose first state is in
the top slot, with f slots free, is cut where the second part can be gone back over with f - 1 free
slots in as many repetitions r as the whole needs; C(f + r, r) blocks need no more than r
(Griewank, Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation, 1992). Memory is that of S + B states, whatever N is. With S = B = 128 an iteration
is computed again at most twice up to N = 16,000 and three times up to a million (1,073,280), the
last of them in its block; states of more than a MiB get fewer slots, down to 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from math import comb
from typing import Any, NamedTuple

import numpy as np

import minixla_ops as ops
from minixla.core.derived import ReverseGraphs, call_vjp_graphs, vjp_graphs
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, Value
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import evaluate_graph
from minixla_ops.control_flow import loops
from minixla_ops.control_flow.loop_trips import Trips, known_trips, written_once
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.runs_programs import (
    Flags,
    constants_of,
    grown,
    instantiated,
    merged,
    parted,
    pulled_back,
    read_inputs,
    split,
    two_halves,
)
from minixla_ops.vocabulary.shorthand import array_shape, zeros

# Slots, and states in a block; fewer where so many states would be larger than this.
_MOST_STATES, _FEWEST_STATES, _STATE_BYTES = 128, 16, 1 << 27
# Residuals of loops whose number of iterations is known are kept up to this size.
_KEPT_BYTES = 1 << 30


def linearize_while(
    condition: Graph, body: Graph, operands: Sequence[Any], active: Sequence[bool]
) -> tuple[Any, Callable[..., Any]]:
    """The results of a While and its pullback; see `Operation.linearize`."""
    trips = known_trips(condition, body, operands)
    if trips is not None and trips.count == 0:
        return tuple(operands), lambda cotangents: list(map(cotangents.get, range(len(operands))))
    given = tuple(flag and has_tangent(o) for o, flag in zip(operands, active, strict=True))
    key = ("while_vjp", condition, given, trips)
    graphs = body.remembered(key, _while_vjp_graphs, condition, body, given, trips)
    return call_vjp_graphs(graphs, operands)


def _while_vjp_graphs(
    condition: Graph, body: Graph, given: Flags, trips: Trips | None
) -> ReverseGraphs:
    step = _step(body, given, trips)
    active = step.active
    has_side_effect = condition.silent().has_side_effect or body.silent().has_side_effect
    if trips is not None and (has_side_effect or trips.count * step.varying_bytes <= _KEPT_BYTES):
        forward, backward = _with_residuals_kept(step, trips.count)
    elif has_side_effect:
        raise explain(
            DerivativeError,
            "while_",
            "the reverse derivative would repeat the loop's side effects",
            ["the number of its iterations is not known while tracing"],
            "Count the iterations from a constant to a constant, so that all of them are kept; or "
            "move the side effects (random numbers, callbacks) out of the loop.",
        )
    else:
        # What is computed again is not shown again.
        quiet = _step(body.silent(), given, trips)
        forward, backward = _with_states_recomputed(condition, body, quiet)
    wanted = list(compress(backward.outputs, compress(given, active)))
    backward = Graph(backward.inputs, backward.instructions, wanted, backward.name).pruned()
    return ReverseGraphs(forward, backward, active, given)


class _Step(NamedTuple):
    """One iteration and its reverse derivative.

    Attributes:
        body: the loop's body.
        active: which of its values have cotangents.
        halves: the reverse derivative of the body with respect to these.
        unchanged: of which values the cotangent stays as it is.
    """

    body: Graph
    active: Flags
    halves: ReverseGraphs
    unchanged: list[bool]

    @property
    def residuals(self) -> tuple[Value, ...]:
        """What the second half needs, as values of the first."""
        return self.halves.forward.outputs[len(self.active) :]

    @property
    def fixed(self) -> list[bool]:
        """Which residuals are the same in all iterations."""
        known = _fixed_values(self.halves.forward, constants_of(self.body))
        return [id(value) in known for value in self.residuals]

    @property
    def varying_bytes(self) -> int:
        """The size of the residuals of one iteration."""
        return _bytes([value.shape for value in parted(self.fixed, self.residuals)[1]])

    def pull(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the active values before an iteration from those after it."""
        after = spread(self.active, cotangents)
        before = pulled_back(self.halves, residuals, after)
        rows = zip(self.unchanged, after, before, strict=True)
        pulled = [new if same else old for same, new, old in rows]
        return instantiated(self.active, pulled, self.body.input_shapes)


def _step(body: Graph, given: Flags, trips: Trips | None) -> _Step:
    active = grown(given, len(given), lambda flags: vjp_graphs(body, flags).active_outputs)
    # The cotangent of such a value before an iteration differs from that after it in the part that
    # the iteration writes, which nobody reads again unless the first value's is wanted.
    once = [False] * len(given) if trips is None else written_once(body, trips)
    unchanged = [a and not b for a, b in zip(once, given, strict=True)]
    return _Step(body, active, vjp_graphs(body, active), unchanged)


def _fixed_values(graph: Graph, constants: Sequence[bool]) -> set[int]:
    """The values, by id, that depend on the inputs marked in `constants` alone."""
    known = set(map(id, compress(graph.inputs, constants)))
    for step in graph.instructions:
        if all(id(each) in known for each in step.operands) and not step.has_side_effect:
            known.update(map(id, step.results))
    return known


# Where the number of iterations is known.


def _with_residuals_kept(step: _Step, trips: int) -> tuple[Graph, Graph]:
    body, forward = step.body, step.halves.forward
    count, constants, fixed = len(body.inputs), constants_of(body), step.fixed
    known = _fixed_values(forward, constants)
    hoisted = [
        each
        for each in forward.instructions
        if each.results and all(id(v) in known for v in each.results)
    ]
    kept, varying = parted(fixed, step.residuals)
    fixed_part = Graph(forward.inputs, hoisted, kept, forward.name).pruned()
    moving = constants.count(False)

    def run(index: Any, carried: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        outputs = evaluate_graph(forward, merged(constants, given, carried[:moving]))
        pairs = zip(carried[moving:], parted(fixed, outputs[count:])[1], strict=True)
        stacks = [loops.with_element(*pair, index) for pair in pairs]
        return [*parted(constants, outputs[:count])[1], *stacks]

    def first(*init: Any) -> list[Any]:
        given, changing = parted(constants, init)
        stacks = [zeros(_stacked(value.shape, trips)) for value in varying]
        carried = loops.repeat(trips, run, [*changing, *stacks], given)
        results = merged(constants, given, carried[:moving])
        return [*results, *evaluate_graph(fixed_part, init), *carried[moving:]]

    def pull(index: Any, cotangents: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        last = np.int32(trips - 1)
        residuals = [loops.element(stack, last - index) for stack in given[len(kept) :]]
        return step.pull(merged(fixed, given, residuals), cotangents)

    def second(*given: Any) -> list[Any]:
        residuals = given[: len(fixed)]
        return loops.repeat(trips, pull, given[len(fixed) :], residuals)

    return two_halves(first, second, body.input_shapes, step.active, body.name)


# Where it is not.


def _with_states_recomputed(condition: Graph, shown: Graph, step: _Step) -> tuple[Graph, Graph]:
    """The halves; `shown` is the step's body with what shows values."""
    body = step.body
    constants, needed = constants_of(body), _needed(step)
    state = [index for index in needed if not constants[index]]
    chosen = [*state, *(index for index in needed if constants[index])]
    advance = _part(body, chosen, [body.outputs[index] for index in state])
    recompute = _part(step.halves.forward, chosen, step.residuals)

    def first(*init: Any) -> list[Any]:
        trips, *results = ops.while_(
            lambda _, *values: evaluate_graph(condition, values),
            lambda trips, *values: [trips + np.int32(1), *evaluate_graph(shown, values)],
            [np.int32(0), *init],
        )
        return [*results, trips, *[init[index] for index in chosen]]

    def second(trips: Any, *rest: Any) -> list[Any]:
        states, fixed, cotangents = split(rest, len(state), len(chosen) - len(state))
        if state:
            return _back_in_blocks(step, advance, recompute, trips, states, fixed, cotangents)

        def pull(_: Any, cotangents: Sequence[Any], fixed: Sequence[Any]) -> list[Any]:
            return step.pull(evaluate_graph(recompute, fixed), cotangents)

        return loops.repeat(trips, pull, cotangents, fixed)

    return two_halves(first, second, body.input_shapes, step.active, body.name)


def _needed(step: _Step) -> list[int]:
    """Which of the loop's values an iteration must be computed from again."""
    needed: set[int] = set()
    more = read_inputs(step.halves.forward, step.residuals)
    while not more <= needed:
        needed |= more
        more = read_inputs(step.body, [step.body.outputs[index] for index in needed])
    return sorted(needed)


def _part(graph: Graph, inputs: Sequence[int], outputs: Sequence[Value]) -> Graph:
    """The program of some of the outputs, which depend on no other inputs."""
    chosen = [graph.inputs[index] for index in inputs]
    return Graph(chosen, graph.instructions, outputs, graph.name).pruned()


def _back_in_blocks(
    step: _Step,
    advance: Graph,
    recompute: Graph,
    trips: Any,
    first: Sequence[Any],
    fixed: Sequence[Any],
    cotangents: Sequence[Any],
) -> list[Any]:
    """The cotangents before the first iteration from those after the last.

    Args:
        step: one iteration.
        advance: from the state before an iteration, and `fixed`, to that after it.
        recompute: from the same to the residuals.
        trips: the number of iterations.
        first: the state before the first.
        fixed: constants of the loop.
        cotangents: those after the last.
    """
    shapes = list(map(array_shape, first))
    width, size = len(first), _number_of_states(shapes)
    block, one, zero = np.int32(size), np.int32(1), np.int32(0)
    capacities = _capacities(size)

    def record(index: Any, carried: Sequence[Any], fixed: Sequence[Any]) -> list[Any]:
        state, blocks = split(carried, width)
        kept = [loops.with_element(*pair, index) for pair in zip(blocks, state, strict=True)]
        return [*evaluate_graph(advance, [*state, *fixed]), *kept]

    def pull(index: Any, cotangents: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        (last,), blocks, fixed = split(given, 1, width)
        state = [loops.element(each, last - index) for each in blocks]
        return step.pull(evaluate_graph(recompute, [*state, *fixed]), cotangents)

    def unfinished(top: Any, *_: Any) -> Any:
        return ops.ge(top, zero)

    def next_part(top: Any, end: Any, trips: Any, starts: Any, *rest: Any) -> list[Any]:
        slots, fixed, cotangents = split(rest, width, len(fixed_shapes))
        start = loops.element(starts, top)
        is_block = ops.le(end - start, one)
        last = ops.select(is_block, one, zero)
        second = _second_part(capacities, end - start, np.int32(size - 1) - top)
        skipped = ops.max(end - start - second, one)
        steps = ops.select(is_block, ops.min(trips - start * block, block), skipped * block)
        empty = [zeros(_stacked(shape, size)) for shape in shapes]
        state = [loops.element(slot, top) for slot in slots]
        # Of a block's last iteration only the state before it is wanted.
        state, blocks = split(loops.repeat(steps - last, record, [*state, *empty], fixed), width)
        blocks = [
            loops.with_element(*pair, steps - last) for pair in zip(blocks, state, strict=True)
        ]
        given = [steps - one, *blocks, *fixed]
        cotangents = loops.repeat(steps * last, pull, cotangents, given)
        above = top + one  # beyond the slots in use, so that what a block leaves there is not read
        return [
            ops.select(is_block, top - one, above),
            ops.select(is_block, start, end),
            trips,
            loops.with_element(starts, start + skipped, above),
            *[loops.with_element(*pair, above) for pair in zip(slots, state, strict=True)],
            *fixed,
            *cotangents,
        ]

    fixed_shapes = list(map(array_shape, fixed))
    blocks = ops.div(trips + np.int32(size - 1), block)
    slots = [
        loops.with_element(zeros(_stacked(shape, size)), x, 0)
        for shape, x in zip(shapes, first, strict=True)
    ]
    starts = np.zeros(size, np.int32)
    init = [ops.min(blocks, one) - one, blocks, trips, starts, *slots, *fixed, *cotangents]
    return list(ops.while_(unfinished, next_part, init)[-len(cotangents) :])


def _second_part(capacities: np.ndarray, length: Any, free: Any) -> Any:
    """How many of `length` blocks at most come after the next cut, with `free` slots."""
    column = ops.reshape(
        ops.dynamic_slice(capacities, [0, free], (len(capacities), 1)), capacities.shape[:1]
    )
    too_few = ops.convert_element_type(ops.lt(column, length), "s32")
    return ops.reshape(
        ops.dynamic_slice(capacities, [sum_over(too_few, [0]), free - 1], (1, 1)), ()
    )


def _capacities(size: int) -> np.ndarray:
    """How many blocks can be gone back over in r repetitions with f slots free, at [r, f]."""
    rows, most = [], 2**31 - 1
    while not rows or rows[-1][-1] * size < most:
        r = len(rows)
        rows.append([comb(f + r, r) for f in range(size)])
    return np.minimum(np.array(rows, object), most).astype(np.int32)


def _number_of_states(shapes: Sequence[Shape]) -> int:
    """How many slots there are for states, and states in a block."""
    fitting = _STATE_BYTES // (_bytes(shapes) or 1)
    return sorted((_FEWEST_STATES, fitting, _MOST_STATES))[1]


# Arrays whose rows belong to iterations.


def _bytes(shapes: Sequence[AnyShape]) -> int:
    return sum(s.size * s.dtype.itemsize for s in shapes if isinstance(s, Shape))


def _stacked(shape: AnyShape, count: int) -> AnyShape:
    assert isinstance(shape, Shape), f"{shape} is not an array"
    return shape.with_dimensions((count, *shape.dimensions))
