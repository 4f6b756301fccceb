"""Parts of graphs as separate graphs: an instruction, the programs that it runs, its calls."""

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
    """Test whether a value is an array of fixed size, not a tuple, token or dynamic array."""
    return isinstance(value.shape, Shape) and not value.shape.is_dynamic


def is_inexact(shape: AnyShape) -> bool:
    """Test whether it is the shape of an array of floats or complex numbers."""
    return isinstance(shape, Shape) and shape.element_type.is_inexact


def type_of(value: Value) -> ElementType:
    """Return the element type of an array."""
    return cast(Shape, value.shape).element_type


def inexact_part(function: Any, moving: Sequence[bool], fixed: Sequence[Any]) -> Callable[..., Any]:
    """Restrict a function to the marked arguments, and to results of floats and complex numbers."""

    def part(*some: Any) -> list[Any]:
        results = function(*spread(moving, some, fixed))
        return [result for result in results if is_inexact(shape_of(result))]

    return part


def is_call(step: Instruction) -> bool:
    """Test whether an instruction only runs a program on its operands."""
    return isinstance(step.op, CallsProgram)


class Unfolded(Instruction):
    """An instruction of a program whose calls are unfolded, with its original place.

    Attributes:
        place: its index in its program, after the place of the call of that program.
    """

    __slots__ = ("place",)
    place: "_Place"


#: A linked list, so that deep nesting needs no long names.
_Place = tuple["_Place | None", int]


def node_name(step: Instruction, graph: Graph) -> str:
    """Return an instruction's name in pictures of the graph that this graph was unfolded from."""
    if not isinstance(step, Unfolded):
        return str(graph.instructions.index(step))
    numbers: list[str] = []
    place: _Place | None = step.place
    while place is not None:
        place, number = place
        numbers.append(str(number))
    return ".0.".join(reversed(numbers))  # a call runs one program


def inlined(graph: Graph, unfolds: Callable[[Instruction], bool] = is_call) -> Graph:
    """Replace the calls that `unfolds` marks by the programs that they call.

    Its instructions are `Unfolded`.
    """
    inputs = [Value(value.shape, None, index) for index, value in enumerate(graph.inputs)]
    made: list[Instruction] = []
    values = dict(zip(graph.inputs, inputs, strict=True))

    def read(some: Sequence[Value]) -> list[Value]:
        return [values[value] for value in some]

    # Do not recurse: programs may be nested deeper than Python allows.
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
    """Return an instruction as a program of its arrays, and its inputs; None without arrays."""
    values: dict[Any, Any] = dict(zip(step.operands, operands, strict=True))
    # Keep constants, because an operation may be lowered differently if it reads one.
    constants = [value.instruction for value in values if value.literal is not None]
    inputs = {value: operand for value, operand in values.items() if value.literal is None}
    arrays = list(filter(is_array, step.results))
    program = part_of(list(inputs), [*constants, step], arrays, step.op.builder_name)
    return (program, list(inputs.values())) if arrays else None


def composition_of(step: Instruction) -> Graph:
    """Return the program of a composed operation, on operands of these shapes."""
    shapes, name = [value.shape for value in step.operands], step.op.builder_name
    return closed_graph(step.op.lowered, shapes, name, name)


def every_step(graph: Graph) -> Iterator[Instruction]:
    """Yield the instructions of a graph and of the programs that they run."""
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            yield step
            pending.extend(step.op.computations)


def all_values(graph: Graph) -> list[Value]:
    """Return the inputs of a program and the results of its instructions."""
    return [*graph.inputs, *[value for step in graph.instructions for value in step.results]]


def needed_for(value: Value, graph: Graph) -> tuple[Instruction, ...]:
    """Return the instructions of a program that a value depends on."""
    return showing(graph, [value]).pruned().instructions


def showing(graph: Graph, values: Sequence[Value]) -> Graph:
    """Return the program with other outputs, `values`."""
    return Graph(graph.inputs, graph.instructions, values, graph.name)


#: The number of iterations of a loop that are followed.
_MOST_TRIPS = 8

Run = tuple[Graph, Sequence[Any]]


def inner_runs(
    step: Instruction, operands: Sequence[Any], trips: int = _MOST_TRIPS
) -> Iterator[Run] | None:
    """Return the programs that an instruction runs on some operands, with their operands, in order.

    Return None for other instructions. Programs that run for every element of an array, as in a
    reduction, are not followed. Only the first `trips` iterations of a loop are.
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
