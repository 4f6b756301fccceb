"""Programs in double: what `mx.reference(f, precision="float64")` computes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.attributes import Literal
from minixla.core.element_types import ELEMENT_TYPES, ElementType
from minixla.core.graph import Graph, Instruction, Value, remembered
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla_ops.elementwise.conversion import ConvertElementType


def widened(value: Any) -> Any:
    """An attribute for computing in double: types, and programs with all that they hold."""
    if isinstance(value, ElementType):
        return wide_type(value)
    if isinstance(value, Graph):
        return _wide_graph(value)
    if type(value) is tuple:
        return tuple(map(widened, value))
    return value


def wide_type(declared: ElementType) -> ElementType:
    """f64 or c128 for floats and complex numbers, other types as they are."""
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
    """The program in double, for the reference rules of operations that run it."""
    values = {
        id(value): Value(_wide_shape(value.shape), None, value.index) for value in graph.inputs
    }
    instructions: list[Instruction] = []
    for step in graph.instructions:
        operands = tuple([values[id(value)] for value in step.operands])
        if step.op.reads_bits:
            values.update(_with_own_bits(step, operands, instructions))
            continue
        shapes = tuple(map(_wide_shape, step.shapes))
        results = shapes[0] if step.single else shapes
        wide = Instruction(step.op.changed(_wide_inside), operands, results, step.source)
        instructions.append(wide)
        values.update(zip(map(id, step.results), wide.results, strict=True))
    inputs = [values[id(value)] for value in graph.inputs]
    outputs = [values[id(value)] for value in graph.outputs]
    return Graph(inputs, instructions, outputs, graph.name)


def _with_own_bits(
    step: Instruction, operands: Sequence[Value], instructions: list[Instruction]
) -> dict[int, Value]:
    """Adds an operation in its own types, between conversions; gives its results by identity."""

    def converted(value: Value, shape: AnyShape) -> Value:
        if value.shape is shape or not isinstance(shape, Shape):
            return value
        convert = ConvertElementType(shape.element_type)
        instructions.append(Instruction(convert, (value,), shape, step.source))
        return instructions[-1].results[0]

    pairs = zip(operands, step.operands, strict=True)
    given = tuple([converted(wide, declared.shape) for wide, declared in pairs])
    narrow = step.again(given)
    instructions.append(narrow)
    found = zip(step.results, narrow.results, strict=True)
    return {id(old): converted(new, _wide_shape(new.shape)) for old, new in found}


def _wide_inside(value: Any) -> Any:
    """An attribute inside a program, where nobody widens results afterwards."""
    if isinstance(value, (Shape, TupleShape)):
        return _wide_shape(value)
    if isinstance(value, Literal):
        shape = value.shape.with_element_type(wide_type(value.shape.element_type))
        if value.is_splat:
            return Literal.splat(value.scalar, shape)
        return Literal(value.array.astype(shape.dtype), shape)
    return widened(value)
