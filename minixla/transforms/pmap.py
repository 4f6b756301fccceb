"""pmap: a function run on several devices at once, each with its members of mapped axes."""

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from jax.tree_util import tree_leaves, tree_unflatten

import minixla_ops as ops
from minixla.core.attributes import Attribute, Instance, attribute
from minixla.core.derived import batched_graph, entered_graph, vjp_graphs
from minixla.core.graph import Graph, remembered
from minixla.core.linear import pullback_by
from minixla.core.tracing import _state, current_trace, evaluate_graph
from minixla.engine.devices import chosen_devices, own_count, own_share, run_mapped
from minixla.engine.float0 import is_float0, of_values, places, with_axis
from minixla.engine.random_keys import shapes_of_members
from minixla.reference_evaluator.simulation import Simulation
from minixla.transforms.arguments import Arguments, Cache, flatten_prefix, in_place_of, misfit
from minixla.transforms.axis_operations import AxisSum
from minixla.transforms.named_axes import UNNAMED, DeviceAxis, mapped_axis
from minixla.transforms.places import check_leaves, numbers_among
from minixla.transforms.staging import Staged, stage_once
from minixla.transforms.vmap import mapped_shapes, out_axis, vmap
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import RunsPrograms, moved_batches, over_batch, program
from minixla_ops.vocabulary.shorthand import array_shape, zeros_like

Axes = tuple[int | None, ...]


class MappedCall(RunsPrograms):
    """A computation run on each of several devices, as partitions of one program.

    Each process runs it with the members of its own devices. In `in_axes` None gives the whole to
    every device, in `out_axes` it takes the first one's; `donated` operands' memory is used again.
    """

    name = "Pmap"
    builder_name = "pmap"
    hlo_name = "call"
    spans_devices = True
    operands = ("operands...",)
    computation: Graph = attribute(Instance(Graph))
    devices: tuple[Any, ...] = attribute(Attribute())
    in_axes: Axes = attribute(Attribute())
    out_axes: Axes = attribute(Attribute())
    donated: tuple[int, ...] = attribute(Attribute(), default=())

    def shape(self, *operands):
        shapes = self.array_shapes(self.computation.output_shapes)
        pairs = zip(shapes, self.out_axes, strict=True)
        size = own_count(self.devices)
        return tuple([s if axis is None else s.with_dimension(axis, size) for s, axis in pairs])

    def run(self, *operands):
        lift = current_trace().lift
        values = [lift(operand, self.builder_name) for operand in operands]
        axes = self.in_axes, self.out_axes
        return tuple(run_mapped(self.computation, values, *axes, self.devices, self.donated))

    def reference(self, *operands):
        own, size = own_count(self.devices), len(self.devices)
        if own < size:
            problem = "the reference has no members of other processes"
            advice = "Run it in one process, or map over those of one: devices=jax.local_devices()."
            raise misfit("pmap", problem, [f"{size} devices, {own} of this process"], advice)

        def member(number: int) -> Callable[[], list[Any]]:
            pairs = zip(operands, self.in_axes, strict=True)
            pieces = [x if axis is None else np.take(x, number, axis) for x, axis in pairs]
            return lambda: reference_graph(self.computation, pieces)

        found = Simulation(list(map(member, range(size))), size, [()] * size, {}).run()
        pairs = zip(zip(*found, strict=True), self.out_axes, strict=True)
        return tuple([each[0] if axis is None else np.stack(each, axis) for each, axis in pairs])

    def hlo_attributes(self, shapes):
        axes = {name: f'"{self.values[name]}"' for name in ("in_axes", "out_axes")}
        return {"num_partitions": len(self.devices), **axes, "to_apply": self.computation}

    def stablehlo(self, emit, operands, shapes, results):
        problem = "it cannot run inside a loop, a branch or another computation on one device"
        raise misfit("pmap", problem, advice="Put the loop or branch inside the mapped function.")

    def of_derived(self, computation: Graph, in_axes: Any, out_axes: Any) -> "MappedCall":
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
        forward = self.of_derived(graphs.forward, self.in_axes, (*self.out_axes, *kept))
        everything = forward(*operands)
        results, residuals = everything[:count], everything[count:]
        given = tuple(compress(self.out_axes, graphs.active_outputs))
        wanted = tuple(compress(self.in_axes, graphs.active_inputs))

        def backward(*cotangents: Any) -> Sequence[Any]:
            graph = _backward(graphs.backward, given, wanted, len(self.devices))
            return self.of_derived(graph, (*kept, *given), wanted)(*residuals, *cotangents)

        flags = graphs.active_outputs, graphs.active_inputs
        return results, pullback_by(backward, results, *flags)

    def batch_of(self, size, operands, dimensions):
        # The batch on each device, last in what has one.
        graph = self.computation
        within = _last(graph.input_shapes, dimensions, 1)
        found = batched_graph(graph, within, size).known
        batched = over_batch(graph, within, size, _last(graph.output_shapes, found, 1))
        moved = moved_batches(operands, dimensions, _last(operands, dimensions), size)
        results = self.of_derived(batched, self.in_axes, self.out_axes)(*moved)
        return results, _last(results, found)


def _last(values: Sequence[Any], dimensions: Sequence[int | None], more: int = 0) -> Axes:
    """The last dimension, or so many after it, of what has a batch."""
    pairs = zip(values, dimensions, strict=True)
    return tuple([None if at is None else array_shape(x).rank - 1 + more for x, at in pairs])


@remembered
def _backward(half: Graph, given: Axes, wanted: Axes, size: int) -> Graph:
    """The second half of a reverse derivative, on one of so many devices.

    A result without a mapped axis is that of the first device: the others' cotangents are zero.
    An operand without one went to all devices: its cotangent is the sum of theirs. `given` and
    `wanted` have the axis of each cotangent that the second half takes and gives.
    """
    if None not in (*given, *wanted):
        return half
    kept = len(half.inputs) - len(given)

    def backward(*values: Any) -> list[Any]:
        devices = DeviceAxis(size)
        is_first = ops.eq(devices.index(), np.zeros((), np.int32))
        cotangents = [
            ops.select(is_first, value, zeros_like(value)) if axis is None else value
            for value, axis in zip(values[kept:], given, strict=True)
        ]
        found = evaluate_graph(half, [*values[:kept], *cotangents])
        pairs = zip(found, wanted, strict=True)
        return [devices.apply(AxisSum, x) if axis is None else x for x, axis in pairs]

    return program(backward, half.input_shapes, half.name)


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
    The function is traced once for each combination of shapes and static arguments.

    Where JAX runs in several processes, all must make the same calls. Each gives and gets the
    members of its own devices, as many as each other's; collectives are over those of all. What is
    not mapped must be the same in all processes; its derivative is that of the whole program.

    Args:
        fun: a function of pytrees of arrays; left out where `pmap` is a decorator with options.
        axis_name: a name of the axis for collectives.
        in_axes: which axis of each array argument is mapped; see `vmap`.
        out_axes: where the mapped axis is in the results; None takes that of the first device.
        static_broadcasted_argnums: positions of arguments that are passed on as they are.
        devices: those to use, in order; default: the first ones of the backend.
        backend: the platform whose devices are used.
        axis_size: the size of the axis, over all processes; needed where no argument is mapped.
        donate_argnums: positions of arguments whose memory may be used again.

    Raises:
        TransformError: fewer devices than members; axes that do not fit.
    """
    if fun is None:
        options = locals()
        return functools.partial(pmap, **{n: v for n, v in options.items() if n != "fun"})
    cache = Cache()

    @in_place_of(fun, "pmap")
    def mapped(*args: Any, **kwargs: Any) -> Any:
        static, axes = numbers_among(static_broadcasted_argnums, len(args)), in_axes
        given = Arguments.besides("pmap", fun, args, kwargs, static)
        if isinstance(axes, (list, tuple)):
            axes = [axis for number, axis in enumerate(axes) if number not in static]
        if any(isinstance(axis, DeviceAxis) for _, axis in _state.axes):
            inner = vmap(lambda *a, **k: given.apply(a, k), axes, out_axes, axis_name, axis_size)
            return inner(*given.given, **kwargs)
        leaves = tree_leaves(whole := (given.given, kwargs))
        if any(map(is_float0, leaves)):
            check_leaves("pmap", leaves, places("argument", whole, True))
        share = None if axis_size is None else own_share(axis_size, devices)
        shapes, flat_axes, size = mapped_shapes("pmap", given, axes, share)
        chosen = chosen_devices(size, devices, backend)
        pairs = zip(shapes, flat_axes, strict=True)
        members = [x if axis is None else x.without_dimension(axis) for x, axis in pairs]
        values, of_members = [(n, args[n]) for n in static], given.signature(members)
        with mapped_axis(UNNAMED if axis_name is None else axis_name, DeviceAxis(len(chosen))):
            staged = stage_once(cache, given, values, of_members, given.apply)
        read, donated = staged.read, numbers_among(donate_argnums, len(args))
        owners = [n for n in range(len(args)) if n not in static for _ in tree_leaves(args[n])]
        again = tuple([len(read) + i for i, owner in enumerate(owners) if owner in donated])
        axes = (*[None] * len(read), *flat_axes), _out_axes(staged, out_axes)
        operation = MappedCall(staged.graph, chosen, *axes, again)
        return with_axis(staged.results(operation(*read, *given.leaves)), size)

    return mapped


def _out_axes(staged: Staged, out_axes: Any) -> Axes:
    """The axis of each result, counted from the front."""
    shapes = shapes_of_members(staged.result_tree, list(staged.graph.output_shapes))
    tree = tree_unflatten(staged.result_tree, range(len(shapes)))
    axes = flatten_prefix("pmap", "out_axes", of_values(tree), out_axes)
    pairs = zip(shapes, axes, strict=True)
    shown = "{} on each device".format
    return tuple([out_axis("pmap", x, at, lambda: "a result", shown(x)) for x, at in pairs])
