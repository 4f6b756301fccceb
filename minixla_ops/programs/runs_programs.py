"""Shared code of loops, branches and calls: operands, programs and linear rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress, pairwise
from operator import not_
from typing import Any, ClassVar, TypeVar

from minixla.core.derived import EnteredGraph, ReverseGraphs, batched_graph, entered_graph
from minixla.core.forward import ForwardTrace, ForwardTracer
from minixla.core.graph import Graph, remembered
from minixla.core.linear import instantiate, spread
from minixla.core.operation import Operation
from minixla.core.shapes import TOKEN, ShapeList
from minixla.core.tracing import Trace, _state, evaluate_graph, shape_of, trace_to_graph, under
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import batch_size, move_batch
from minixla_ops.helpers.shorthand import Values, zeros_like
from minixla_ops.helpers.tuple_operations import from_leaves, tuple_leaves
from minixla_ops.programs.computations import Computation, computation_of

_T = TypeVar("_T")
Flags = tuple[bool, ...]
Places = Sequence[int | None]


class RunsPrograms(Operation):
    """Base class of operations that run programs; subclasses define these rules and `linearize`."""

    only_arrays = False

    #: `entered(trace, known)`: the operation with its programs entered by `derived.entered_graph`.
    #: Also returns the knowledge about the operands at the fixed point, as after many
    #: iterations, and of the results. `known` is what the trace knows about the operands.
    entered = GIVEN
    #: `batch_of(size, operands, dimensions)`: random programs need no batched operand.
    batch_of = GIVEN
    #: `write(emit, operands, shapes, results)`: `stablehlo`; if programs have side effects, the
    #: first operand and the first result are tokens.
    write = GIVEN

    @property
    def operand_shardings(self) -> Sequence[Any]:
        """The shardings that its operands must have if it runs as a separate program."""
        return ()

    def enter(self, trace, operands):
        return self._enter(trace, (), operands)

    def _enter(
        self, trace: Trace, before: Sequence[ArrayLike], operands: Sequence[ArrayLike]
    ) -> tuple[Array, ...]:
        shapes = self.infer(tuple(map(shape_of, (*before, *operands))))
        with under(trace.parent):
            taken = tuple([trace.taken_apart(operand)[1] for operand in operands])
            operation, taken, states = self.entered(trace, taken)
            pairs = zip(operands, taken, strict=True)
            values = [value for pair in pairs for value in trace.parts_as_known(*pair)]
            results = iter(operation(*before, *values))
        assert isinstance(shapes, tuple)
        found = []
        for shape, state in zip(shapes, states, strict=True):
            parts = [next(results) for _ in trace.shapes_of(shape, state)]
            found.append(trace.put_together(parts, state) if parts else trace.absent(shape))
        return tuple(found)

    def forward(self, primals, tangents):
        trace = ForwardTrace(_state.trace)
        pairs = zip(primals, tangents, strict=True)
        operands = [p if t is None else ForwardTracer(trace, p, t) for p, t in pairs]
        parts = [trace.taken_apart(result)[0] for result in self.enter(trace, operands)]
        return tuple([p for p, *_ in parts]), tuple([t[0] if t else None for _, *t in parts])

    def dependent(self, variables):
        return self.entered(ForwardTrace(None), tuple(variables))[2]

    def stablehlo(self, emit, operands, shapes, results):
        if not any(computation.has_side_effect for computation in self.computations):
            return self.write(emit, operands, shapes, results)
        operands = [emit.take_token(), *operands]
        return emit.give_token(self.write(emit, operands, [TOKEN, *shapes], [TOKEN, *results]))

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Only a jvp rule applies programs to tangents, and jvp rules are linear in tangents.
        return True

    def transpose(self, cotangents, operands, linear):
        # The reverse derivative of a linear function is its transpose at every point.
        assert self.linearize is not None
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = self.linearize(point, linear)
        return pullback(dict(enumerate(cotangents)))

    def batch(self, operands, dimensions):
        return self.batch_of(batch_size(operands, dimensions), operands, dimensions)

    def batch_within(self, trace, operands, dimensions):
        return self.batch_of(trace.size, operands, dimensions)


class CallsProgram(Operation):
    """Base class of calls, which only run one program on their operands."""

    #: True if it has a derivative rule of the user, which evaluation ignores.
    has_user_rule: ClassVar[bool] = False


class SpansDevices(Operation):
    """Base class of operations that run on several devices; programs cannot contain them."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.is_plain = False


def members(operand: object) -> list[Any]:
    """Return the elements of a Python sequence; any other value as a list of one."""
    return [*operand] if isinstance(operand, (list, tuple)) else [operand]


def leaves_of(operand: object) -> list[Any]:
    """Return the arrays (and tokens) of a value or of a Python sequence of values."""
    return [leaf for member in members(operand) for leaf in tuple_leaves(member)]


def closed(computation: Computation, operand: object, subject: str) -> Graph:
    """Return the graph of a computation that takes the elements of `operand` separately."""
    return computation_of(computation, [shape_of(member) for member in members(operand)], subject)


def in_form_of(operand: object, leaves: Iterable[object]) -> Any:
    """Build values in the structure of `operand`: a Python tuple for a sequence, else one value."""
    values = as_given([shape_of(member) for member in members(operand)], leaves)
    return tuple(values) if isinstance(operand, (list, tuple)) else values[0]


def as_given(shapes: ShapeList, leaves: Iterable[object]) -> list[Any]:
    """Build values with `shapes`, including tuples, from their leaves."""
    remaining = iter(leaves)
    return [from_leaves(shape, remaining) for shape in shapes]


def merged(flags: Iterable[bool], marked: Iterable[_T], others: Iterable[_T]) -> list[_T]:
    """Merge two lists: take from `marked` if the flag is set, else from `others`."""
    first, second = iter(marked), iter(others)
    return [next(first if flag else second) for flag in flags]


def parted(flags: Sequence[bool], values: Sequence[_T]) -> tuple[list[_T], list[_T]]:
    """Split a list in two, the inverse of `merged`: values whose flag is set, and the others."""
    return list(compress(values, flags)), list(compress(values, map(not_, flags)))


def program(function: Callable[..., Sequence[object]], shapes: ShapeList, name: str) -> Graph:
    """Trace a function that does not read values from outside."""
    graph, captured = trace_to_graph(function, shapes, name)
    assert not captured, f"{name} reads {captured}"
    return graph.pruned()


@remembered
def own_inputs(graph: Graph) -> tuple[list[int], Graph]:
    """Return the indices of the inputs that a program reads, and the program of only these."""
    # Include instructions with unused results: they are printed, too.
    read = {id(value) for step in graph.instructions for value in step.operands}
    read.update(map(id, graph.outputs))
    inputs = {index: value for index, value in enumerate(graph.inputs) if id(value) in read}
    return list(inputs), Graph([*inputs.values()], graph.instructions, graph.outputs, graph.name)


def split(values: Sequence[_T], *counts: int) -> list[list[_T]]:
    """Split values into lists of `counts` values, and the rest."""
    bounds = [0, *accumulate(counts), len(values)]
    return [list(values[a:b]) for a, b in pairwise(bounds)]


# Loops repeat a step; its last outputs are its last inputs in the next iteration.


def constants_of(step: Graph, carries: int | None = None) -> list[bool]:
    """Return which of the last inputs (default: all) a step returns unchanged."""
    count = len(step.inputs) if carries is None else carries
    starts = len(step.inputs) - count, len(step.outputs) - count
    pairs = zip(step.inputs[starts[0] :], step.outputs[starts[1] :], strict=True)
    return [taken is input_value for taken, input_value in pairs]


def entered_step(
    step: Graph, trace: Trace, known: tuple[object, ...], carries: int
) -> tuple[EnteredGraph, tuple[object, ...]]:
    """Enter a step at its fixed point; return it and the knowledge about its inputs there."""
    count, start = len(known) - carries, len(step.outputs) - carries
    while True:
        made = entered_graph(step, trace, known)
        carried = tuple(map(trace.joined, known[count:], made.known[start:]))
        if carried == known[count:]:
            break
        known = (*known[:count], *carried)
    out = (*made.known[:start], *carried)
    return made if made.known == out else entered_graph(step, trace, known, out), known


def grown(flags: Flags, carries: int, grow: Callable[[Flags], Sequence[bool]]) -> Flags:
    """Extend the flags of a step's inputs by those that `grow` returns, up to a fixed point."""
    while True:
        after, count = grow(flags), len(flags) - carries
        carried = zip(flags[count:], after[len(after) - carries :], strict=True)
        more = (*flags[:count], *[a or b for a, b in carried])
        if more == flags:
            return flags
        flags = more


def pulled_back(
    halves: ReverseGraphs, residuals: Sequence[object], cotangents: Iterable[Array | None]
) -> list[Any]:
    """Return cotangents of a program's inputs from those of its results; None for no cotangent."""
    active = compress(cotangents, halves.active_outputs)
    return spread(halves.active_inputs, evaluate_graph(halves.backward, [*residuals, *active]))


def instantiated(
    flags: Sequence[bool], values: Sequence[Array | None], shapes: ShapeList
) -> list[Any]:
    """Return the marked values, with zeros in place of None."""
    return list(map(instantiate, compress(values, flags), compress(shapes, flags)))


def batched_of(dimensions: Places) -> Flags:
    """Return which values are batched."""
    return tuple([at is not None for at in dimensions])


def in_front(flags: Sequence[bool]) -> tuple[int | None, ...]:
    """Return batch dimension 0 for marked values and None for others."""
    return tuple([0 if flag else None for flag in flags])


def moved_batches(values: Values, dimensions: Places, wanted: Places, size: int) -> list[Array]:
    """Move the batch dimensions of values to `wanted`; None: the value has no batch."""
    triples = zip(values, dimensions, wanted, strict=True)
    return [v if to is None else move_batch(v, at, to, size) for v, at, to in triples]


@remembered
def over_batch(graph: Graph, places: tuple[int | None, ...], size: int, wanted: Places) -> Graph:
    """Batch a graph, with batch dimensions `places` of the inputs and `wanted` of the outputs."""
    batched, dimensions = batched_graph(graph, places, size)

    def function(*values: Array) -> list[Array]:
        return moved_batches(evaluate_graph(batched, values), dimensions, wanted, size)

    return program(function, batched.input_shapes, batched.name)
