"""Programs that each device of a mesh runs on its own pieces of arrays."""

import math
from collections.abc import Callable, Sequence
from itertools import compress
from itertools import count as numbers
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Instance, Text, attribute
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.data_flow import through
from minixla.core.derived import batched_graph, entered_graph, vjp_graphs
from minixla.core.graph import Graph, Value, remembered
from minixla.core.hlo_text import quoted as hlo_quoted
from minixla.core.linear import zeros_like
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import Shape
from minixla.core.stablehlo_text import quoted
from minixla.core.symbolic_zeros import pullback_by
from minixla.core.tracing import evaluate_graph
from minixla.reference_evaluator.simulation import Simulation
from minixla.sharding.axes import AxisRef, Part, size_of
from minixla.sharding.mesh import MESH_NAME, Mesh
from minixla.sharding.operations import Shardings, with_open
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla_ops.collectives.processes import current_process
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.call import Call
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import RunsPrograms, program


@register
class ManualComputation(RunsPrograms):
    """A program that each device runs on its own pieces. SDY: manual_computation.

    Along its manual axes each device holds one piece of every operand and result. Along other axes
    the program is the same as without devices.

    Args:
        operands: arrays, with a piece for each device along the manual axes of a dimension.
        computation: the Graph of one device, from pieces to pieces.
        in_shardings, out_shardings: a TensorSharding for each operand and result.
        manual_axes: the names of the axes, all of one mesh.

    Checks:
        (C1) there is a sharding for each operand and each result.
        (C2) in a dimension, manual axes come before others, and their sizes divide its size.
        (C3) the computation takes the operands' pieces.
        (C4) every sharding is on one mesh, which has the manual axes.
    """

    namespace = "sdy"
    operands = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    computation: Graph = attribute(Instance(Graph))
    in_shardings: tuple[TensorSharding, ...] = attribute(Shardings)
    out_shardings: tuple[TensorSharding, ...] = attribute(Shardings)
    manual_axes: tuple[str, ...] = attribute(SequenceAttribute(Text()))

    def shape(self, *operands):
        shardings, wanted = self.in_shardings, self.computation.input_shapes
        if not len(operands) == len(shardings) == len(wanted):
            problem = f"{len(operands)} operands, {len(shardings)} shardings of operands, and "
            problem += f"{len(wanted)} inputs"
            self.refuse("C1", problem, "Pass one sharding for each operand.")
        outputs = self.computation.output_shapes
        if len(outputs) != len(self.out_shardings):
            problem = f"{len(outputs)} results, and {len(self.out_shardings)} shardings of results"
            self.refuse("C1", problem, "Pass one sharding for each result.")
        self._check_mesh()
        for number, (shape, sharding) in enumerate(zip(operands, shardings, strict=True)):
            sharding.check_rank(shape, self.builder_name)
            piece = self._piece(shape, sharding, f"operand {number}")
            if piece is not wanted[number]:
                problem = f"operand {number} of shape {shape} has pieces {piece}, and input "
                problem += f"{number} is {wanted[number]}"
                self.refuse("C3", problem, "The computation takes pieces along manual axes.")
        pairs = enumerate(zip(outputs, self.out_shardings, strict=True))
        return tuple([self._whole(*pair, f"result {number}") for number, pair in pairs])

    def _check_mesh(self) -> None:
        meshes = {sharding.mesh for sharding in (*self.in_shardings, *self.out_shardings)}
        meshes = {mesh for mesh in meshes if not mesh.is_empty}
        if len(meshes) > 1:
            names = " and ".join(sorted(map(str, meshes)))
            self.refuse("C4", f"shardings are on several meshes, {names}", "Pass one mesh.")
        for mesh in meshes:
            for axis in self.manual_axes:
                if axis not in mesh.shape:
                    problem = f"the mesh {mesh} has no axis {axis}"
                    self.refuse("C4", problem, "Manual axes are axes of the mesh.")

    def manual_sizes(self, sharding: TensorSharding, what: str = "it") -> list[int]:
        """Return the number of pieces of each dimension along manual axes."""
        local_sizes = []
        for number, parts in enumerate(sharding.parts):
            manual = [part for part in parts if part.name in self.manual_axes]
            if tuple(manual) != parts[: len(manual)]:
                problem = f"in dimension {number} of {what} a manual axis comes after a free one"
                self.refuse("C2", f"{problem}: {sharding}", "Put manual axes first.")
            local_sizes.append(size_of(manual))
        return local_sizes

    def _piece(self, shape: Any, sharding: TensorSharding, what: str) -> Any:
        if not isinstance(shape, Shape):
            return shape
        sizes = self.manual_sizes(sharding, what)
        for number, (size, pieces) in enumerate(zip(shape.dimensions, sizes, strict=False)):
            if size % pieces:
                problem = (
                    f"dimension {number} of {what}, of size {size}, has no {pieces} equal parts"
                )
                self.refuse("C2", problem, "The manual axes' sizes divide the dimension's.")
            if pieces > 1:
                shape = shape.with_size(number, size // pieces)
        return shape

    def _whole(self, shape: Any, sharding: TensorSharding, what: str) -> Any:
        if not isinstance(shape, Shape):
            return shape
        sharding.check_rank(shape, self.builder_name)
        for number, pieces in enumerate(self.manual_sizes(sharding, what)):
            if pieces > 1:
                shape = shape.with_size(number, shape.dimensions[number] * pieces)
        return shape

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host and all(self.mesh.shape[name] == 1 for name in self.manual_axes):
            # In programs for one device, XLA does not know the instruction.
            return Call(self.computation).stablehlo(emit, operands, shapes, results)
        # Side effects are ordered on each device, because SDY does not support tokens.
        return self.write(emit, operands, shapes, results)

    def write(self, emit, operands, shapes, results):
        region = emit.region(self.computation, "sdy.return")
        axes = ", ".join(map(quoted, self.manual_axes))
        texts = {
            "in_shardings": emit.shardings(self.in_shardings),
            "manual_axes": f"#sdy<manual_axes{{{axes}}}>",
            "out_shardings": emit.shardings(self.out_shardings),
        }
        name = "sdy.manual_computation"
        return emit.operation(name, operands, shapes, results, [region], **texts)

    def hlo_attributes(self, shapes):
        printed = ("in_shardings", "out_shardings", "manual_axes")
        texts = {key: ", ".join(map(str, self.values[key])).replace('"', "'") for key in printed}
        return {
            **{key: hlo_quoted(text) for key, text in texts.items()},
            "to_apply": self.computation,
        }

    def data_flow(self, *operands):
        return through(self.computation)

    @property
    def mesh(self) -> Mesh:
        """The mesh of its shardings; an empty mesh if it has no shardings."""
        shardings = (*self.in_shardings, *self.out_shardings)
        return next((sharding.mesh for sharding in shardings if not sharding.mesh.is_empty), Mesh())

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes that are needed to run it."""
        return (self.mesh,)

    @property
    def operand_shardings(self) -> Sequence[TensorSharding]:
        return self.in_shardings

    def reference(self, *operands):
        mesh, axes = self.mesh, self.manual_axes
        places = mesh.places(axes).tolist()
        pairs = zip(operands, self.in_shardings, strict=True)
        cuts: Any = [_slices(self, at, x.shape) for x, at in pairs]

        def device(number: int) -> Callable[[], list[Any]]:
            pairs = zip(operands, cuts, strict=True)
            pieces = [x[indices[places[number]]] for x, indices in pairs]
            return lambda: reference_graph(self.computation, pieces)

        count = mesh.size
        simulated = Simulation(list(map(device, range(count))), count, [()] * count, {}).run()
        # Along axes that are not manual, all devices hold the same values.
        group_of_device = next(group for group in mesh.groups(axes) if self._number(count) in group)
        results = []
        for index, sharding in enumerate(self.out_shardings):
            pieces = [simulated[number][index] for number in group_of_device]
            whole = self._whole(self.computation.output_shapes[index], sharding, "")
            result = np.empty(whole.dimensions, pieces[0].dtype)
            places = _slices(self, sharding, whole.dimensions)
            # If all devices hold the same values, use those of the first.
            for at, piece in reversed([*zip(places, pieces, strict=True)]):
                result[at] = piece
            results.append(result)
        return tuple(results)

    def _number(self, count: int) -> int:
        process = current_process()
        return process.partition if process.partition_count == count else 0

    def manual(self, sharding: TensorSharding) -> list[list[Part]]:
        """Return the manual axes of each dimension, with their sizes."""
        return [
            [part for part in parts if part.name in self.manual_axes] for parts in sharding.parts
        ]

    def unmentioned(self, sharding: TensorSharding) -> tuple[str, ...]:
        """Return the manual axes along which all devices hold the same values."""
        return tuple([name for name in self.manual_axes if name not in sharding.cut_along])

    def of_derived(self, computation: Graph, given: Any, wanted: Any) -> "ManualComputation":
        """Return the operation for a program derived from the computation, with its shardings."""
        return type(self)(computation, tuple(given), tuple(wanted), self.manual_axes)

    def entered(self, trace, known):
        def of_each(shardings: Any, shapes: Any, known: Any) -> list[TensorSharding]:
            triples = zip(shardings, shapes, known, strict=True)
            return [sharding for sharding, *pair in triples for _ in trace.shapes_of(*pair)]

        graph, out = entered_graph(self.computation, trace, known)
        in_shardings = of_each(self.in_shardings, self.computation.input_shapes, known)
        wanted = of_each(self.out_shardings, self.computation.output_shapes, out)
        return self.of_derived(graph, in_shardings, wanted), known, out

    def linearize(self, operands, active):
        graphs = vjp_graphs(self.computation, tuple(active))
        outputs = self.out_shardings
        forward, backward, kept, again = _halves(graphs.forward, graphs.backward, len(outputs))
        stacked = [self._stacked(array_shape(residual.shape).rank) for residual in kept]
        everything = self.of_derived(forward, self.in_shardings, (*outputs, *stacked))(*operands)
        results, residuals = everything[: len(outputs)], everything[len(outputs) :]
        residuals = (*residuals, *[operands[number] for number in again])
        held = (*stacked, *[self.in_shardings[number] for number in again])
        given = tuple(compress(outputs, graphs.active_outputs))
        wanted = tuple(compress(self.in_shardings, graphs.active_inputs))

        def pull(*cotangents: Any) -> Sequence[Any]:
            alike = tuple(map(self.unmentioned, given)), tuple(map(self.unmentioned, wanted))
            graph, shared = _summed(backward, *alike, self.mesh)
            numbers = [self.numbers_along(axes) for axes in shared]
            places = [self._along(axes, 0) for axes in shared]
            operands = (*numbers, *residuals, *cotangents)
            return self.of_derived(graph, (*places, *held, *given), wanted)(*operands)

        return results, pullback_by(pull, results, graphs.active_outputs, graphs.active_inputs)

    def numbers_along(self, axes: Sequence[str]) -> np.ndarray:
        """Return the ids of the devices along some axes, as an array that is sharded along them."""
        return np.arange(len(self.mesh.groups(axes)[0]), dtype=np.int32)

    def _stacked(self, rank: int) -> TensorSharding:
        """Return the sharding of per-device values: a new first dimension has the devices."""
        return self._along(self.manual_axes, rank)

    def _along(self, axes: Sequence[str], rank: int) -> TensorSharding:
        """Return the sharding of an array with a new first dimension, sharded along some axes."""
        first = DimensionSharding(tuple(map(AxisRef, axes)))
        dimensions = (first, *[DimensionSharding((), False)] * rank)
        sharding, rest = TensorSharding(self.mesh, dimensions), set(self.manual_axes) - set(axes)
        return sharding.replicated_along(rest, _name(self))

    def batch_of(self, size, operands, dimensions):
        made = batched_graph(self.computation, tuple(dimensions), size)
        in_shardings = _batched(self.in_shardings, dimensions)
        wanted = _batched(self.out_shardings, made.known)
        return self.of_derived(made.graph, in_shardings, wanted)(*operands), made.known


def _name(operation: ManualComputation) -> str | None:
    shardings = (*operation.in_shardings, *operation.out_shardings)
    return next((sharding.mesh_name for sharding in shardings), None)


def _batched(shardings: Any, dimensions: Sequence[int | None]) -> list[TensorSharding]:
    pairs = zip(shardings, dimensions, strict=True)
    return [sharding if at is None else with_open(sharding, at) for sharding, at in pairs]


def _slices(
    operation: ManualComputation, sharding: TensorSharding, sizes: Sequence[int]
) -> list[tuple[slice, ...]]:
    """Return the slices of the pieces of a device group in an array with some sizes."""
    mesh, axes, parts = operation.mesh, operation.manual_axes, operation.manual(sharding)
    places = []
    for place in np.ndindex(*[mesh.shape[name] for name in axes]):
        at, slices = dict(zip(axes, place, strict=True)), []
        for size, axis_parts in zip(sizes, parts, strict=True):
            index, piece = mesh.piece(axis_parts, at), size // size_of(axis_parts)
            slices.append(slice(index * piece, (index + 1) * piece))
        places.append(tuple(slices))
    return places


def _alone(value: Any) -> Any:
    """Return a value as the only element of a new first dimension."""
    return ops.reshape(value, (1, *array_shape(value).dimensions))


@remembered
def _halves(
    forward: Graph, backward: Graph, count: int
) -> tuple[Graph, Graph, list[Value], list[int]]:
    """Return the halves of a reverse derivative with stacked residuals, one for each device.

    Residuals that are inputs are passed again, as the last residuals of the second half. The others
    come first. The result also has the indices of these inputs.
    """
    residuals = forward.outputs[count:]
    inputs = {value: number for number, value in enumerate(forward.inputs)}
    kept = [value for value in residuals if value not in inputs]
    again = [inputs[value] for value in residuals if value in inputs]
    order = [n for n, value in enumerate(residuals) if value not in inputs]
    order += [n for n, value in enumerate(residuals) if value in inputs]

    def first(*operands: Any) -> list[Any]:
        outputs = evaluate_graph(forward, operands)
        chosen = [outputs[count + number] for number in order[: len(kept)]]
        return [*outputs[:count], *map(_alone, chosen)]

    def second(*operands: Any) -> list[Any]:
        by_order = dict(zip(order, operands, strict=False))
        for number in order[: len(kept)]:
            by_order[number] = ops.reshape(
                by_order[number], array_shape(by_order[number]).dimensions[1:]
            )
        values_in_order = [by_order[number] for number in range(len(order))]
        return evaluate_graph(backward, [*values_in_order, *operands[len(order) :]])

    shapes = [array_shape(residual.shape).with_dimension(0, 1) for residual in kept]
    shapes += [forward.input_shapes[number] for number in again]
    shapes += backward.input_shapes[len(order) :]
    made = (
        program(first, forward.input_shapes, forward.name),
        program(second, shapes, backward.name),
    )
    return *made, kept, again


@remembered
def _summed(half: Graph, given: Any, wanted: Any, mesh: Mesh) -> tuple[Graph, list[Any]]:
    """Return the second half of a reverse derivative, on each device.

    A result that is equal along some axes is that of the first device along them: the cotangents on
    other devices are zero. An operand that is equal along some axes went to all devices: its
    cotangent is the sum of theirs. `given` and `wanted` are the axes of the cotangents that it
    takes and returns. The result also has lists of axes: for each, the device's index is an
    additional first operand.
    """
    if not any((*given, *wanted)):
        return half, []
    kept, shared = len(half.inputs) - len(given), list(dict.fromkeys(filter(None, given)))

    def function(*values: Any) -> list[Any]:
        places, values = dict(zip(shared, values, strict=False)), values[len(shared) :]
        cotangents = []
        for value, axes in zip(values[kept:], given, strict=True):
            if axes:
                is_first = ops.eq(ops.reshape(places[axes], ()), np.zeros((), np.int32))
                value = ops.select(is_first, value, zeros_like(value))
            cotangents.append(value)
        results = evaluate_graph(half, [*values[:kept], *cotangents])
        channels = numbers(1)

        def total(value: Any, axes: Sequence[str]) -> Any:
            groups = mesh.groups(axes)
            return ops.all_reduce(
                value, ops.add, groups, next(channels), use_global_device_ids=True
            )

        return [total(x, axes) if axes else x for x, axes in zip(results, wanted, strict=True)]

    shapes = [*[Shape("s32", (1,))] * len(shared), *half.input_shapes]
    return program(function, shapes, half.name), shared


def member_of(mesh: Mesh, names: Sequence[str], free: Sequence[str] = ()) -> Any:
    """Return the index of this device along some axes, as s32[]; see `Mesh.groups`.

    `free` are the axes that are not manual at this point.
    """
    if free:  # XLA knows the index of a partition only if all axes are manual
        graph = program(lambda: [member_of(mesh, names)], [], "axis_index")
        everywhere = TensorSharding(mesh).replicated_along(free, MESH_NAME)
        return ManualComputation(graph, (), (everywhere,), tuple(free))()[0]
    number: Any = ops.partition_id()
    if len(names) == 1 and mesh.device_ids is None:
        at = mesh.order[names[0]]
        minor, size = math.prod(mesh.axis_sizes[at + 1 :]), mesh.axis_sizes[at]
        if minor > 1:
            number = ops.div(number, np.uint32(minor))
        if minor * size < mesh.size:
            number = ops.rem(number, np.uint32(size))
        return ops.convert_element_type(number, "s32")
    return ops.reshape(ops.dynamic_slice(mesh.places(names), [number], (1,)), ())
