"""Operations that run as a program of others: the rule `lowered`, and what follows from it."""

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

    If it is an operation that runs programs, or its method, results live as long as the programs.
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
    """Base class of operations that run as a program of others.

    Members give `lowered`; all other rules follow from it unless the class gives them.
    """

    #: Whether the text has the program's lines, each at the user's line, in place of a call.
    in_place: ClassVar[bool] = False

    @property
    def is_lowered(self) -> bool:
        """Whether the operation is lowered for these attributes."""
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
        # Of what runs programs of its own these have rules.
        if self.runs_programs or not operands:
            return None
        return _rule(self, operands)


def _shape_of_data(data: Any) -> AnyShape:
    """The shape of what a reference rule gets: an array, a tuple of such, or a token's None."""
    if data is None:
        return TOKEN
    if isinstance(data, tuple):
        return TupleShape(map(_shape_of_data, data))
    return Shape(element_type(data.dtype), data.shape)


def is_lowered(operation: Operation) -> TypeGuard[Lowered]:
    """Whether an operation is a program of others."""
    return isinstance(operation, Lowered) and operation.is_lowered


def lowered_program(operation: Lowered, shapes: tuple[AnyShape, ...]) -> Graph:
    """Return the program that an operation runs as."""
    return kept_program(operation.lowered, shapes, operation.builder_name)


@kept
def _derivative(
    operation: Lowered, shapes: tuple[AnyShape, ...], active: tuple[bool, ...]
) -> tuple[Graph, tuple[bool, ...]]:
    """The graph from operands and tangents to tangents, and which results have one."""
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
    """A function of values of `shapes` as the graph `name`, which is kept for every caller.

    That is a function of a module, or a method of an operation, which is the same for equal ones.
    """
    return without_lines(closed_graph(function, shapes, name, name).pruned())


def without_lines(graph: Graph) -> Graph:
    """The graph, its instructions without source lines, as it is kept for every caller."""
    for instruction in graph.instructions:
        instruction.source = None
    return graph
