"""pmap: a function run on several devices at once, each with its members of mapped axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.tree_util import tree_flatten

from minixla.core.attributes import Attribute, Instance
from minixla.core.derived import batched_graph, jvp_graph, vjp_graphs
from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import (
    _state,
    bind,
    current_trace,
    evaluate_graph,
    shape_of,
    weak_type_of,
)
from minixla.engine.devices import chosen_devices, run_mapped
from minixla.reference.simulation import Simulation
from minixla.reference.trace import ReferenceTrace
from minixla.transforms.arguments import (
    checked_function,
    flatten_axes,
    is_single,
    named_after,
    split_static,
)
from minixla.transforms.device_axis import DeviceAxis
from minixla.transforms.named_axes import mapped_axis
from minixla.transforms.staging import stage
from minixla.transforms.vmap import checked_axis, common_size, vmap
from minixla_ops.batching import move_batch
from minixla_ops.evaluation import reference_graph
from minixla_ops.movement import pad
from minixla_ops.nested import program
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, instantiate, sum_over, zeros_like

__all__ = ["pmap"]

Axes = tuple[int | None, ...]


class MappedCall(Operation):
    """A computation run on each of several devices, as partitions of one program.

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
        size = len(devices)
        return tuple([s if axis is None else s.with_dimension(axis, size) for s, axis in pairs])

    def run(self, *operands: Any, **attributes: Any) -> Any:  # type: ignore[override]
        """The results, on the devices, or in NumPy by processes that meet."""
        trace = current_trace()
        if isinstance(trace, ReferenceTrace):
            return trace.evaluate(self, operands, attributes)
        values = [trace.lift(operand, self.builder_name) for operand in operands]
        names = ("computation", "in_axes", "out_axes", "devices")
        given = [attributes[name] for name in names]
        return tuple(run_mapped(given[0], values, *given[1:], attributes.get("donated", ())))

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
        return tuple(simulated(computation, operands, in_axes, out_axes, len(devices)))

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

    def forward(  # type: ignore[override]  # a hook: None or a method
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

    def linearize(  # type: ignore[override]  # a hook: None or a method
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
        count, size = len(out_axes), len(devices)
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

        def pullback(cotangents: Any) -> list[Any]:
            given, axes = [], []
            triples = zip(results, out_axes, graphs.active_outputs, strict=True)
            for index, (result, axis, flag) in enumerate(triples):
                if flag:
                    cotangent = instantiate(cotangents.get(index), result)
                    # The result is that of the first device: the others' cotangents are zero.
                    given.append(_of_first(cotangent, size) if axis is None else cotangent)
                    axes.append(axis or 0)
            wanted = [a for a, flag in zip(in_axes, graphs.active_inputs, strict=True) if flag]
            found = bind(
                self,
                *residuals,
                *given,
                computation=graphs.backward,
                in_axes=(*[0] * kept, *axes),
                out_axes=tuple([axis or 0 for axis in wanted]),
                devices=devices,
            )
            summed = iter(
                [sum_over(c, [0]) if a is None else c for c, a in zip(found, wanted, strict=True)]
            )
            return [next(summed) if flag else None for flag in graphs.active_inputs]

        return results, pullback

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        """Only a jvp rule applies it to tangents, and such a rule is linear in them."""
        return True

    def dependent(  # type: ignore[override]  # a hook: None or a method
        self, variables: Sequence[bool], *, computation: Graph, **_: Any
    ) -> Sequence[bool]:
        """As the computation's."""
        return jvp_graph(computation, tuple(variables)).active_outputs

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The reverse derivative, which of a linear function is its transpose."""
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = self.linearize(point, linear, **attributes)
        return pullback({i: each for i, each in enumerate(cotangents) if each is not None})

    def batch_within(  # type: ignore[override]  # a hook: None or a method
        self,
        trace: Any,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        computation: Graph,
        in_axes: Axes,
        out_axes: Axes,
        devices: Any,
        **_: Any,
    ) -> tuple[Any, Any]:
        """The batch on each device, last in what has one."""
        size = trace.size
        moved, places = [], []
        for operand, at, shape in zip(operands, dimensions, computation.input_shapes, strict=True):
            assert isinstance(shape, Shape)
            rank = array_shape(operand).rank - 1
            moved.append(operand if at is None else move_batch(operand, at, rank, size))
            places.append(None if at is None else shape.rank)
        graph, found = batched_graph(computation, tuple(places), size)

        def last(*values: Any) -> list[Any]:
            pairs = zip(evaluate_graph(graph, values), found, strict=True)
            return [
                x if at is None else move_batch(x, at, array_shape(x).rank - 1, size)
                for x, at in pairs
            ]

        results = bind(
            self,
            *moved,
            computation=program(last, graph.input_shapes, graph.name),
            in_axes=in_axes,
            out_axes=out_axes,
            devices=devices,
        )
        flags = [at is not None for at in found]
        ranks = [array_shape(result).rank - 1 for result in results]
        return results, tuple([r if flag else None for r, flag in zip(ranks, flags, strict=True)])


MAPPED_CALL = MappedCall()


def _of_first(cotangent: Any, size: int) -> Any:
    """A value for each device: this one for the first, zeros for the others."""
    sizes = array_shape(cotangent).dimensions
    zero = np.zeros((), array_shape(cotangent).dtype)
    edges = [(0, size - 1, 0), *[(0, 0, 0)] * len(sizes)]
    return pad(reshape(cotangent, (1, *sizes)), zero, edges)


def simulated(
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


def pmap(
    fun: Callable[..., Any] | None = None,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """A function that runs `fun` on several devices at once, compiled (JAX: pmap).

    Each device gets its member of the mapped axes, which are as long as there are devices in use.
    Inside another pmap the members of the inner axis stay on the outer one's device, as in vmap.

    Args:
        fun: a function of pytrees of arrays; left out where `pmap` is a decorator with options.
        axis_name: a name of the axis for collectives.
        in_axes: which axis of each array argument is mapped; see `vmap`.
        out_axes: where the mapped axis is in the results; None for a result that is the same on
            all devices, of which the first one's is taken.
        static_broadcasted_argnums: positions of arguments that are passed on as they are.
        devices: those to use, in order; default: the first ones of the backend.
        backend: the platform whose devices are used.
        axis_size: the size of the axis; needed only where no argument is mapped.
        donate_argnums: positions of arguments whose memory may be used again.

    Raises:
        TransformError: fewer devices than members; axes that do not fit.
    """
    if fun is None:
        return functools.partial(
            pmap,
            axis_name=axis_name,
            in_axes=in_axes,
            out_axes=out_axes,
            static_broadcasted_argnums=static_broadcasted_argnums,
            devices=devices,
            backend=backend,
            axis_size=axis_size,
            donate_argnums=donate_argnums,
        )
    checked_function(fun, "pmap")
    donated_numbers = {donate_argnums} if is_single(donate_argnums) else {*donate_argnums}  # type: ignore[misc]

    def mapped(*args: Any, **kwargs: Any) -> Any:
        dynamic, rebuild = split_static(args, static_broadcasted_argnums)
        axes = in_axes
        if isinstance(axes, (list, tuple)):
            axes, _ = split_static(tuple(axes), static_broadcasted_argnums)

        def on_member(*positional: Any, **named: Any) -> Any:
            return fun(*rebuild(positional), **named)

        if any(isinstance(axis, DeviceAxis) for _, axis in _state.axes):
            inner = vmap(on_member, axes, out_axes, axis_name, axis_size)
            return inner(*dynamic, **kwargs)
        leaves, tree = tree_flatten((dynamic, kwargs))
        flat_axes = flatten_axes("pmap", "in_axes", dynamic, axes)
        flat_axes += [0] * (len(leaves) - len(flat_axes))
        shapes = [shape_of(leaf, "pmap") for leaf in leaves]
        flat_axes = [checked_axis("pmap", *pair) for pair in zip(shapes, flat_axes, strict=True)]
        size = common_size("pmap", shapes, flat_axes, axis_size)
        members = [
            shape if axis is None else shape.without_dimension(axis)  # type: ignore[union-attr]
            for shape, axis in zip(shapes, flat_axes, strict=True)
        ]

        def rebuilt(positional: Sequence[Any], named: dict[str, Any]) -> Any:
            return on_member(*positional, **named)

        chosen = chosen_devices(size, devices, backend)
        name = getattr(fun, "__name__", "pmap")
        with mapped_axis(axis_name if axis_name is not None else object(), DeviceAxis(size)):
            staged = stage(rebuilt, tree, members, list(map(weak_type_of, leaves)), name)
        out = _out_axes(staged, out_axes)
        first = len(staged.read)
        numbers = [i for i, arg in enumerate(args) for _ in tree_flatten(arg)[0]]
        results = bind(
            MAPPED_CALL,
            *staged.read,
            *leaves,
            computation=staged.graph,
            in_axes=(*[None] * first, *flat_axes),
            out_axes=out,
            devices=chosen,
            donated=tuple([first + i for i, n in enumerate(numbers) if n in donated_numbers]),
        )
        return staged.results(results)

    return named_after(mapped, fun)


def _out_axes(staged: Any, out_axes: Any) -> Axes:
    """The axis of each result, counted from the front."""
    from jax.tree_util import tree_unflatten

    shapes = staged.graph.output_shapes
    tree = tree_unflatten(staged.result_tree, range(len(shapes)))
    found = []
    for shape, axis in zip(shapes, flatten_axes("pmap", "out_axes", tree, out_axes), strict=True):
        rank = shape.rank + 1
        if axis is not None and not -rank <= axis < rank:
            raise explain(
                TransformError,
                "pmap",
                f"out_axes asks for axis {axis} of a result of rank {rank}",
                [f"result on each device: {shape}"],
                f"Give an axis in [{-rank}, {rank}), or None.",
            )
        found.append(None if axis is None else axis % rank)
    return tuple(found)
