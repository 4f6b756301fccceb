"""Parts of graphs as graphs of their own: an instruction alone, what runs inside it, its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph, shape_of
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.reference_evaluation import reference_graph

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
    values: dict[int, Value] = {}

    def read(some: Sequence[Value]) -> list[Value]:
        return [values[id(value)] for value in some]

    def become(some: Sequence[Value], others: Sequence[Value]) -> None:
        values.update(zip(map(id, some), others, strict=True))

    become(graph.inputs, inputs)
    # No recursion: programs may be nested deeper than Python's goes.
    calls: list[Instruction] = []
    left = [iter(graph.instructions)]
    while left:
        for step in left[-1]:
            if unfolds(step):
                called = step.op.computations[0]
                become(called.inputs, read(step.operands))
                calls.append(step)
                left.append(iter(called.instructions))
                break
            made.append(copied(step, read(step.operands)))
            become(step.results, made[-1].results)
        else:
            left.pop()
            if calls:
                call = calls.pop()
                become(call.results, read(call.op.computations[0].outputs))
    return Graph(inputs, made, read(graph.outputs), graph.name)


def alone(step: Instruction) -> tuple[Graph, list[Value]]:
    """One instruction as a program, and the values that are its inputs.

    Constants stay constants: an operation may be written in another way where it reads one.
    """
    inputs: dict[int, Value] = {}
    values: dict[int, Value] = {}
    steps: list[Instruction] = []
    for value in step.operands:
        if value.instruction is not None and value.literal is not None:
            steps.append(copied(value.instruction, ()))
            values[id(value)] = steps[-1].results[0]
        elif id(value) not in values:
            values[id(value)] = Value(value.shape, None, len(inputs))
            inputs[id(value)] = value
    steps.append(copied(step, [values[id(value)] for value in step.operands]))
    given = [values[key] for key in inputs]
    return Graph(given, steps, steps[-1].results, step.op.builder_name), list(inputs.values())


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


def needed_for(value: Value, graph: Graph) -> tuple[Instruction, ...]:
    """The instructions of a program that a value is computed from."""
    return showing(graph, [value]).pruned().instructions


def showing(graph: Graph, values: Sequence[Value]) -> Graph:
    """The program with `values` of it as its outputs."""
    return Graph(graph.inputs, graph.instructions, values, graph.name)


#: Of a loop, the first iterations are followed.
_MOST_TRIPS = 8

Run = tuple[Graph, Sequence[Any]]


def inner_runs(step: Instruction, operands: Sequence[Any]) -> Iterator[Run] | None:
    """The programs that an instruction runs, and the operands of each, in order.

    Args:
        step: the instruction.
        operands: its operands.

    Returns:
        Pairs, or None where the instruction is not made of programs (those that run for every
        element of an array, as in a reduction, are not followed).
    """
    if step.op.name == "While":
        return _of_loop(step, operands)
    if step.op.name == "Conditional":
        return _of_branch(step, operands)
    if isinstance(step.op, Composed) and step.op.computations:
        return iter([(composition_of(step), operands)])
    return None


def _of_loop(step: Instruction, operands: Sequence[Any]) -> Iterator[Run]:
    condition, body = step.op.condition, step.op.body
    values = operands
    for _ in range(_MOST_TRIPS):
        yield condition, values
        if not reference_graph(condition, values)[0]:
            return
        yield body, values
        values = reference_graph(body, values)


def _of_branch(step: Instruction, operands: Sequence[Any]) -> Iterator[Run]:
    branches = step.op.branches
    index = np.asarray(operands[0])
    number = int(not index) if index.dtype == np.bool_ else int(index)
    if not 0 <= number < len(branches):
        number = len(branches) - 1
    yield branches[number], operands[1:]
