"""The axes along which devices have different values, in a program that each device runs.

JAX: varying manual axes (`jax.typeof(x).vma`). Here they are found after tracing, and may be
fewer: a value that all devices gather is the same for all.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.derived import entered_graph
from minixla.core.graph import Graph, remembered
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.core.tracer import WrappingTracer, unwrapped, wrapped
from minixla.core.tracing import Trace, shape_of
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla_ops.collectives.collective_groups import Collective, PartitionID, ReplicaId
from minixla_ops.control_flow.loops import While
from minixla_ops.movement.constants import Constant
from minixla_ops.programs.call import Call
from minixla_ops.programs.runs_programs import RunsPrograms

Axes = frozenset[str]
Names = tuple[str, ...]


class Varying(NamedTuple):
    """The known properties of a value.

    Attributes:
        axes: the axes along which devices may have different values.
        elements: its elements, if they follow from the ids of devices: one tuple for all devices,
            or one for each.
    """

    axes: Axes = frozenset()
    elements: tuple[tuple[Any, ...], ...] | None = None


_SAME = Varying()


@remembered
def varying(graph: Graph, given: tuple[Names, ...], mesh: Mesh) -> tuple[Names, ...]:
    """Return for each output of a program the axes along which devices may have other values.

    Args:
        graph: the program of each device.
        given: these axes for each input.
        mesh: the devices.
    """
    trace, by_value = _VaryingTrace(None, mesh), {}
    for value, axes in zip(graph.inputs, given, strict=True):
        by_value[value] = Varying(Axes(axes))
    for step in graph.instructions:  # faster than `entered_graph`
        operands = [by_value[operand] for operand in step.operands]
        if (
            step.op.is_elementwise
            and operands
            and not any(operand.elements for operand in operands)
        ):
            axes = operands[0].axes
            if all(operand.axes <= axes for operand in operands):
                by_value.update(dict.fromkeys(step.results, operands[0]))
                continue
        shapes = [operand.shape for operand in step.operands]
        by_value.update(
            zip(step.results, trace.rule(step.op, shapes, operands, step.shapes), strict=True)
        )
    axes_of_outputs = [by_value[output].axes for output in graph.outputs]
    return tuple(
        [tuple([name for name in mesh.axis_names if name in axes]) for axes in axes_of_outputs]
    )


class _Varied(WrappingTracer):
    """A value with its known properties."""

    __slots__ = ()


class _VaryingTrace(Trace):
    """An analysis that follows the properties of values through programs."""

    prefix = "varying"
    __slots__ = ("axes", "mesh")

    def __init__(self, parent: Trace | None, mesh: Mesh) -> None:
        super().__init__(parent)
        self.mesh, self.axes = mesh, Axes(mesh.axis_names)

    @property
    def memo_key(self) -> Any:
        return "varying", self.mesh

    def again(self, parent: Trace) -> "_VaryingTrace":
        return _VaryingTrace(parent, self.mesh)

    def taken_apart(self, value: Any) -> tuple[list[Any], Varying]:
        values, known = super().taken_apart(value)
        return values, known or _SAME

    def put_together(self, values: Sequence[Any], known: Varying) -> Any:
        return _Varied(self, values[0], known)

    def joined(self, known: Varying, other: Varying) -> Varying:
        elements = known.elements if known.elements == other.elements else None
        return Varying(known.axes | other.axes, elements)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        values, known, _ = unwrapped(self, _Varied, operands)
        results = self.parent.process(operation, tuple(values))
        shapes = [
            shape_of(result) for result in (results if type(results) is tuple else (results,))
        ]
        operands_varying = [varying_axes or _SAME for varying_axes in known]
        varying_results = self.rule(
            operation, list(map(shape_of, values)), operands_varying, shapes
        )
        return wrapped(
            self,
            _Varied,
            results,
            varying_results if type(results) is tuple else varying_results[0],
        )

    def rule(
        self, op: Any, shapes: Sequence[Any], known: Sequence[Varying], results: Sequence[Any]
    ) -> Sequence[Varying]:
        """Return the properties of the results of an operation."""
        if isinstance(op, ManualComputation):
            return self._of_devices(op, known)
        if op.computations and (isinstance(op, RunsPrograms) or _is_call(op, shapes, results)):
            return self._of_programs(op, tuple(known))
        axes = _union(known)
        if isinstance(op, Constant):
            return [self._constant(op.literal)]
        if isinstance(op, PartitionID):
            return [self._of_elements([(number,) for number in range(self.mesh.size)])]
        if isinstance(op, Collective):
            axes = self._exchanged(op, axes)
        elif isinstance(op, ReplicaId) or op.has_side_effect:
            axes = self.axes
        elif known and all(operand.elements for operand in known):
            return self._computed(op, shapes, known, results) or [Varying(axes)] * len(results)
        return [Varying(axes)] * len(results)

    def _of_programs(self, op: Any, known: tuple[Varying, ...]) -> Sequence[Varying]:
        if not isinstance(op, RunsPrograms):
            return entered_graph(op.computations[0], self, known).known
        if not isinstance(op, Call):  # a step of a loop gets a slice of an array
            known = tuple([Varying(operand.axes) for operand in known])
        # Operands before those of the programs decide which one runs.
        count = len(known) - len(op.computations[0].inputs)
        deciding, (_, entered, outputs) = _union(known[:count]), op.entered(self, known[count:])
        if isinstance(op, While):
            deciding |= _union(entered_graph(op.condition, self, entered).known)
        return [Varying(output.axes | deciding) for output in outputs] if deciding else outputs

    def _of_devices(self, op: ManualComputation, known: Sequence[Varying]) -> list[Varying]:
        """Handle a program over more axes: it splits operands and joins results."""
        pairs, manual = zip(known, op.in_shardings, strict=True), Axes(op.manual_axes)
        cut = [
            (*(varying_axes.axes | (manual - Axes(op.unmentioned(at)))),)
            for varying_axes, at in pairs
        ]
        outputs = varying(op.computation, tuple(cut), self.mesh)
        return [Varying(Axes(axes) - manual) for axes in outputs]

    def _constant(self, literal: Literal) -> Varying:
        shape = literal.shape
        is_small = shape.size <= self.mesh.size and _is_whole(shape)
        return Varying(elements=(tuple(literal.array.flat),)) if is_small else _SAME

    def _computed(
        self, op: Operation, shapes: Sequence[Any], known: Sequence[Varying], results: Sequence[Any]
    ) -> list[Varying] | None:
        """Return properties that follow from the ids of devices, for results of one integer."""
        if len(results) > 1 or results[0].size != 1 or not _is_whole(results[0]):
            return None
        elements, columns = [], [operand.elements or () for operand in known]
        for number in range(max(map(len, columns))):
            rows = [column[number % len(column)] for column in columns]
            pairs = zip(rows, shapes, strict=True)
            arrays = [np.array(row, at.dtype).reshape(at.dimensions) for row, at in pairs]
            elements.append(tuple(np.ravel(op.reference(*arrays))))
        return [self._of_elements(elements)]

    def _of_elements(self, elements: Sequence[tuple[Any, ...]]) -> Varying:
        if len(elements) == 1:
            return Varying(elements=tuple(elements))
        table = np.array(elements)[self.mesh.numbers].reshape(*self.mesh.axis_sizes, -1)
        names = [
            name for name, at in self.mesh.order.items() if (table != table.take([0], at)).any()
        ]
        return Varying(Axes(names), tuple(elements))

    def _exchanged(self, op: Collective, axes: Axes) -> Axes:
        """Return the axes along which a collective's results differ, given its operands' axes."""
        if op.mode == "cross_replica":  # within each partition
            return axes
        if not op.gives_all_the_same:
            return axes | self._between(getattr(op, "source_target_pairs", op.replica_groups))
        groups = op.replica_groups or [tuple(self.mesh.numbers.flat)]
        names = self.mesh.axes_of(groups)
        if names is not None:
            ones = [name for name, size in self.mesh.shape.items() if size == 1]
            return axes - {*names, *ones}
        # Parts of an axis communicate: equal values stay equal if all groups have one size.
        sizes = set(map(len, groups))
        return axes if len(sizes) == 1 and len(groups) * max(sizes) == self.mesh.size else self.axes

    def _between(self, groups: Sequence[Sequence[int]]) -> Axes:
        """Return the axes along which members of a group have different indices."""
        order = np.argsort(self.mesh.numbers, None)
        places = np.transpose(np.unravel_index(order, self.mesh.axis_sizes))
        differ = [(places[list(group)] != places[group[0]]).any(0) for group in groups if group]
        flags = np.any(differ, 0) if differ else [False] * len(self.mesh.order)
        names = [name for name, flag in zip(self.mesh.order, flags, strict=True) if flag]
        return Axes(names)


def _is_whole(shape: Shape) -> bool:
    return not (shape.element_type.is_float or shape.element_type.is_complex)


def _union(known: Sequence[Varying]) -> Axes:
    return Axes().union(*[varying_axes.axes for varying_axes in known])


def _is_call(op: Any, shapes: Sequence[Any], results: Sequence[Any]) -> bool:
    """Test whether an operation returns the results of its one program for its operands."""
    program, *others = op.computations
    sides = (program.input_shapes, tuple(shapes)), (program.output_shapes, tuple(results))
    return not others and all(one == other for one, other in sides)
