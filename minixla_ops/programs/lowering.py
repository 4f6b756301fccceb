"""Operations that run as a program of other operations, and the rules that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import compress
from typing import Any, ClassVar, TypeGuard, cast

from minixla.core import TOKEN, AnyShape, Graph, Operation, Shape, TupleShape, element_type
from minixla.core.derived import batched_graph, jvp_graph
from minixla.core.linear import spread
from minixla.core.sharding_rule import ShardingRule
from minixla.core.tracebacks import Function
from minixla.core.tracing import closed_graph, evaluate_graph, shape_of
from minixla.typing import Array
from minixla_ops.helpers.batch_dimensions import batch_size, member_shapes
from minixla_ops.helpers.shorthand import as_results
from minixla_ops.programs.call import Call
from minixla_ops.programs.program_sharding import program_rule
from minixla_ops.programs.reference_evaluation import reference_graph


def kept(make: Function) -> Function:
    """Cache results by arguments; the first argument is an operation or a function.

    If it is an operation that runs programs, or a method of one, results live as long as the
    programs.
    """
    bounded = lru_cache(maxsize=2048)(make)

    @wraps(make)
    def found(owner: Callable[..., object], *given: object) -> object:
        operation = getattr(owner, "__self__", owner)
        programs = operation.computations if isinstance(operation, Operation) else ()
        if not programs:
            return bounded(owner, *given)
        return programs[0].remembered((make, owner, *given), make, owner, *given)

    return cast(Function, found)


class Lowered(Operation):
    """Base class of operations that run as a program of other operations.

    Subclasses define `lowered`; all other rules follow from it unless the class defines them.
    """

    #: True if the program's lines are written in place of a call, at the user's line.
    in_place: ClassVar[bool] = False

    @property
    def is_lowered(self) -> bool:
        """True if the operation is lowered for these attributes."""
        return True

    def lowered(self, *operands: Array) -> Any:
        """Return the result (or tuple of results), computed with other operations."""
        raise self.lacks("lowered")

    def reference(self, *operands):
        program = lowered_program(self, tuple(map(_shape_of_data, operands)))
        return as_results(reference_graph(program, operands))

    def stablehlo(self, emit, operands, shapes, results):
        program = lowered_program(self, tuple(shapes))
        if self.in_place:
            return emit.expand(program, operands)
        return Call(program).stablehlo(emit, operands, shapes, results)

    def jvp(self, primals, tangents, results):
        shapes = tuple(map(shape_of, primals))
        active = tuple([tangent is not None for tangent in tangents])
        graph, flags = _derivative(self, shapes, active)
        inputs = [*primals, *compress(tangents, active)]
        tangents_out = tuple(spread(flags, evaluate_graph(graph, inputs)))
        return tangents_out if type(results) is tuple else tangents_out[0]

    def batch(self, operands, dimensions):
        shapes = member_shapes(operands, dimensions)
        size = batch_size(operands, dimensions)
        graph, places = batched_graph(lowered_program(self, shapes), tuple(dimensions), size)
        results = evaluate_graph(graph, operands)
        is_single = type(self.infer(shapes)) is not tuple
        return (results[0], places[0]) if is_single else (tuple(results), places)

    def sharding_rule(self, *operands):
        # Rules of operations that run programs are the exception: their classes define them.
        if self.runs_programs or not operands:
            return None
        return _rule(self, operands)


def _shape_of_data(data: Any) -> AnyShape:
    """Return the shape of reference data: an array, a tuple, or None for a token."""
    if data is None:
        return TOKEN
    if isinstance(data, tuple):
        return TupleShape(map(_shape_of_data, data))
    return Shape(element_type(data.dtype), data.shape)


def is_lowered(operation: Operation) -> TypeGuard[Lowered]:
    """Return whether an operation runs as a program of other operations."""
    return isinstance(operation, Lowered) and operation.is_lowered


def lowered_program(operation: Lowered, shapes: tuple[AnyShape, ...]) -> Graph:
    """Return the program that an operation runs as."""
    return kept_program(operation.lowered, shapes, operation.builder_name)


@kept
def _derivative(
    operation: Lowered, shapes: tuple[AnyShape, ...], active: tuple[bool, ...]
) -> tuple[Graph, tuple[bool, ...]]:
    """Return the graph from operands and tangents to tangents, and which results have one."""
    graph, moving = jvp_graph(lowered_program(operation, shapes), active)
    tangents = graph.outputs[len(moving) :]
    pruned = Graph(graph.inputs, graph.instructions, tangents, graph.name).pruned()
    return without_lines(pruned), moving


@kept
def _rule(operation: Lowered, shapes: tuple[AnyShape, ...]) -> ShardingRule:
    return program_rule(lowered_program(operation, shapes))


@kept
def kept_program(
    function: Callable[..., object], shapes: tuple[AnyShape, ...], name: str = "expansion"
) -> Graph:
    """Trace a function of values with `shapes` to a graph called `name`, cached for all callers.

    The function is a module's function, or a method of an operation, equal for equal operations.
    """
    return without_lines(closed_graph(function, shapes, name, name).pruned())


def without_lines(graph: Graph) -> Graph:
    """Remove the source lines from a graph that all callers share."""
    for instruction in graph.instructions:
        instruction.source = None
    return graph
