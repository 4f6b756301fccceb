"""Parts of graphs as graphs of their own: an instruction alone, all values, calls unfolded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph, shape_of

_CALLS = ("call", "composite-call", "fusion")


def is_array(value: Value) -> bool:
    """Whether a value is an array of fixed size: no tuple, token or array of dynamic size."""
    return isinstance(value.shape, Shape) and not value.shape.is_dynamic


def is_inexact(shape: AnyShape) -> bool:
    """Whether it is the shape of an array of floats or complex numbers."""
    return isinstance(shape, Shape) and shape.element_type.is_inexact


def inexact_part(
    function: Callable[..., Sequence[Any]], moving: Sequence[bool], given: Sequence[Any]
) -> Callable[..., list[Any]]:
    """The function of the marked arguments alone that gives floats and complex numbers alone."""

    def part(*some: Any) -> list[Any]:
        results = function(*spread(moving, some, given))
        return [each for each in results if is_inexact(shape_of(each))]

    return part


def is_call(step: Instruction) -> bool:
    """Whether an instruction only runs a program on its operands."""
    is_called = step.op.hlo_name in _CALLS and not step.op.spans_devices
    return is_called and len(step.op.computations) == 1


def copied(step: Instruction, operands: Sequence[Value]) -> Instruction:
    """The instruction on other operands of the same shapes."""
    shapes = step.results[0].shape if step.single else step.shapes
    return Instruction(step.op, tuple(operands), shapes, step.source)


def inlined(graph: Graph, unfolds: Callable[[Instruction], bool] = is_call) -> Graph:
    """The program with the programs that it calls in place of the calls.

    Args:
        graph: the program.
        unfolds: which instructions are calls to be replaced.
    """
    inputs = [Value(value.shape, None, index) for index, value in enumerate(graph.inputs)]
    made: list[Instruction] = []
    # An explicit stack: programs may be nested deeper than Python's recursion goes.
    stack = [_Frame(graph, inputs)]
    while True:
        frame = stack[-1]
        if frame.position == len(graph_steps := frame.graph.instructions):
            outputs = [frame.values[id(value)] for value in frame.graph.outputs]
            stack.pop()
            if not stack:
                return Graph(inputs, made, outputs, graph.name)
            caller = stack[-1]
            step = caller.graph.instructions[caller.position]
            caller.set(step.results, outputs)
            caller.position += 1
            continue
        step = graph_steps[frame.position]
        operands = [frame.values[id(value)] for value in step.operands]
        if unfolds(step):
            stack.append(_Frame(step.op.computations[0], operands))
        else:
            made.append(copied(step, operands))
            frame.set(step.results, made[-1].results)
            frame.position += 1


class _Frame:
    """A program that is being unfolded, and what its values have become."""

    def __init__(self, graph: Graph, operands: Sequence[Value]) -> None:
        self.graph = graph
        self.position = 0
        self.values: dict[int, Value] = {}
        self.set(graph.inputs, operands)

    def set(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        self.values.update(zip(map(id, values), others, strict=True))


def alone(step: Instruction) -> tuple[Graph, list[Value]]:
    """One instruction as a program, and the values that are its inputs.

    Constants stay constants: an operation may be written in another way where it reads one.
    """
    needed: list[Value] = []
    inputs: list[Value] = []
    steps: list[Instruction] = []
    values: dict[int, Value] = {}
    for value in step.operands:
        if id(value) in values:
            continue
        maker = value.instruction
        if maker is not None and not maker.operands and maker.op.name == "Constant":
            steps.append(copied(maker, ()))
            values[id(value)] = steps[-1].results[0]
        else:
            needed.append(value)
            inputs.append(Value(value.shape, None, len(inputs)))
            values[id(value)] = inputs[-1]
    steps.append(copied(step, [values[id(value)] for value in step.operands]))
    return Graph(inputs, steps, steps[-1].results, step.op.builder_name), needed


def alone_at(step: Instruction, operands: Sequence[Any]) -> tuple[Graph, list[Any]] | None:
    """An instruction as a program that gives arrays, and its inputs; None where it gives none.

    Args:
        step: the instruction.
        operands: what it is given.
    """
    graph, inputs = alone(step)
    known = dict(zip(map(id, step.operands), operands, strict=True))
    arrays = [value for value in graph.outputs if is_array(value)]
    return (showing(graph, arrays), [known[id(value)] for value in inputs]) if arrays else None


def composition_of(step: Instruction) -> Graph:
    """The program that a composed operation stands for, on operands of these shapes."""
    operation: Any = step.op
    return closed_graph(
        operation.composition,
        [value.shape for value in step.operands],
        operation.builder_name,
        operation.builder_name,
    )


def every_step(graph: Graph) -> Iterator[Instruction]:
    """The instructions of a graph and of the programs that they run."""
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            yield step
            pending.extend(step.op.computations)


def showing(graph: Graph, values: Sequence[Value]) -> Graph:
    """The program with `values` of it as its outputs."""
    return Graph(graph.inputs, graph.instructions, values, graph.name)
