"""The trace that evaluates operations by their reference rules in NumPy.

`mx.reference(f, precision="float64")` evaluates programs in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core import tracer as tracers
from minixla.core.attributes import Literal
from minixla.core.element_types import ELEMENT_TYPES, ElementType
from minixla.core.errors import MinixlaError, ShapeError, explain, too_large
from minixla.core.graph import Graph, Instruction, Value, remembered
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape, TupleShape, TupleValue, shape_of_data, snapshot
from minixla.core.source import Source
from minixla.core.tracing import Trace
from minixla_ops.dump_only.operations import Bitcast
from minixla_ops.elementwise.conversion import BitcastConvertType, ConvertElementType
from minixla_ops.programs.runs_programs import SpansDevices

# Operations that depend on the representation of their types. They run in the declared types even
# if everything else runs in double precision.
_READ_BITS = (Bitcast, BitcastConvertType)


class ReferenceTracer(tracers.Tracer):
    """An array (or token) in NumPy, with its declared element type."""

    __slots__ = ("data",)

    def __init__(self, trace: ReferenceTrace, data: Any, shape: AnyShape) -> None:
        self._trace, self._shape, self._weak, self.data = trace, shape, False, data

    def _weak_copy(self) -> ReferenceTracer:
        copied = ReferenceTracer(self._trace, self.data, self._shape)
        copied._mark_weak()
        return copied

    def _concrete(self, wanted: str) -> Any:
        return self.data

    def to_concrete_value(self) -> Any:
        """Return the value, which is always known."""
        return self.data


class ReferenceTrace(Trace):
    """A trace that evaluates operations immediately in NumPy, as declared or in double."""

    transformation = "reference"
    __slots__ = ("widen",)

    def __init__(self, parent: Trace, precision: str | None = None) -> None:
        super().__init__(parent)
        self.widen = precision == "float64"

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        if operation.run is not None and not isinstance(
            operation, SpansDevices
        ):  # NumPy runs on one device
            return operation.run(*operands)
        return self.evaluate(operation, operands)

    def evaluate(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """Return the result of the reference rule, also for operations with another `run`."""
        values = [self.lift(operand, operation.builder_name) for operand in operands]
        shapes = tuple(map(tracers.shape_of, values))
        results = operation.infer(shapes)
        data = list(map(_data_of, values))
        if self.widen and isinstance(operation, _READ_BITS):
            declared = [shape.dtype for shape in operation.array_shapes(shapes)]
            data = [item.astype(dtype) for item, dtype in zip(data, declared, strict=True)]
        elif self.widen:
            operation = operation.changed(widened)
        try:
            # NumPy's warnings would show lines of the rule; compiled programs do not warn.
            with np.errstate(all="ignore"):
                outcome = operation.reference(*data)
        except (MemoryError, ValueError) as error:
            raise _explained(error, operation.builder_name, shapes, results) from None
        if type(results) is not tuple:
            return self._wrap(operation, outcome, results)  # type: ignore[arg-type]  # one shape
        pairs = zip(outcome, results, strict=True)
        return tuple([self._wrap(operation, data, shape) for data, shape in pairs])

    def lift(self, value: Any, subject: str = "reference") -> Any:
        if isinstance(value, ReferenceTracer) and value._trace is self:
            return value
        if isinstance(value, tracers.Tracer):
            raise tracers.leaked(value, subject)
        if isinstance(value, TupleValue):
            return TupleValue([self.lift(element, subject) for element in value.elements])
        shape = shape_of_data(value)
        if shape is None:
            raise tracers.not_a_value(value, subject)
        is_number = isinstance(value, int)
        data = tracers.host_array(value, shape, subject) if is_number else np.asarray(value)
        data = snapshot(data) if data is value else data
        tracer = ReferenceTracer(self, self._convert(data, shape), shape)
        tracer._weak = tracers.weak_type_of(value)
        return tracer

    def _convert(self, data: np.ndarray, shape: Shape) -> np.ndarray:
        wanted = wide_type(shape.element_type) if self.widen else shape.element_type
        return data if data.dtype == wanted.dtype else data.astype(wanted.dtype)

    def _wrap(self, operation: Operation, data: Any, shape: AnyShape) -> Any:
        if isinstance(shape, TupleShape):
            members = zip(data, shape.elements, strict=True)
            return TupleValue([self._wrap(operation, *member) for member in members])
        if isinstance(shape, Shape):
            data = np.asarray(data)
            if self.widen:
                data = self._convert(data, shape)
            elif data.dtype != shape.dtype or not _fits(data.shape, shape):
                description = (
                    f"the reference rule of {operation.name} returned {data.dtype}{[*data.shape]}"
                )
                raise AssertionError(f"{description}, but the shape rule {shape}")
        return ReferenceTracer(self, data, shape)


def _explained(error: Exception, subject: str, shapes: Sequence[AnyShape], results: Any) -> Any:
    if isinstance(error, MinixlaError):  # from an inner operation, which it names
        return error
    listed = ", ".join(map(str, results if type(results) is tuple else (results,)))
    details = [f"operands ({', '.join(map(str, shapes))})"] if shapes else []
    if isinstance(error, MemoryError):
        return too_large(subject, f"not enough memory to compute {listed}", details)
    if "maximum supported dimension" not in str(error):
        return error
    problem = "NumPy supports at most 64 dimensions"
    advice = "Compile the program with mx.jit, or merge dimensions."
    return explain(ShapeError, subject, problem, [*details, f"results {listed}"], advice)


def _fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    if sizes == shape.dimensions:
        return True
    return len(sizes) == shape.rank and all(
        size == bound or (flag and size <= bound)
        for size, bound, flag in zip(sizes, shape.dimensions, shape.dynamic, strict=True)
    )


def _data_of(value: Any) -> Any:
    """Return the array, or a Python tuple of arrays, of a lifted value."""
    if isinstance(value, TupleValue):
        return tuple(map(_data_of, value.elements))
    return value.data


def widened(value: Any) -> Any:
    """Convert an attribute to double precision: types, and programs with all their contents."""
    if isinstance(value, ElementType):
        return wide_type(value)
    if isinstance(value, Graph):
        return _wide_graph(value)
    if type(value) is tuple:
        return tuple(map(widened, value))
    return value


def wide_type(declared: ElementType) -> ElementType:
    """Return f64 or c128 for floats and complex numbers, and other types unchanged."""
    if declared.is_float:
        return ELEMENT_TYPES["f64"]
    return ELEMENT_TYPES["c128"] if declared.is_complex else declared


def _wide_shape(shape: AnyShape) -> AnyShape:
    if isinstance(shape, TupleShape):
        return TupleShape(map(_wide_shape, shape.elements))
    if isinstance(shape, Shape):
        return shape.with_element_type(wide_type(shape.element_type))
    return shape


@remembered
def _wide_graph(graph: Graph) -> Graph:
    """Return the program in double precision, for the reference rules of operations that run it.

    Its shapes are not inferred, because a rule may only accept the declared types.
    """
    values = {
        id(value): Value(_wide_shape(value.shape), None, value.index) for value in graph.inputs
    }
    instructions: list[Instruction] = []

    def converted(value: Value, shape: AnyShape, source: Source | None) -> Value:
        if value.shape is shape or not isinstance(shape, Shape):
            return value
        convert = ConvertElementType(shape.element_type)
        instructions.append(Instruction(convert, (value,), shape, source))
        return instructions[-1].results[0]

    for step in graph.instructions:
        operands = [values[id(value)] for value in step.operands]
        if isinstance(step.op, _READ_BITS):  # in the declared types, between conversions
            pairs = zip(operands, step.operands, strict=True)
            made = step.again(
                [converted(wide, declared.shape, step.source) for wide, declared in pairs]
            )
        else:
            shapes = tuple(map(_wide_shape, step.shapes))
            results = shapes[0] if step.single else shapes
            wide = step.op.changed(_wide_inside)
            made = Instruction(wide, tuple(operands), results, step.source)
        instructions.append(made)
        found = [
            converted(result, _wide_shape(result.shape), step.source) for result in made.results
        ]
        values.update(zip(map(id, step.results), found, strict=True))
    inputs, outputs = (
        [values[id(x)] for x in values_of_side] for values_of_side in (graph.inputs, graph.outputs)
    )
    return Graph(inputs, instructions, outputs, graph.name)


def _wide_inside(value: Any) -> Any:
    """Convert an attribute inside a program, whose results are not converted afterwards."""
    if isinstance(value, (Shape, TupleShape)):
        return _wide_shape(value)
    if isinstance(value, Literal):
        shape = value.shape.with_element_type(wide_type(value.shape.element_type))
        if value.is_splat:
            return Literal.splat(value.scalar, shape)
        return Literal(value.array.astype(shape.dtype), shape)
    return widened(value)
