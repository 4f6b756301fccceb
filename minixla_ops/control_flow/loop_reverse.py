"""The reverse derivative of While and Scan, composed of the same operations.

Therefore, it has derivative and batching rules. If the number of iterations N is known while
tracing, a scan stores the residuals of each iteration, and another scan runs backwards. Otherwise
the loop counts its iterations and stores only its initial values; see `loop_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np

import minixla_ops as ops
from minixla.core.derived import ReverseGraphs, vjp_graphs
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, Value, remembered
from minixla.core.linear import spread
from minixla.core.reverse import Pullback
from minixla.core.shapes import ShapeList
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla.core.tracing import evaluate_graph, shape_of
from minixla.typing import Array
from minixla_ops.control_flow import loops, scan
from minixla_ops.control_flow.loop_blocks import back_in_blocks, bytes_of
from minixla_ops.control_flow.loop_trips import Trips, known_trips, written_once
from minixla_ops.programs import runs_programs as running
from minixla_ops.programs.runs_programs import Flags, constants_of, parted, program, split

# Store residuals of loops with a known number of iterations up to this size.
_KEPT_BYTES = 1 << 30


def linearize_while(
    condition: Graph, body: Graph, operands: Sequence[Array], active: Sequence[bool]
) -> tuple[tuple[Array, ...], Pullback]:
    """Return the results of a While and its pullback; see `Operation.linearize`."""
    trips = known_trips(condition, body, operands)
    graphs = _while_vjp_graphs(body, condition, _with_tangent(operands, active), trips)
    return call_vjp_graphs(graphs, operands)


def linearize_scan(
    operation: scan.Scan, operands: Sequence[Array], active: Sequence[bool]
) -> tuple[tuple[Array, ...], Pullback]:
    """Return the results of a Scan and its pullback; see `Operation.linearize`."""
    arguments = operation, _with_tangent(operands, active), tuple(map(shape_of, operands))
    return call_vjp_graphs(_scan_vjp_graphs(operation.to_apply, *arguments), operands)


def _with_tangent(operands: Sequence[object], active: Sequence[bool]) -> Flags:
    return tuple([flag and has_tangent(o) for o, flag in zip(operands, active, strict=True)])


@remembered
def _while_vjp_graphs(
    body: Graph, condition: Graph, active: Flags, trips: Trips | None
) -> ReverseGraphs:
    once = [False] * len(active) if trips is None else written_once(body, trips)
    has_side_effect = condition.silent().has_side_effect or body.silent().has_side_effect
    if trips is not None:
        step, loop = _Step(body, active, once), scan.Scan(body, len(active), trips.count)
        varying = parted(step.fixed, step.residuals)[1]
        if has_side_effect or trips.count * bytes_of([v.shape for v in varying]) <= _KEPT_BYTES:
            return _with_residuals_kept(loop, step, body.input_shapes)
    if has_side_effect:
        problem = "the reverse derivative would repeat the loop's side effects"
        details = ["the number of iterations is unknown while tracing"]
        advice = "move side effects (random numbers, callbacks) out of the loop."
        kept = "Count the iterations from a constant to a constant, so that residuals are stored"
        advice = f"{kept}; or {advice}"
        raise explain(DerivativeError, "while_", problem, details, advice)
    # Recomputed values are not displayed again.
    return _with_states_recomputed(condition, body, _Step(body.silent(), active, once))


@remembered
def _scan_vjp_graphs(
    to_apply: Graph, it: scan.Scan, active: Flags, shapes: ShapeList
) -> ReverseGraphs:
    return _with_residuals_kept(it, _Step(to_apply, active, [False] * it.carries), shapes)


class _Step:
    """A repeated program and its reverse derivative.

    The last outputs of `program`, the carries, are its last inputs in the next iteration. The first
    carry has index `count` among the inputs and `start` among the outputs. `given` marks the inputs
    to differentiate with respect to. `active` and `active_outputs` mark the values with cotangents
    over all iterations, and `halves` are the derivative with respect to these. The second half
    needs `residuals` from the first. Those that are `fixed` are equal in all iterations, and
    `fixed_part` computes them from the carries. Cotangents of `unchanged` carries do not change.
    """

    def __init__(self, program: Graph, active: Flags, once: Sequence[bool]) -> None:
        """Derive the program; `once` marks carries whose parts are each written once."""
        # A carry's cotangents before and after an iteration differ only in the part that
        # the iteration writes. That part is read again only if the initial value's cotangent is
        # wanted.
        carries, wanted = len(once), active[len(active) - len(once) :]
        self.program, self.given = program, active
        self.count, self.start = len(active) - carries, len(program.outputs) - carries
        self.active = running.grown(
            active, carries, lambda x: vjp_graphs(program, x).active_outputs
        )
        self.halves = vjp_graphs(program, self.active)
        of_results = self.halves.active_outputs[: self.start]
        self.active_outputs = (*of_results, *self.active[self.count :])
        self.unchanged = [
            is_once and not other for is_once, other in zip(once, wanted, strict=True)
        ]
        forward = self.halves.forward
        self.residuals = forward.outputs[len(program.outputs) :]
        inputs = forward.inputs[self.count :]
        constant_ids = set(map(id, compress(inputs, constants_of(program, carries))))
        hoisted = []
        for instruction in forward.instructions:
            if (
                all(id(value) in constant_ids for value in instruction.operands)
                and not instruction.has_side_effect
            ):
                constant_ids.update(map(id, instruction.results))
                hoisted.append(instruction)
        self.fixed = [id(value) in constant_ids for value in self.residuals]
        outputs = list(compress(self.residuals, self.fixed))
        self.fixed_part = Graph(inputs, hoisted, outputs, forward.name).pruned()

    def pull(self, residuals: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
        """Return the cotangents of the active inputs from those of the active outputs."""
        after = spread(self.active_outputs, cotangents)
        elements, before = split(running.pulled_back(self.halves, residuals, after), self.count)
        rows = zip(self.unchanged, after[self.start :], before, strict=True)
        carried = [new if same else old for same, new, old in rows]
        return running.instantiated(self.active, [*elements, *carried], self.program.input_shapes)

    def graphs(
        self,
        first: Callable[..., list[Array]],
        second: Callable[..., list[Array]],
        shapes: ShapeList,
    ) -> ReverseGraphs:
        """Build the halves for all iterations from functions, for operands with `shapes`."""
        # The second half takes the extra results of the first, and cotangents of active results.
        name, active = self.program.name, self.active_outputs
        forward = program(first, shapes, f"forward_{name}")
        results = forward.output_shapes
        taken = [*results[len(active) :], *compress(results, active)]
        wanted = list(compress(self.given, self.active))
        traced = lambda *values: list(compress(second(*values), wanted)), taken, f"vjp_{name}"
        return ReverseGraphs(forward, program(*traced), active, self.given)


def _with_residuals_kept(operation: scan.Scan, step: _Step, shapes: ShapeList) -> ReverseGraphs:
    """Build the halves for a known number of iterations, as scans."""
    forward, start = step.halves.forward, step.start
    inputs = {id(value): number for number, value in enumerate(forward.inputs[: step.count])}
    varying = parted(step.fixed, step.residuals)[1]
    # Stacks of residuals that are elements exist already.
    is_element = [id(value) in inputs for value in varying]
    elements, kept = parted(is_element, varying)
    results, carried, _ = split(forward.outputs, start, len(step.active) - step.count)
    # Compute residuals that are equal in all iterations only once.
    fixed_residuals = parted(step.fixed, step.residuals)[0]
    is_shared = [_is_computed(value) for value in fixed_residuals]
    shared = parted(is_shared, fixed_residuals)[0]
    outputs = [*results, *kept, *carried, *shared]
    advance = _with_inputs(forward, shared, outputs)
    carries = operation.carries + len(shared)

    def first(*operands: Array) -> list[Array]:
        fixed = evaluate_graph(step.fixed_part, operands[step.count :])
        inits = [*operands, *parted(is_shared, fixed)[0]]
        found = operation(*inits, to_apply=advance, carries=carries)
        results, stacks, carried, _ = split(found, start, len(kept), operation.carries)
        return [*results, *carried, *fixed, *[operands[inputs[id(v)]] for v in elements], *stacks]

    def back(*values: Array) -> list[Array]:
        counts = len(elements), len(kept), sum(step.active_outputs)
        *rows, cotangents, fixed = split(values, *counts)
        residuals = running.merged(step.fixed, fixed, running.merged(is_element, *rows))
        return [*step.pull(residuals, cotangents), *fixed]

    fixed_shapes = step.fixed_part.output_shapes
    active_shapes = compress(step.program.output_shapes, step.active_outputs)
    taken = [*[value.shape for value in (*elements, *kept)], *active_shapes, *fixed_shapes]
    retreat = program(back, taken, f"vjp_{forward.name}")

    def second(*values: Array) -> list[Array]:
        fixed, moving = split(values, len(fixed_shapes))
        carries = sum(step.active[step.count :]) + len(fixed)
        loop = scan.Scan(retreat, carries, operation.length, 0, not operation.is_reverse)
        return list(loop(*moving, *fixed)[: sum(step.active)])

    return step.graphs(first, second, shapes)


def _with_states_recomputed(condition: Graph, recorded: Graph, step: _Step) -> ReverseGraphs:
    """Build the halves for an unknown number of iterations; `recorded` also displays values."""
    body = step.program
    constants, needed = constants_of(body), _needed(step)
    kept, state = parted([constants[index] for index in needed], needed)
    chosen = [*state, *kept]
    advance = _part(body, chosen, [body.outputs[index] for index in state])
    recompute = _part(step.halves.forward, chosen, step.residuals)

    def first(*init: Array) -> list[Array]:
        def counted(trips: Array, *values: Array) -> list[Array]:
            return [trips + np.int32(1), *evaluate_graph(recorded, values)]

        def holds(_: object, *values: Array) -> list[Array]:
            return evaluate_graph(condition, values)

        trips, *results = ops.while_(holds, counted, [np.int32(0), *init])
        return [*results, trips, *[init[index] for index in chosen]]

    def pull(before: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
        return step.pull(evaluate_graph(recompute, before), cotangents)

    def second(trips: Array, *rest: Array) -> list[Array]:
        states, fixed, after = split(rest, len(state), len(chosen) - len(state))
        if state:
            return back_in_blocks(advance, pull, trips, states, fixed, after)
        return loops.repeat(
            trips, lambda _, carried, fixed_values: pull(fixed_values, carried), after, fixed
        )

    return step.graphs(first, second, body.input_shapes)


def _is_computed(value: Value) -> bool:
    """Return whether a value is the only result of an instruction, and not a constant."""
    step = value.instruction
    return step is not None and step.single and value.literal is None


def _with_inputs(graph: Graph, more: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    """Return the program of `outputs` with additional inputs `more`."""
    if not more:
        return Graph(graph.inputs, graph.instructions, outputs, graph.name).pruned()
    made_by = {id(value.instruction) for value in more}
    rest = [instruction for instruction in graph.instructions if id(instruction) not in made_by]
    part = Graph([*graph.inputs, *more], rest, outputs, graph.name)
    return program(lambda *values: evaluate_graph(part, values), part.input_shapes, graph.name)


def _needed(step: _Step) -> list[int]:
    """Return the indices of the loop values needed to recompute an iteration."""

    def read(graph: Graph, outputs: Sequence[Value]) -> set[int]:
        return set(running.own_inputs(_part(graph, range(len(graph.inputs)), outputs))[0])

    needed: set[int] = set()
    more = read(step.halves.forward, step.residuals)
    while not more <= needed:
        needed |= more
        more = read(step.program, [step.program.outputs[index] for index in needed])
    return sorted(needed)


def _part(graph: Graph, inputs: Sequence[int], outputs: Sequence[Value]) -> Graph:
    """Return the program of some outputs that depend only on these inputs."""
    chosen = [graph.inputs[index] for index in inputs]
    return Graph(chosen, graph.instructions, outputs, graph.name).pruned()
