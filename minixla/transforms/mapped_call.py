"""MappedCall: what a function mapped by pmap is in a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Attribute, Instance
from minixla.core.derived import ReverseGraphs, batched_graph, jvp_graph, vjp_graphs
from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, current_trace, evaluate_graph
from minixla.engine.devices import own_count, run_mapped
from minixla.reference.simulation import Simulation
from minixla.reference.trace import ReferenceTrace
from minixla.transforms import axis_operations
from minixla.transforms.device_axis import DeviceAxis
from minixla_ops.batching import move_batch
from minixla_ops.comparison import eq
from minixla_ops.evaluation import reference_graph
from minixla_ops.nested import RunsPrograms, program
from minixla_ops.rules import array_shape, instantiate, zeros_like
from minixla_ops.selection import select

__all__ = ["MAPPED_CALL", "Axes"]

Axes = tuple[int | None, ...]


class MappedCall(RunsPrograms):
    """A computation run on each of several devices, as partitions of one program.

    Where devices belong to several processes, each runs it with the members of its own devices.

    Attributes:
        computation: the Graph of one device.
        in_axes: the mapped axis of each operand; None gives the whole to every device.
        out_axes: where the devices are in each result; None takes that of the first device.
        devices: the devices.
        donated: the numbers of operands whose memory may be used again.
    """

    name = "Pmap"
    builder_name = "pmap"
    hlo_name = "call"
    spans_devices = True
    operand_names = ("operands...",)
    attributes = {
        "computation": Instance(Graph),
        "in_axes": Attribute(),
        "out_axes": Attribute(),
        "devices": Attribute(),
        "donated": Attribute(()),
    }

    def shape(
        self, *operands: AnyShape, computation: Graph, out_axes: Axes, devices: Any, **_: Any
    ) -> tuple[AnyShape, ...]:
        """The computation's results, with the mapped axes."""
        pairs = zip(self.array_shapes(computation.output_shapes), out_axes, strict=True)
        size = own_count(devices)
        return tuple([s if axis is None else s.with_dimension(axis, size) for s, axis in pairs])

    def run(
        self, *operands: Any, computation: Graph, donated: tuple[int, ...] = (), **given: Any
    ) -> Any:
        """The results, on the devices, or in NumPy by processes that meet."""
        trace = current_trace().evaluator
        if isinstance(trace, ReferenceTrace):
            return trace.evaluate(self, operands, {"computation": computation, **given})
        values = [trace.lift(operand, self.builder_name) for operand in operands]
        return tuple(run_mapped(computation, values, donated=donated, **given))

    def reference(
        self,
        *operands: Any,
        computation: Graph,
        in_axes: Axes,
        out_axes: Axes,
        devices: Any,
        **_: Any,
    ) -> tuple[Any, ...]:
        """The results in NumPy, by processes that meet."""
        if own_count(devices) < len(devices):
            raise explain(
                TransformError,
                "pmap",
                "the reference has no members of other processes",
                [f"{len(devices)} devices, {own_count(devices)} of this process"],
                "Run it in one process, or map over devices of one: devices=jax.local_devices().",
            )
        return tuple(_simulated(computation, operands, in_axes, out_axes, len(devices)))

    def stablehlo(self, *args: Any, **_: Any) -> Sequence[str]:
        """Refuses: it is several programs."""
        raise explain(
            TransformError,
            "pmap",
            "it cannot run inside a loop, a branch or another computation on one device",
            advice="Put the loop or branch inside the mapped function.",
        )

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], /, *, computation: Graph, devices: Any, **axes: Any
    ) -> dict[str, Any]:
        """The computation and what is mapped."""
        shown = {k: f'"{axes[k]}"' for k in ("in_axes", "out_axes")}
        return {"to_apply": computation, "num_partitions": len(devices), **shown}

    def forward(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        computation: Graph,
        in_axes: Axes,
        out_axes: Axes,
        **rest: Any,
    ) -> tuple[Any, Any]:
        """The derivative on each device."""
        active = tuple([tangent is not None for tangent in tangents])
        derived = jvp_graph(computation, active)
        moving = [axis for axis, flag in zip(in_axes, active, strict=True) if flag]
        out = [axis for axis, flag in zip(out_axes, derived.active_outputs, strict=True) if flag]
        everything = bind(
            self,
            *primals,
            *[tangent for tangent in tangents if tangent is not None],
            computation=derived.graph,
            in_axes=(*in_axes, *moving),
            out_axes=(*out_axes, *out),
            devices=rest["devices"],
        )
        count = len(out_axes)
        found = iter(everything[count:])
        flags = derived.active_outputs
        return everything[:count], tuple([next(found) if flag else None for flag in flags])

    def linearize(
        self,
        operands: Sequence[Any],
        active: Sequence[bool],
        *,
        computation: Graph,
        in_axes: Axes,
        out_axes: Axes,
        devices: Any,
        **_: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        """Both halves on each device; what the second needs stays there."""
        graphs = vjp_graphs(computation, tuple(active))
        count = len(out_axes)
        kept = len(graphs.forward.outputs) - count
        everything = bind(
            self,
            *operands,
            computation=graphs.forward,
            in_axes=in_axes,
            out_axes=(*out_axes, *[0] * kept),
            devices=devices,
        )
        results, residuals = everything[:count], everything[count:]
        given = [axis for axis, flag in zip(out_axes, graphs.active_outputs, strict=True) if flag]
        wanted = [axis for axis, flag in zip(in_axes, graphs.active_inputs, strict=True) if flag]

        def pullback(cotangents: Any) -> list[Any]:
            values = [
                instantiate(cotangents.get(index), result)
                for index, (result, flag) in enumerate(
                    zip(results, graphs.active_outputs, strict=True)
                )
                if flag
            ]
            found = iter(
                bind(
                    self,
                    *residuals,
                    *values,
                    computation=_backward(graphs, given, wanted, len(devices)),
                    in_axes=(*[0] * kept, *given),
                    out_axes=tuple(wanted),
                    devices=devices,
                )
            )
            return [next(found) if flag else None for flag in graphs.active_inputs]

        return results, pullback

    def dependent(
        self, variables: Sequence[bool], *, computation: Graph, **_: Any
    ) -> Sequence[bool]:
        """As the computation's."""
        return jvp_graph(computation, tuple(variables)).active_outputs

    def batch_of(
        self,
        size: int,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        /,
        *,
        computation: Graph,
        in_axes: Axes,
        out_axes: Axes,
        devices: Any,
        **_: Any,
    ) -> tuple[Any, Any]:
        """The batch on each device, last in what has one."""
        moved, places = [], []
        for operand, at, shape in zip(operands, dimensions, computation.input_shapes, strict=True):
            assert isinstance(shape, Shape)
            rank = array_shape(operand).rank - 1
            moved.append(operand if at is None else move_batch(operand, at, rank, size))
            places.append(None if at is None else shape.rank)
        graph, found = _batched(computation, tuple(places), size)
        results = bind(
            self,
            *moved,
            computation=graph,
            in_axes=in_axes,
            out_axes=out_axes,
            devices=devices,
        )
        flags = [at is not None for at in found]
        ranks = [array_shape(result).rank - 1 for result in results]
        return results, tuple([r if flag else None for r, flag in zip(ranks, flags, strict=True)])


MAPPED_CALL = MappedCall()


def _backward(
    graphs: ReverseGraphs, given: Sequence[int | None], wanted: Sequence[int | None], size: int
) -> Graph:
    """The second half of a reverse derivative, on one of the devices.

    A result without a mapped axis is that of the first device: the others' cotangents are zero.
    An operand without one went to all devices: its cotangent is the sum of theirs.

    Args:
        graphs: made by `vjp_graphs`.
        given: the axis of each cotangent.
        wanted: the axis of each cotangent of an operand.
        size: the number of devices.
    """
    if None not in (*given, *wanted):
        return graphs.backward
    key = ("mapped", *given, "to", *wanted, size)
    made = graphs.backward.memo.get(key)
    if made is not None:
        return made
    kept = len(graphs.backward.inputs) - len(given)

    def backward(*values: Any) -> list[Any]:
        devices = DeviceAxis(size)
        is_first = eq(devices.index(), np.zeros((), np.int32))
        cotangents = [
            select(is_first, value, zeros_like(value)) if axis is None else value
            for value, axis in zip(values[kept:], given, strict=True)
        ]
        found = evaluate_graph(graphs.backward, [*values[:kept], *cotangents])
        return [
            devices.apply(axis_operations.SUM, value, None) if axis is None else value
            for value, axis in zip(found, wanted, strict=True)
        ]

    made = program(backward, graphs.backward.input_shapes, graphs.backward.name)
    graphs.backward.memo[key] = made
    return made


def _batched(
    computation: Graph, places: tuple[int | None, ...], size: int
) -> tuple[Graph, tuple[int | None, ...]]:
    """The computation over a batch, which is last in what has one; where it would have been."""
    key = ("mapped batch", places, size)
    made = computation.memo.get(key)
    if made is not None:
        return made
    graph, found = batched_graph(computation, places, size)

    def last(*values: Any) -> list[Any]:
        pairs = zip(evaluate_graph(graph, values), found, strict=True)
        return [
            x if at is None else move_batch(x, at, array_shape(x).rank - 1, size) for x, at in pairs
        ]

    made = computation.memo[key] = program(last, graph.input_shapes, graph.name), found
    return made


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
