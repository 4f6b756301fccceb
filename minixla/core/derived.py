"""Programs made from programs: the derivative and the batched form of a graph.

Nested programs (Call, loop bodies, branches) are transformed by these; results are kept with the
graph that they were made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.errors import TransformError, explain
from minixla.core.forward import ForwardTrace, ForwardTracer, has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla.core.reverse import ReverseTrace, ReverseTracer
from minixla.core.roles import role
from minixla.core.tracing import (
    GraphTrace,
    Tracer,
    _state,
    evaluate_graph,
    trace_to_graph,
    tracing,
    under,
)

__all__ = [
    "BatchedGraph",
    "ForwardGraph",
    "ReverseGraphs",
    "batched_graph",
    "jvp_graph",
    "vjp_graphs",
]


class ForwardGraph(NamedTuple):
    """A graph from primals and tangents to results and tangents.

    Attributes:
        graph: inputs are all primals, then a tangent for each active one; outputs are all
            results, then a tangent for each marked in `active_outputs`.
        active_outputs: which results have a tangent that is not always zero.
    """

    graph: Graph
    active_outputs: tuple[bool, ...]


def jvp_graph(graph: Graph, active: tuple[bool, ...]) -> ForwardGraph:
    """The forward derivative of `graph` with respect to the inputs marked in `active`."""
    key = ("jvp", active)
    found = graph.memo.get(key)
    if found is None:
        found = graph.memo[key] = _make_jvp_graph(graph, active)
    return found


def _make_jvp_graph(graph: Graph, active: tuple[bool, ...]) -> ForwardGraph:
    shapes = graph.input_shapes
    count = len(shapes)
    active_outputs: list[bool] = []

    def function(*arguments: Any) -> list[Any]:
        trace = ForwardTrace(_state.trace)
        tangents = iter(arguments[count:])
        inputs = [
            ForwardTracer(trace, primal, next(tangents)) if flag else primal
            for primal, flag in zip(arguments, active, strict=False)
        ]
        with under(trace):
            outputs = evaluate_graph(graph, inputs)
        trace.alive = False
        mine = [type(each) is ForwardTracer and each._trace is trace for each in outputs]
        active_outputs.extend(mine)
        primals = [each.value if flag else each for each, flag in zip(outputs, mine, strict=True)]
        return primals + [each.tangent for each, flag in zip(outputs, mine, strict=True) if flag]

    extra = [shape for shape, flag in zip(shapes, active, strict=True) if flag]
    made, captured = trace_to_graph(function, [*shapes, *extra], f"jvp_{graph.name}")
    _refuse_captured(graph, captured)
    return ForwardGraph(made.pruned(), tuple(active_outputs))


class ReverseGraphs(NamedTuple):
    """The two halves of a reverse derivative.

    Attributes:
        forward: from the inputs to the results and what the second half needs.
        backward: from that and a cotangent for each of `active_outputs` to a cotangent for each
            of `active_inputs`.
        active_outputs: which results a cotangent is taken for.
        active_inputs: which inputs can have a cotangent that is not zero.
    """

    forward: Graph
    backward: Graph
    active_outputs: tuple[bool, ...]
    active_inputs: tuple[bool, ...]


def vjp_graphs(graph: Graph, active: tuple[bool, ...]) -> ReverseGraphs:
    """The reverse derivative of `graph` with respect to the inputs marked in `active`."""
    key = ("vjp", active)
    found = graph.memo.get(key)
    if found is None:
        found = graph.memo[key] = _make_vjp_graphs(graph, active)
    return found


def _make_vjp_graphs(graph: Graph, active: tuple[bool, ...]) -> ReverseGraphs:
    forward = GraphTrace(_state.trace)
    reverse = ReverseTrace(forward)
    backward = GraphTrace(forward)
    primals = [forward.add_input(shape) for shape in graph.input_shapes]
    wanted = [flag and has_tangent(primal) for flag, primal in zip(active, primals, strict=True)]
    inputs = [reverse.add_input(p) if flag else p for p, flag in zip(primals, wanted, strict=True)]
    with tracing(forward):
        with tracing(reverse):
            outputs = evaluate_graph(graph, inputs)
        mine = [type(each) is ReverseTracer and each._trace is reverse for each in outputs]
        results = [each.value if flag else each for each, flag in zip(outputs, mine, strict=True)]
        cotangents = [
            backward.add_input(result._shape) if flag else None
            for result, flag in zip(results, mine, strict=True)
        ]
        with tracing(backward):
            tracers = [each for each, flag in zip(inputs, wanted, strict=True) if flag]
            found = iter(reverse.pull(outputs, cotangents, tracers))
            given = [next(found) if flag else None for flag in wanted]
            kept = [each for each in given if each is not None]
            second = backward.graph(kept, f"vjp_{graph.name}")
        first = forward.graph([*results, *backward.captured], f"forward_{graph.name}")
    _refuse_captured(graph, forward.captured)
    return ReverseGraphs(
        first.pruned(), second.pruned(), tuple(mine), tuple(each is not None for each in given)
    )


def call_vjp_graphs(
    graphs: ReverseGraphs, count: int, operands: list[Any]
) -> tuple[list[Any], Any]:
    """Runs the forward half; returns its results and the pullback that runs the other.

    Args:
        graphs: made by `vjp_graphs`.
        count: the number of results of the program itself.
        operands: its operands.
    """
    call = role("call")
    everything = call(graphs.forward, *operands)
    results, residuals = list(everything[:count]), everything[count:]

    def pullback(cotangents: Any) -> list[Any]:
        given = [
            instantiate(cotangents.get(i), result)
            for i, (result, flag) in enumerate(zip(results, graphs.active_outputs, strict=True))
            if flag
        ]
        found = iter(call(graphs.backward, *residuals, *given))
        return [next(found) if flag else None for flag in graphs.active_inputs]

    return results, pullback


def _refuse_captured(graph: Graph, captured: Sequence[Tracer]) -> None:
    """Raises TransformError where a user's rule made a derived program that is not closed."""
    if captured:
        raise explain(
            TransformError,
            graph.name,
            "a custom derivative rule in it reads a traced value of an enclosing function",
            [f"captured: {tracer!r}" for tracer in captured],
            "A jitted function is transformed on its own: pass the value to it, and to the "
            "function that has the rule, as an argument.",
        )


class BatchedGraph(NamedTuple):
    """A graph over a batch, and where the batch is in each output (None: it is not there)."""

    graph: Graph
    dimensions: tuple[int | None, ...]


def batched_graph(graph: Graph, dimensions: tuple[int | None, ...], size: int) -> BatchedGraph:
    """`graph` over a batch of `size` whose dimension in each input is given (None: not there)."""
    key = ("batch", dimensions, size)
    found = graph.memo.get(key)
    if found is None:
        found = graph.memo[key] = _make_batched_graph(graph, dimensions, size)
    return found


def _make_batched_graph(
    graph: Graph, dimensions: tuple[int | None, ...], size: int
) -> BatchedGraph:
    shapes: list[Any] = []
    for shape, dimension in zip(graph.input_shapes, dimensions, strict=True):
        if dimension is not None:
            shape = shape.with_dimension(dimension, size)  # type: ignore[union-attr]  # an array
        shapes.append(shape)
    found: list[int | None] = []

    def function(*arguments: Any) -> list[Any]:
        trace = BatchTrace(_state.trace, size)
        inputs = [
            argument if dimension is None else BatchTracer(trace, argument, dimension)
            for argument, dimension in zip(arguments, dimensions, strict=True)
        ]
        with under(trace):
            outputs = evaluate_graph(graph, inputs)
        trace.alive = False
        mine = [type(each) is BatchTracer and each._trace is trace for each in outputs]
        pairs = list(zip(outputs, mine, strict=True))
        found.extend(each.dimension if flag else None for each, flag in pairs)
        return [each.value if flag else each for each, flag in pairs]

    made, captured = trace_to_graph(function, shapes, f"batched_{graph.name}")
    _refuse_captured(graph, captured)
    return BatchedGraph(made.pruned(), tuple(found))
