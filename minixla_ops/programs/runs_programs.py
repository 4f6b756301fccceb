"""What loops, branches and maps share: their operands, their programs, and their linear rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minixla.core.derived import BatchedGraph, batched_graph
from minixla.core.forward import ForwardTrace, ForwardTracer
from minixla.core.graph import Graph, Value, live_instructions
from minixla.core.operation import Operation
from minixla.core.shapes import TOKEN, AnyShape
from minixla.core.stablehlo_text import Emitter
from minixla.core.tracing import (
    Trace,
    _state,
    evaluate_graph,
    shape_of,
    trace_to_graph,
    under,
)
from minixla_ops.programs.computations import computation_of
from minixla_ops.vocabulary.batch_dimensions import batch_size, move_batch
from minixla_ops.vocabulary.shorthand import zeros_like
from minixla_ops.vocabulary.tuple_operations import from_leaves, tuple_leaves


class RunsPrograms(Operation):
    """Base class of operations that run programs and give several results.

    Members give `write`, `entered`, `linearize` and `batch_of`.
    """

    def entered(
        self, trace: Trace, known: tuple[Any, ...]
    ) -> tuple[Operation, tuple[Any, ...], tuple[Any, ...]]:
        """The operation with its programs as a trace makes them, by `derived.entered_graph`.

        Args:
            trace: the trace.
            known: what it knows of each operand that the programs take.

        Returns:
            The operation; what is known of the operands in the end, as after many iterations; and
            what is known of the results.
        """
        raise NotImplementedError

    def enter(self, trace, operands):
        return self._enter(trace, (), operands)

    def _enter(self, trace: Trace, before: Sequence[Any], operands: Sequence[Any]) -> Any:
        shapes = self.infer(tuple(map(shape_of, (*before, *operands))))
        with under(trace.parent, is_level=False):
            taken = tuple([trace.taken_apart(operand)[1] for operand in operands])
            operation, taken, known = self.entered(trace, taken)
            pairs = zip(operands, taken, strict=True)
            values = [value for pair in pairs for value in trace.as_known(*pair)]
            results = iter(operation(*before, *values))
        assert isinstance(shapes, tuple)
        parts = [
            ([next(results) for _ in trace.shapes_of(shape, each)], each)
            for shape, each in zip(shapes, known, strict=True)
        ]
        return tuple([trace.put_together(*part) for part in parts])

    def forward(self, primals, tangents):
        trace = ForwardTrace(_state.trace)
        pairs = zip(primals, tangents, strict=True)
        operands = [p if t is None else ForwardTracer(trace, p, t) for p, t in pairs]
        found = [trace.taken_apart(each)[0] for each in self.enter(trace, operands)]
        return tuple([p for p, *_ in found]), tuple([t[0] if t else None for _, *t in found])

    def dependent(self, variables):
        return self.entered(ForwardTrace(None), tuple(variables))[2]

    def stablehlo(self, emit, operands, shapes, results):
        is_threaded = any(each.has_side_effect for each in self.computations)
        if not is_threaded:
            return self.write(emit, operands, shapes, results, False)
        operands = [emit.take_token(), *operands]
        names = self.write(emit, operands, [TOKEN, *shapes], [TOKEN, *results], True)
        return emit.give_token(names)

    def write(
        self,
        emit: Emitter,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        is_threaded: bool,
    ) -> Sequence[str]:
        """`stablehlo`; where `is_threaded`, the first operand and result are tokens."""
        raise NotImplementedError

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Only a jvp rule applies programs to tangents, and such a rule is linear in them.
        return True

    def transpose(self, cotangents, operands, linear):
        # The reverse derivative of a linear function is its transpose, wherever it is taken.
        assert self.linearize is not None
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = self.linearize(point, linear)
        return pullback(dict(enumerate(cotangents)))

    def batch(self, operands, dimensions):
        return self.batch_of(batch_size(operands, dimensions), operands, dimensions)

    def batch_within(self, trace, operands, dimensions):
        return self.batch_of(trace.size, operands, dimensions)

    def batch_of(
        self, size: int, operands: Sequence[Any], dimensions: Sequence[int | None]
    ) -> tuple[Any, Any]:
        """`batch`; programs that draw random numbers need no batched operand."""
        raise NotImplementedError


def members(operand: Any) -> list[Any]:
    """The members of a Python sequence; any other value alone."""
    return [*operand] if isinstance(operand, (list, tuple)) else [operand]


def leaves_of(operand: Any) -> list[Any]:
    """The arrays (and tokens) of a value or of a Python sequence of values."""
    return [leaf for member in members(operand) for leaf in tuple_leaves(member)]


def closed(computation: Graph | Callable[..., Any], operand: Any, subject: str) -> Graph:
    """The graph of a computation that takes `operand`, each member of a sequence by itself.

    Raises:
        TransformError: the function reads traced values of the enclosing function.
        ShapeError: it is neither a Graph nor a function of that many arguments.
    """
    return computation_of(computation, [shape_of(each) for each in members(operand)], subject)


def as_given(shapes: Sequence[AnyShape], leaves: Iterable[Any]) -> list[Any]:
    """Values of `shapes`, tuples made of their leaves."""
    remaining = iter(leaves)
    return [from_leaves(shape, remaining) for shape in shapes]


def merged(flags: Iterable[bool], marked: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """One list of two, which takes from `marked` where the flag is set."""
    first, second = iter(marked), iter(others)
    return [next(first if flag else second) for flag in flags]


def program(function: Callable[..., Sequence[Any]], shapes: Sequence[AnyShape], name: str) -> Graph:
    """The graph of a function that is known to read nothing from outside."""
    graph, captured = trace_to_graph(function, shapes, name)
    assert not captured, f"{name} reads {captured}"
    return graph.pruned()


def read_inputs(graph: Graph, outputs: Sequence[Value]) -> set[int]:
    """The numbers of the inputs that some of the outputs (and side effects) depend on."""
    live = live_instructions(graph.instructions, outputs)
    read = {id(value) for value in (*outputs, *(o for each in live for o in each.operands))}
    return {number for number, value in enumerate(graph.inputs) if id(value) in read}


def in_front(batched: BatchedGraph, flags: Sequence[bool], size: int) -> Graph:
    """A batched graph with the batch in front of each output marked in `flags`."""
    graph, dimensions = batched

    def function(*values: Any) -> list[Any]:
        triples = zip(evaluate_graph(graph, values), dimensions, flags, strict=True)
        return [move_batch(out, at, 0, size) if flag else out for out, at, flag in triples]

    return program(function, graph.input_shapes, graph.name)


def over_batch(
    graph: Graph, flags: tuple[bool, ...], size: int, outputs: tuple[bool, ...] = ()
) -> Graph:
    """A graph over a batch that stands first wherever it is.

    Args:
        graph: the program of one member.
        flags: which inputs are batched.
        size: the number of members.
        outputs: which outputs are batched; none given: all.
    """
    key = ("over_batch", flags, size, outputs)
    found = graph.memo.get(key)
    if found is None:
        batched = batched_graph(graph, tuple(0 if flag else None for flag in flags), size)
        marked = outputs or [True] * len(graph.outputs)
        found = graph.memo[key] = in_front(batched, marked, size)
    return found
