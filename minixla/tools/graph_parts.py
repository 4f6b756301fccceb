"""Parts of graphs as graphs of their own: an instruction alone, what runs inside it, its calls."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value, part_of
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph, shape_of
from minixla_ops.programs.lowering import is_lowered
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import CallsProgram


def is_array(value: Value) -> bool:
    """Whether a value is an array of fixed size: no tuple, token or array of dynamic size."""
    return isinstance(value.shape, Shape) and not value.shape.is_dynamic


def is_inexact(shape: AnyShape) -> bool:
    """Whether it is the shape of an array of floats or complex numbers."""
    return isinstance(shape, Shape) and shape.element_type.is_inexact


def type_of(value: Value) -> ElementType:
    """The element type of an array."""
    return cast(Shape, value.shape).element_type


def inexact_part(function: Any, moving: Sequence[bool], fixed: Sequence[Any]) -> Callable[..., Any]:
    """The function of the marked arguments alone that gives floats and complex numbers alone."""

    def part(*some: Any) -> list[Any]:
        results = function(*spread(moving, some, fixed))
        return [result for result in results if is_inexact(shape_of(result))]

    return part


def is_call(step: Instruction) -> bool:
    """Whether an instruction only runs a program on its operands."""
    return isinstance(step.op, CallsProgram)


class Unfolded(Instruction):
    """An instruction of a program whose calls are unfolded, which knows where it stood.

    Attributes:
        place: its number in the program that it is of, behind the place of the call of that.
    """

    __slots__ = ("place",)
    place: "_Place"


#: A chain, so that what is nested deeply needs no long names.
_Place = tuple["_Place | None", int]


def node_name(step: Instruction, graph: Graph) -> str:
    """The name of an instruction of a graph in pictures of what the graph was unfolded from."""
    if not isinstance(step, Unfolded):
        return str(graph.instructions.index(step))
    numbers: list[str] = []
    place: _Place | None = step.place
    while place is not None:
        place, number = place
        numbers.append(str(number))
    return ".0.".join(reversed(numbers))  # a call runs one program


def inlined(graph: Graph, unfolds: Callable[[Instruction], bool] = is_call) -> Graph:
    """The program with the programs that it calls in place of the calls that `unfolds` marks.

    Its instructions are `Unfolded`.
    """
    inputs = [Value(value.shape, None, index) for index, value in enumerate(graph.inputs)]
    made: list[Instruction] = []
    values = dict(zip(graph.inputs, inputs, strict=True))

    def read(some: Sequence[Value]) -> list[Value]:
        return [values[value] for value in some]

    # No recursion: programs may be nested deeper than Python's goes.
    left: list[tuple[Iterator[tuple[int, Any]], Any, _Place | None]]
    left = [(enumerate(graph.instructions), None, None)]
    while left:
        steps, call, outside = left[-1]
        number, step = next(steps, (0, None))
        if step is None:
            left.pop()
            if call is not None:
                values.update(zip(call.results, read(call.op.computations[0].outputs), strict=True))
        elif unfolds(step):
            called = step.op.computations[0]
            values.update(zip(called.inputs, read(step.operands), strict=True))
            left.append((enumerate(called.instructions), step, (outside, number)))
        else:
            again = Unfolded(step.op, tuple(read(step.operands)), step.result_shapes, step.source)
            again.place = outside, number
            made.append(again)
            values.update(zip(step.results, again.results, strict=True))
    return Graph(inputs, made, read(graph.outputs), graph.name, paths=graph.paths)


def alone_at(step: Instruction, operands: Sequence[Any]) -> tuple[Graph, list[Any]] | None:
    """An instruction as a program that gives arrays, and its inputs; None where it gives none."""
    values: dict[Any, Any] = dict(zip(step.operands, operands, strict=True))
    # Constants stay constants: an operation may be written in another way where it reads one.
    constants = [value.instruction for value in values if value.literal is not None]
    inputs = {value: operand for value, operand in values.items() if value.literal is None}
    arrays = list(filter(is_array, step.results))
    program = part_of(list(inputs), [*constants, step], arrays, step.op.builder_name)
    return (program, list(inputs.values())) if arrays else None


def composition_of(step: Instruction) -> Graph:
    """The program that a composed operation stands for, on operands of these shapes."""
    shapes, name = [value.shape for value in step.operands], step.op.builder_name
    return closed_graph(step.op.lowered, shapes, name, name)


def every_step(graph: Graph) -> Iterator[Instruction]:
    """The instructions of a graph and of the programs that they run."""
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            yield step
            pending.extend(step.op.computations)


def all_values(graph: Graph) -> list[Value]:
    """The inputs of a program, and what its instructions give."""
    return [*graph.inputs, *[value for step in graph.instructions for value in step.results]]


def needed_for(value: Value, graph: Graph) -> tuple[Instruction, ...]:
    """The instructions of a program that a value is computed from."""
    return showing(graph, [value]).pruned().instructions


def showing(graph: Graph, values: Sequence[Value]) -> Graph:
    """The program with `values` of it as its outputs."""
    return Graph(graph.inputs, graph.instructions, values, graph.name)


#: Of a loop, the first iterations are followed.
_MOST_TRIPS = 8

Run = tuple[Graph, Sequence[Any]]


def inner_runs(
    step: Instruction, operands: Sequence[Any], trips: int = _MOST_TRIPS
) -> Iterator[Run] | None:
    """The programs that an instruction runs on some operands, and the operands of each, in order.

    None where it is not made of programs: those that run for every element of an array, as in a
    reduction, are not followed. Of a loop, the first `trips` iterations are.
    """
    if step.op.name == "While":
        return _of_loop(step.op.condition, step.op.body, operands, trips)
    if step.op.name == "Conditional":
        return iter([(step.op.branches[step.op.chosen(operands[0])], operands[1:])])
    if is_lowered(step.op) and step.op.computations:
        return iter([(composition_of(step), operands)])
    return None


def _of_loop(condition: Graph, body: Graph, values: Sequence[Any], trips: int) -> Iterator[Run]:
    for _ in range(trips):
        yield condition, values
        if not reference_graph(condition, values)[0]:
            return
        yield body, values
        values = reference_graph(body, values)
