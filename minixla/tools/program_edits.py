"""Edits of a program with its operands: values cut off, instructions replaced, sizes changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.registry import role
from minixla.core.shapes import AnyShape, Shape
from minixla_ops.programs.runs_programs import RunsPrograms


class Program(NamedTuple):
    """A graph and the arrays that it takes."""

    graph: Graph
    operands: tuple[np.ndarray, ...]


class Editor:
    """A copy of a graph with edits, made step by step.

    Attributes:
        inputs: the inputs of the new graph.
        operands: the arrays of inputs that were added.
        steps: the instructions of the new graph.
        values: maps each value of the old graph to the new one.
    """

    def __init__(self, graph: Graph, shapes: Sequence[AnyShape] | None = None) -> None:
        shapes = graph.input_shapes if shapes is None else shapes
        self.graph = graph
        self.inputs = [Value(shape, None, index) for index, shape in enumerate(shapes)]
        self.operands: list[np.ndarray] = []
        self.steps: list[Instruction] = []
        self.values: dict[Value, Value] = dict(zip(graph.inputs, self.inputs, strict=True))

    def add_input(self, array: np.ndarray) -> Value:
        """Add an input for an array."""
        self.inputs.append(Value(Shape(array.dtype, array.shape), None, len(self.inputs)))
        self.operands.append(array)
        return self.inputs[-1]

    def constant(self, array: np.ndarray) -> Value:
        """Add a constant; an array that repeats one value is held once."""
        is_splat = array.size > 1 and len({element.tobytes() for element in array.ravel()}) == 1
        shape = Shape(array.dtype, array.shape)
        literal = Literal.splat(array.ravel()[0], shape) if is_splat else Literal(array, shape)
        return self.add(role("constant")(literal), ())[0]

    def add(
        self, op: Operation, operands: Sequence[Value], source: Any = None
    ) -> tuple[Value, ...]:
        """Add an instruction and return its results."""
        shapes = op.infer(tuple([operand.shape for operand in operands]))
        self.steps.append(Instruction(op, tuple(operands), shapes, source))
        return self.steps[-1].results

    def copy(self, step: Instruction, op: Operation | None = None) -> tuple[Value, ...]:
        """Add an instruction of the old graph on the new operands, or another operation."""
        return self.add(op or step.op, [self.values[x] for x in step.operands], step.source)

    def inline(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        """Add the instructions of a program and return its outputs."""
        values = dict(zip(graph.inputs, operands, strict=True))
        for step in graph.instructions:
            results = self.add(step.op, [values[x] for x in step.operands], step.source)
            values.update(zip(step.results, results, strict=True))
        return [values[value] for value in graph.outputs]

    def run(self, decide: Callable[[Editor, Instruction], Sequence[Value] | None]) -> Graph:
        """Return the graph where `decide` gives the results of each instruction.

        None stands for the instruction as it is.
        """
        for step in self.graph.instructions:
            results = decide(self, step)
            results = self.copy(step) if results is None else results
            self.values.update(zip(step.results, results, strict=True))
        outputs = [self.values[value] for value in self.graph.outputs]
        return Graph(self.inputs, self.steps, outputs, self.graph.name).pruned()


def tidy(program: Program) -> Program:
    """Return the program without instructions and inputs that no output depends on."""
    graph = program.graph.pruned()
    used = {*graph.outputs, *[value for step in graph.instructions for value in step.operands]}
    flags = [value in used for value in graph.inputs]
    if all(flags) and graph is program.graph:
        return program
    inputs = [value for value, flag in zip(graph.inputs, flags, strict=True) if flag]
    operands = [array for array, flag in zip(program.operands, flags, strict=True) if flag]
    return Program(Graph(inputs, graph.instructions, graph.outputs, graph.name), tuple(operands))


def showing(program: Program, outputs: Sequence[Value]) -> Program:
    """Return the program with some of its values as outputs."""
    graph = program.graph
    return tidy(
        Program(Graph(graph.inputs, graph.instructions, outputs, graph.name), program.operands)
    )


def cut(program: Program, arrays: Mapping[Value, np.ndarray], as_constants: bool) -> Program:
    """Return the program that takes some of its values as inputs, or holds them as constants."""

    def decide(editor: Editor, step: Instruction) -> Sequence[Value] | None:
        if arrays.keys().isdisjoint(step.results):
            return None
        add = editor.constant if as_constants else editor.add_input
        if all(value in arrays for value in step.results):
            return [add(arrays[value]) for value in step.results]
        results = editor.copy(step)
        pairs = zip(step.results, results, strict=True)
        return [add(arrays[old]) if old in arrays else new for old, new in pairs]

    editor = Editor(program.graph)
    graph = editor.run(decide)
    return tidy(Program(graph, (*program.operands, *editor.operands)))


def is_constant(step: Instruction) -> bool:
    """Test whether an instruction is a constant."""
    return type(step.op) is role("constant")


def inner_programs(step: Instruction) -> Sequence[Graph]:
    """Return the programs that an instruction runs, without reducers."""
    return list(step.op.computations) if isinstance(step.op, RunsPrograms) else []


def instruction_count(graph: Graph) -> int:
    """Count the instructions of a program and its inner programs, except constants and reducers."""
    count = 0
    for step in graph.instructions:
        count += 0 if is_constant(step) else 1
        distinct = {id(inner): inner for inner in inner_programs(step)}
        count += sum(map(instruction_count, distinct.values()))
    return count


def exchanged(op: Operation, old: Graph, new: Graph) -> Operation:
    """Return an operation with another program in place of one of its programs."""

    def change(value: Any) -> Any:
        if type(value) is tuple:
            return tuple([change(element) for element in value])
        return new if value is old else value

    return op.changed(change)


def replacing(graph: Graph, step: Instruction, results: Any) -> Graph:
    """Return a graph where `results(editor)` gives the results of one instruction."""
    return Editor(graph).run(lambda editor, each: results(editor) if each is step else None)


def with_inner(graph: Graph, step: Instruction, old: Graph, make: Callable[[], Graph]) -> Graph:
    """Return a graph with another inner program in an instruction."""
    new = make()
    return replacing(graph, step, lambda editor: editor.copy(step, exchanged(step.op, old, new)))


def resized(program: Program, sizes: Mapping[int, int], is_last: bool) -> Program:
    """Return the program with other sizes of dimensions, in shapes and attributes.

    Arrays keep their first elements, or their last ones. The result may be invalid or another
    program: only trying shows.
    """

    def array(old: np.ndarray) -> np.ndarray:
        slices = []
        for size in old.shape:
            new = sizes.get(size, size)
            slices.append(slice(size - new, None) if is_last else slice(0, new))
        return old[tuple(slices)]

    def change(value: Any) -> Any:
        if isinstance(value, Shape):
            return value.with_dimensions(tuple([change(size) for size in value.dimensions]))
        if isinstance(value, Literal):
            return Literal(array(value.array), change(value.shape))
        if isinstance(value, Graph):
            return changed(value)
        if type(value) is int:
            return sizes.get(value, value)
        if isinstance(value, tuple):
            elements = [change(element) for element in value]
            return type(value)(*elements) if hasattr(value, "_fields") else tuple(elements)
        return value

    def changed(graph: Graph) -> Graph:
        editor = Editor(graph, [change(shape) for shape in graph.input_shapes])
        return editor.run(lambda editor, step: editor.copy(step, step.op.changed(change)))

    operands = tuple([array(operand) for operand in program.operands])
    return tidy(Program(changed(program.graph), operands))
