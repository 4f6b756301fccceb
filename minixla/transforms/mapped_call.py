"""MappedCall: what a function mapped by pmap is in a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.attributes import Attribute, Instance, attribute
from minixla.core.derived import ReverseGraphs, batched_graph, entered_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.core.linear import pullback_by
from minixla.core.tracing import current_trace, evaluate_graph
from minixla.engine.devices import own_count, run_mapped
from minixla.reference_evaluator.simulation import Simulation
from minixla.reference_evaluator.trace import ReferenceTrace
from minixla.transforms.arguments import misfit
from minixla.transforms.axis_operations import AxisSum
from minixla.transforms.named_axes import DeviceAxis
from minixla_ops.elementwise.comparisons import eq
from minixla_ops.elementwise.selection import select
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import RunsPrograms, program
from minixla_ops.vocabulary.batch_dimensions import move_batch
from minixla_ops.vocabulary.shorthand import array_shape, zeros_like

Axes = tuple[int | None, ...]


class _Axes(Attribute):
    def hlo(self, value: Axes) -> str:
        """A string."""
        return f'"{value}"'


class _Devices(Attribute):
    def hlo(self, value: tuple[Any, ...]) -> int:
        """Their number."""
        return len(value)


class MappedCall(RunsPrograms):
    """A computation run on each of several devices, as partitions of one program.

    Where devices belong to several processes, each runs it with the members of its own devices.

    Attributes:
        computation: the Graph of one device.
        devices: the devices.
        in_axes: the mapped axis of each operand; None gives the whole to every device.
        out_axes: where the devices are in each result; None takes that of the first device.
        donated: the numbers of operands whose memory may be used again.
    """

    name = "Pmap"
    builder_name = "pmap"
    hlo_name = "call"
    spans_devices = True
    operands = ("operands...",)
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")
    devices: tuple[Any, ...] = attribute(_Devices(), hlo="num_partitions")
    in_axes: Axes = attribute(_Axes())
    out_axes: Axes = attribute(_Axes())
    donated: tuple[int, ...] = attribute(Attribute(), default=(), hlo=None)

    def shape(self, *operands):
        shapes = self.array_shapes(self.computation.output_shapes)
        pairs = zip(shapes, self.out_axes, strict=True)
        size = own_count(self.devices)
        return tuple([s if axis is None else s.with_dimension(axis, size) for s, axis in pairs])

    def run(self, *operands):
        trace = current_trace().evaluator
        if isinstance(trace, ReferenceTrace):
            return trace.evaluate(self, operands)
        values = [trace.lift(operand, self.builder_name) for operand in operands]
        return tuple(
            run_mapped(
                self.computation, values, self.in_axes, self.out_axes, self.devices, self.donated
            )
        )

    def reference(self, *operands):
        own, size = own_count(self.devices), len(self.devices)
        if own < size:
            raise misfit(
                "pmap",
                "the reference has no members of other processes",
                [f"{size} devices, {own} of this process"],
                "Run it in one process, or map over devices of one: devices=jax.local_devices().",
            )
        return tuple(_simulated(self.computation, operands, self.in_axes, self.out_axes, size))

    def stablehlo(self, emit, operands, shapes, results):
        problem = "it cannot run inside a loop, a branch or another computation on one device"
        raise misfit("pmap", problem, advice="Put the loop or branch inside the mapped function.")

    def of_derived(
        self, computation: Graph, in_axes: Sequence[int | None], out_axes: Sequence[int | None]
    ) -> MappedCall:
        """The call of a program that is made of the computation."""
        return MappedCall(computation, self.devices, tuple(in_axes), tuple(out_axes))

    def entered(self, trace, known):
        def of_each(axes: Axes, shapes: Any, known: Any) -> Axes:
            triples = zip(axes, shapes, known, strict=True)
            return tuple([axis for axis, *pair in triples for _ in trace.shapes_of(*pair)])

        graph, out = entered_graph(self.computation, trace, known)
        in_axes = of_each(self.in_axes, self.computation.input_shapes, known)
        out_axes = of_each(self.out_axes, self.computation.output_shapes, out)
        return self.of_derived(graph, in_axes, out_axes), known, out

    def linearize(self, operands, active):
        graphs = vjp_graphs(self.computation, tuple(active))
        count = len(self.out_axes)
        kept = [0] * (len(graphs.forward.outputs) - count)
        everything = self.of_derived(graphs.forward, self.in_axes, (*self.out_axes, *kept))(
            *operands
        )
        results, residuals = everything[:count], everything[count:]
        given = list(compress(self.out_axes, graphs.active_outputs))
        wanted = list(compress(self.in_axes, graphs.active_inputs))

        def backward(*cotangents: Any) -> Sequence[Any]:
            graph = _backward(graphs, given, wanted, len(self.devices))
            return self.of_derived(graph, (*kept, *given), wanted)(*residuals, *cotangents)

        flags = graphs.active_outputs, graphs.active_inputs
        return results, pullback_by(backward, results, *flags)

    def batch_of(self, size, operands, dimensions):
        # The batch on each device, last in what has one.
        moved, places = [], []
        inputs = self.array_shapes(self.computation.input_shapes)
        for operand, at, shape in zip(operands, dimensions, inputs, strict=True):
            rank = array_shape(operand).rank - 1
            moved.append(operand if at is None else move_batch(operand, at, rank, size))
            places.append(None if at is None else shape.rank)
        graph, found = _batched(self.computation, tuple(places), size)
        results = self.of_derived(graph, self.in_axes, self.out_axes)(*moved)
        ranks = [array_shape(result).rank - 1 for result in results]
        return results, tuple(
            [None if at is None else rank for at, rank in zip(found, ranks, strict=True)]
        )


def _backward(
    graphs: ReverseGraphs, given: Sequence[int | None], wanted: Sequence[int | None], size: int
) -> Graph:
    """The second half of a reverse derivative, on one of so many devices.

    A result without a mapped axis is that of the first device: the others' cotangents are zero.
    An operand without one went to all devices: its cotangent is the sum of theirs. `given` and
    `wanted` have the axis of each cotangent that the second half takes and gives.
    """
    half = graphs.backward
    kept = len(half.inputs) - len(given)

    def backward(*values: Any) -> list[Any]:
        devices = DeviceAxis(size)
        is_first = eq(devices.index(), np.zeros((), np.int32))
        cotangents = [
            select(is_first, value, zeros_like(value)) if axis is None else value
            for value, axis in zip(values[kept:], given, strict=True)
        ]
        found = evaluate_graph(half, [*values[:kept], *cotangents])
        pairs = zip(found, wanted, strict=True)
        return [devices.apply(AxisSum, x) if axis is None else x for x, axis in pairs]

    if None not in (*given, *wanted):
        return half
    key = ("mapped", *given, "to", *wanted, size)
    return half.remembered(key, program, backward, half.input_shapes, half.name)


def _batched(
    computation: Graph, places: tuple[int | None, ...], size: int
) -> tuple[Graph, tuple[int | None, ...]]:
    """The computation over a batch, which is last in what has one; where it would have been."""
    graph, found = batched_graph(computation, places, size)

    def last(*values: Any) -> list[Any]:
        pairs = zip(evaluate_graph(graph, values), found, strict=True)
        return [
            x if at is None else move_batch(x, at, array_shape(x).rank - 1, size) for x, at in pairs
        ]

    key = ("mapped batch", places, size)
    return graph.remembered(key, program, last, graph.input_shapes, graph.name), found


def _simulated(
    computation: Graph, operands: Sequence[Any], in_axes: Axes, out_axes: Axes, size: int
) -> list[Any]:
    """The results of a program on partitions that meet, in NumPy."""

    def member(number: int) -> Callable[[], list[Any]]:
        pairs = zip(operands, in_axes, strict=True)
        pieces = [x if axis is None else np.take(x, number, axis) for x, axis in pairs]
        return lambda: reference_graph(computation, pieces)

    found = Simulation([[member(number) for number in range(size)]], [()] * size, {}).run()
    columns = zip(*found, strict=True)
    return [
        column[0] if axis is None else np.stack(column, axis)
        for column, axis in zip(columns, out_axes, strict=True)
    ]
