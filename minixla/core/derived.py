"""The derivatives and the batched form of a program, cached with the program."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from minixla.core.batching import BatchTrace
from minixla.core.errors import TransformError, explain
from minixla.core.forward import ForwardTrace, has_tangent
from minixla.core.graph import Graph, Value, remembered
from minixla.core.linear import spread
from minixla.core.residuals import with_fewer_residuals
from minixla.core.reverse import ReverseTrace
from minixla.core.state import state
from minixla.core.tracing import GraphTrace, Trace, evaluate_graph, trace_to_graph, tracing, under
from minixla.core.value_types import Array


class EnteredGraph(NamedTuple):
    """A graph on the parts of values, and the knowledge about the original outputs."""

    graph: Graph
    known: tuple[Any, ...]


def entered_graph(
    graph: Graph, trace: Trace, known: tuple[Any, ...], wanted: tuple[Any, ...] | None = None
) -> EnteredGraph:
    """Run `graph` under a trace made by `trace.again`; all traces enter programs this way."""
    # `known` describes each input; `wanted` each output if it is less than the trace finds.
    key = trace.memo_key, known, wanted
    is_kept = trace.memo_key is not None
    if is_kept and key in graph.memo:  # not `graph.remembered`, which needs a frame
        return graph.memo[key]
    shapes = [trace.shapes_of(*pair) for pair in zip(graph.input_shapes, known, strict=True)]
    found: list[object] = []

    def function(*arguments: Array) -> list[Array]:
        inner, remaining = trace.again(state.trace), iter(arguments)
        parts = [[next(remaining) for _ in shape] for shape in shapes]
        rows = zip(parts, known, graph.input_shapes, strict=True)
        inputs = [inner.put_together(x, k) if x else inner.absent(shape) for x, k, shape in rows]
        with under(inner):
            outputs = evaluate_graph(graph, inputs)
        if wanted is None:
            taken = [inner.output_apart(output) for output in outputs]
        else:
            pairs = zip(outputs, wanted, strict=True)
            taken = [(inner.parts_as_known(output, state), state) for output, state in pairs]
        inner.alive = False
        found.extend([state for _, state in taken])
        return [value for values, _ in taken for value in values]

    flat = [shape for parts_shapes in shapes for shape in parts_shapes]
    made, captured = trace_to_graph(function, flat, f"{trace.prefix}_{graph.name}")
    _refuse_captured(graph, captured)
    entered = EnteredGraph(made.pruned(), tuple(found))
    if is_kept:
        graph.memo[key] = entered
    return entered


@remembered
def jvp_graph(graph: Graph, active: tuple[bool, ...]) -> EnteredGraph:
    """Build the graph from primals and active tangents to results and their known tangents."""
    made, moving = entered_graph(graph, ForwardTrace(None), active)
    inputs, outputs = _tangents_last(made.inputs, active), _tangents_last(made.outputs, moving)
    ordered = Graph(inputs, made.instructions, outputs, made.name)
    return EnteredGraph(ordered.pruned(), moving)


def _tangents_last(values: Sequence[Value], active: Sequence[bool]) -> list[Value]:
    """Move each tangent, which follows its primal, behind all primals."""
    remaining = iter(values)
    pairs = [(next(remaining), next(remaining) if flag else None) for flag in active]
    return [primal for primal, _ in pairs] + [t for _, t in pairs if t is not None]


class ReverseGraphs(NamedTuple):
    """The two halves of a reverse derivative."""

    # `forward` returns the results and the inputs of `backward`. `backward` also takes a cotangent
    # for each active output, and returns one for each active input; others are always zero.
    forward: Graph
    backward: Graph
    active_outputs: tuple[bool, ...]
    active_inputs: tuple[bool, ...]


@remembered
def vjp_graphs(graph: Graph, active: tuple[bool, ...]) -> ReverseGraphs:
    """Build the reverse derivative of `graph` for the inputs marked in `active`."""
    forward = GraphTrace(state.trace)
    reverse = ReverseTrace(forward)
    backward = GraphTrace(forward)
    primals = [forward.add_input(shape) for shape in graph.input_shapes]
    wanted = [flag and has_tangent(primal) for flag, primal in zip(active, primals, strict=True)]
    inputs = [reverse.add_input(p) if flag else p for p, flag in zip(primals, wanted, strict=True)]
    with tracing(forward):
        with tracing(reverse):
            outputs = evaluate_graph(graph, inputs)
        mine = list(map(reverse.is_own, outputs))
        results = [
            output.value if flag else output for output, flag in zip(outputs, mine, strict=True)
        ]
        cotangents = [
            backward.add_input(result._shape) if flag else None
            for result, flag in zip(results, mine, strict=True)
        ]
        with tracing(backward):
            tracers = [value for value, flag in zip(inputs, wanted, strict=True) if flag]
            gradients = spread(wanted, reverse.pull(outputs, cotangents, tracers))
            kept = [gradient for gradient in gradients if gradient is not None]
            second = backward.graph(kept, f"vjp_{graph.name}")
        first = forward.graph([*results, *backward.captured], f"forward_{graph.name}")
    _refuse_captured(graph, forward.captured)
    first, second = with_fewer_residuals(first.pruned(), second.pruned(), len(results))
    return ReverseGraphs(
        first, second, tuple(mine), tuple(gradient is not None for gradient in gradients)
    )


def _refuse_captured(graph: Graph, captured: Sequence[object]) -> None:
    """Raise TransformError if a user's rule makes a derived program that is not closed."""
    if captured:
        problem = "a custom derivative rule in it reads a traced value of an enclosing function"
        advice = "A jitted function is transformed separately: pass the value to it, and to the "
        advice += "function that has the rule, as an argument."
        details = [f"captured: {tracer!r}" for tracer in captured]
        raise explain(TransformError, graph.name, problem, details, advice)


def batched_graph(graph: Graph, dimensions: tuple[int | None, ...], size: int) -> EnteredGraph:
    """Batch `graph` with `size`; `dimensions` and `known` are the batch dimensions, or None."""
    return entered_graph(graph, BatchTrace(None, size), dimensions)
