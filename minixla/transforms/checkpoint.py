"""checkpoint: a function whose reverse derivative computes intermediate values again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import minixla_ops as ops
from minixla.core.attributes import Boolean, Function, Text, attribute
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, Value, inner_first, remembered
from minixla.core.linear import pullback_by, spread
from minixla.core.operation import Operation
from minixla.core.reverse import ReverseTrace
from minixla.core.tracing import Trace, _state, trace_to_graph, tracing
from minixla.transforms.arguments import Arguments, Numbers, in_place_of
from minixla.transforms.custom_calls import CustomVjpCall, Unchanged
from minixla.transforms.staging import stage
from minixla_ops.programs.call import Call, call

#: Decides which results are kept: `policy(operation, *operand shapes, **attributes)`.
Policy = Callable[..., bool]


class CheckpointName(Unchanged):
    """The operand itself, under a name that policies of `checkpoint` may ask for."""

    hlo_name = "copy"
    linear_operands = (0,)
    label: str = attribute(Text(), hlo=None)

    def transpose(self, cotangents, operands, linear):
        return (cotangents,)


class CheckpointCall(Call):
    """A call of a computation whose reverse derivative keeps no more than `policy` allows.

    With `prevent_cse` the compiler is kept from merging the second computation with the first.
    """

    name = "Checkpoint"
    hlo_name = "call"
    policy: Policy = attribute(Function(), hlo=None)
    prevent_cse: bool = attribute(Boolean(), hlo=None)

    def linearize(self, operands, active):
        kept, backward, wanted = _halves(self.computation.pruned(), self.policy, tuple(active))
        everything = call(kept, *operands)
        count = len(self.computation.outputs)
        results = everything[:count]

        def again(*cotangents: Any) -> Sequence[Any]:
            given = [*operands, *everything[count:], *cotangents]
            # The cotangents, too: the second computation waits for them.
            return call(backward, *(ops.optimization_barrier(given) if self.prevent_cse else given))

        return results, pullback_by(again, results, list(map(has_tangent, results)), wanted)


class _Recalling(Trace):
    """Its parent, but for one operation whose results are known."""

    __slots__ = ("known",)

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.known: Any = None

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """What is known, once; else the parent's results."""
        known, self.known = self.known, None
        return self.parent.process(operation, operands) if known is None else known


class _Recorded:
    """A program recorded on a reverse trace, but for values that are `known` by their identity.

    Attributes:
        flags: which inputs are differentiated.
        inputs: the tracers of these, the others as they are.
        outputs: the program's.
        trace: the ReverseTrace.
    """

    def __init__(
        self, graph: Graph, primals: Sequence[Any], active: Sequence[bool], known: dict[int, Any]
    ) -> None:
        recalling = _Recalling(_state.trace)
        self.trace = trace = ReverseTrace(recalling)
        self.flags = [a and has_tangent(x) for a, x in zip(active, primals, strict=True)]
        pairs = zip(primals, self.flags, strict=True)
        self.inputs = [trace.add_input(x) if flag else x for x, flag in pairs]
        values = dict(zip(map(id, graph.inputs), self.inputs, strict=True))
        previous = _state.source
        try:
            with tracing(trace):
                for step in graph.instructions:
                    _state.source = step.source
                    held = tuple([known.get(id(value)) for value in step.results])
                    if step.op.linearize is None and None not in held:
                        recalling.known = held[0] if step.single else held
                    outcome = trace.process(step.op, tuple([values[id(x)] for x in step.operands]))
                    recalling.known = None
                    outcomes = (outcome,) if step.single else outcome
                    values.update(zip(map(id, step.results), outcomes, strict=True))
        finally:
            _state.source = previous
        self.outputs = [values[id(value)] for value in graph.outputs]


@remembered
def _halves(
    graph: Graph, policy: Policy, active: tuple[bool, ...]
) -> tuple[Graph, Graph, tuple[bool, ...]]:
    """The program with what is kept, the reverse derivative from that, and whose cotangents."""
    outputs = [*graph.outputs, *_kept(graph, policy)]
    first = Graph(graph.inputs, graph.instructions, outputs, graph.name)
    if _has_reverse_rule(graph):
        first = _by_rules(first, active)
    quiet = graph.silent()  # what is computed again is not shown again
    return (first, *_backward(quiet, _kept(quiet, policy), active))


@inner_first
def _has_reverse_rule(graph: Graph) -> bool:
    """Whether a program, or one that it runs, calls a function with a reverse rule of its own."""
    is_direct = any(type(step.op) is CustomVjpCall for step in graph.instructions)
    return is_direct or any(map(_has_reverse_rule, graph.computations))


def _by_rules(graph: Graph, active: Sequence[bool]) -> Graph:
    """The same values, by the first halves of reverse rules: these have forward derivatives."""

    def function(*primals: Any) -> list[Any]:
        found = _Recorded(graph, primals, active, {})
        mine = list(map(found.trace.is_own, found.outputs))
        return [x.value if flag else x for x, flag in zip(found.outputs, mine, strict=True)]

    return trace_to_graph(function, graph.input_shapes, graph.name)[0].pruned()


def _kept(graph: Graph, policy: Policy) -> list[Value]:
    """The values of a program that the policy keeps."""
    return [
        value
        for step in graph.instructions
        if step.op.linearize is None
        and policy(step.op, *(value.shape for value in step.operands), **step.op.values)
        for value in step.results
    ]


def _backward(
    graph: Graph, kept: Sequence[Value], active: Sequence[bool]
) -> tuple[Graph, tuple[bool, ...]]:
    wanted: list[bool] = []

    def function(*arguments: Any) -> list[Any]:
        given = iter(arguments)
        primals = [next(given) for _ in graph.inputs]
        known = {id(value): next(given) for value in kept}
        for step in graph.instructions:
            if type(step.op) is CheckpointName and id(step.results[0]) in known:
                known[id(step.operands[0])] = known[id(step.results[0])]  # it is the same value
        recorded = _Recorded(graph, primals, active, known)
        cotangents = spread(map(has_tangent, recorded.outputs), given)
        tracers = list(compress(recorded.inputs, recorded.flags))
        pulled = recorded.trace.pull(recorded.outputs, cotangents, tracers)
        found = spread(recorded.flags, pulled)
        wanted.extend([each is not None for each in found])
        return [each for each in found if each is not None]

    shapes = [*graph.input_shapes, *(value.shape for value in kept)]
    shapes += [shape for shape in graph.output_shapes if has_tangent(shape)]
    made, _ = trace_to_graph(function, shapes, f"checkpoint_{graph.name}")
    return made.pruned(), tuple(wanted)


class checkpoint_policies:
    """Which results `checkpoint` keeps (JAX: checkpoint_policies)."""

    @staticmethod
    def nothing_saveable(operation: Operation, *shapes: Any, **attributes: Any) -> bool:
        """Keeps nothing but the arguments."""
        return False

    @staticmethod
    def everything_saveable(operation: Operation, *shapes: Any, **attributes: Any) -> bool:
        """Keeps every result."""
        return True

    @staticmethod
    def dots_saveable(operation: Operation, *shapes: Any, **attributes: Any) -> bool:
        """Keeps the results of matrix products."""
        return operation.name in ("Dot", "DotGeneral")

    @staticmethod
    def dots_with_no_batch_dims_saveable(operation: Any, *shapes: Any, **attributes: Any) -> bool:
        """Keeps the results of matrix products without batch dimensions."""
        numbers = attributes.get("dimension_numbers")
        is_batched = bool(getattr(numbers, "lhs_batch_dimensions", ()))
        return checkpoint_policies.dots_saveable(operation) and not is_batched

    checkpoint_dots = dots_saveable
    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """A policy that keeps the values that `checkpoint_name` gave one of `names`."""
        return lambda op, *shapes, **given: type(op) is CheckpointName and op.label in names

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """A policy that keeps all values but those that `checkpoint_name` gave one of `names`."""
        return lambda op, *shapes, **given: type(op) is not CheckpointName or op.label not in names

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """A policy that keeps values that `checkpoint_name` gave a name that is none of `names`."""
        return lambda op, *shapes, **given: type(op) is CheckpointName and op.label not in names

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """A policy that keeps what either of two keeps."""
        return lambda *args, **given: first(*args, **given) or second(*args, **given)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, known to policies of `checkpoint` as `name` (JAX: checkpoint_name).

    Args:
        x: an array.
        name: a name for it.
    """
    return CheckpointName(name)(x)


def checkpoint(
    fun: Callable[..., Any],
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: Numbers = (),
) -> Callable[..., Any]:
    """`fun`, whose reverse derivative computes intermediate values again (JAX: checkpoint).

    Args:
        fun: a function of pytrees of arrays.
        prevent_cse: keeps the compiler from merging both computations, as is needed inside `jit`.
        policy: which results are kept all the same, see `checkpoint_policies`; default: none.
        static_argnums: positions of arguments that are passed on as they are.

    Returns:
        A function of the same arguments and results.
    """

    @in_place_of(fun, "checkpoint")
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        given = Arguments.besides("checkpoint", fun, args, kwargs, static_argnums)
        staged = stage(given.apply, given.signature(), given.name)
        keeps = policy or checkpoint_policies.nothing_saveable
        operation = CheckpointCall(staged.graph, keeps, prevent_cse)
        return staged.results(operation(*staged.read, *given.leaves))

    return checkpointed
