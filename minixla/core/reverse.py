"""Reverse mode: a trace that records the dependence of results on inputs, and the backward pass."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent, jvp_of, refuse_without_derivative
from minixla.core.linear import add_cotangents, with_sizes_of, zeros_like
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, TupleValue
from minixla.core.source import Source, find_source
from minixla.core.tracer import WrappingTracer, is_dynamic, unwrapped, wrapped
from minixla.core.tracing import Trace, Tracer, _state, shape_of, tracing
from minixla.core.value_types import Array, Results

#: The target of a cotangent: a node and the index of its result; None if it is not needed.
Target = tuple["Node", int] | None
#: Cotangents of results by index, and cotangents of operands; None is zero.
Cotangents = dict[int, Any]
Gradients = Sequence[Any]
Pullback = Callable[[Cotangents], Gradients]
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class Node:
    """A recorded step: it maps the cotangents of its results, by index, to its operands'.

    `known` are the operands and results that the pullback of a rule uses.
    """

    targets: Sequence[Target]
    pullback: Pullback | None
    source: Source | None
    operation: Operation | None
    known: tuple[Sequence[Any], Any] | None = None


class ReverseTracer(WrappingTracer):
    """A value of the parent trace, and the target of its cotangent."""

    __slots__ = ()


class LinearTracer(Tracer):
    """A tangent inside a jvp rule that is being transposed; only its shape is known."""

    __slots__ = ("target",)

    def __init__(self, trace: "LinearTrace", shape: AnyShape, target: Target) -> None:
        self._trace = trace
        self._shape = shape
        self._weak = False
        self.target = target

    def _mark_weak(self) -> None:
        """Do nothing: a tangent is not weakly typed."""

    def _concrete(self, wanted: str) -> NoReturn:
        problem = f"{wanted} was required, but the value is a tangent that reverse mode transposes"
        advice = "A jvp rule must be linear in its tangents: do not branch on them."
        raise explain(DerivativeError, "jvp", problem, advice=advice)


class ReverseTrace(Trace):
    """Compute under the parent trace, and record steps for the backward pass."""

    transformation = "grad or vjp"
    forwards = True
    __slots__ = ("nodes",)

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.nodes: list[Node] = []

    def add_input(self, value: Array) -> ReverseTracer:
        """Return a tracer for a value whose cotangent is wanted."""
        return ReverseTracer(self, value, (Node((), None, None, None), 0))

    def record(self, node: Node) -> Node:
        """Append a step."""
        self.nodes.append(node)
        return node

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        values, targets, is_active = unwrapped(self, ReverseTracer, operands)
        if not is_active:
            return self.outside(operation, operands)
        previous = _state.source
        source = _state.source = previous or find_source(2)
        try:
            lift, name = self.parent.lift, operation.builder_name
            values = [x if isinstance(x, Tracer) else lift(x, name) for x in values]
            return self._record(operation, values, targets, source)
        finally:
            _state.source = previous

    def _under_parent(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function under the parent trace."""
        previous = _state.trace
        _state.trace = self.parent
        try:
            return function(*arguments)
        finally:
            _state.trace = previous

    def _record(
        self,
        operation: Operation,
        values: list[Array],
        targets: list[Target],
        source: Source | None,
    ) -> Results:
        active, operands_and_results = [target is not None for target in targets], None
        if _state.watch is not None:
            _state.watch.differentiates(operation, values, active)
        if operation.linearize is not None:
            results, pullback = self._under_parent(operation.linearize, values, active)
        elif operation.forward is not None or (
            operation.zero_derivative is None
            and operation.linear_operands is None
            and not operation.has_rule("vjp")
        ):
            return self._record_jvp(operation, values, targets)
        else:
            process = self.parent.process
            if operation.stage_operands is None:  # the trace makes itself current if necessary
                results = process(operation, tuple(values))
            else:
                results = self._under_parent(process, operation, tuple(values))
            refuse_without_derivative(operation)
            pullback = _pullback(operation.vjp, results, values, results, active)
            operands_and_results = values, results
        single = type(results) is not tuple
        moved = [has_tangent(results)] if single else list(map(has_tangent, results))
        if operation.zero_derivative is not None or not any(moved):
            return results
        node = self.record(Node(targets, pullback, source, operation, operands_and_results))
        places = [(node, index) if flag else None for index, flag in enumerate(moved)]
        return wrapped(self, ReverseTracer, results, places[0] if single else places)

    def _record_jvp(
        self, operation: Operation, values: list[Array], targets: list[Target]
    ) -> Results:
        """Record the linear operations of the jvp rule, each with its transpose."""
        linear = LinearTrace(self.parent, self, operation)
        tangents = [
            None if target is None else LinearTracer(linear, shape_of(value), target)
            for value, target in zip(values, targets, strict=True)
        ]
        previous = _state.trace
        _state.trace = linear
        try:
            results, tangents_out = jvp_of(operation, values, tangents)
        finally:
            _state.trace = previous
            linear.alive = False
        flat = results if type(results) is tuple else (results,)
        if any(type(result) is LinearTracer and result._trace is linear for result in flat):
            raise refuse_reverse(operation)
        result_targets: Any = self._target(tangents_out)
        if type(results) is tuple and tangents_out is not None:
            result_targets = list(map(self._target, tangents_out))
        return wrapped(self, ReverseTracer, results, result_targets)

    def _target(self, tangent: object) -> Target:
        """Return the target of a tangent's cotangent; cotangents of tuples are split first."""
        if isinstance(tangent, LinearTracer):
            return tangent.target
        if isinstance(tangent, TupleValue):
            targets = [self._target(element) for element in tangent.elements]
            if any(targets):
                node = Node(targets, lambda cotangents: cotangents[0].elements, _state.source, None)
                return self.record(node), 0
        return None

    def pull(
        self, outputs: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[Any]
    ) -> list[Any]:
        """Return the cotangents of `inputs` (None for other values) from those of `outputs`."""
        # Pending cotangents of each node's results, by index.
        pending: defaultdict[Node, Cotangents] = defaultdict(dict)

        def add(node: Node, index: int, cotangent: object) -> None:
            received = pending[node]
            received[index] = add_cotangents(received.get(index), cotangent)

        for output, cotangent in zip(outputs, cotangents, strict=True):
            if self.is_own(output) and cotangent is not None:
                node, index = output.known
                add(node, index, cotangent)
        previous, watch = _state.source, _state.watch
        try:
            for node in reversed(self.nodes):
                received = pending.pop(node, None)
                if received is None:
                    continue
                _state.source = node.source
                assert node.pullback is not None
                gradients = node.pullback(received) if watch is None else watch.pull(node, received)
                for target, cotangent in zip(node.targets, gradients, strict=True):
                    if target is not None and cotangent is not None:
                        add(*target, cotangent)
        finally:
            _state.source = previous
        return [pending[x.known[0]].get(0) if self.is_own(x) else None for x in inputs]


def refuse_reverse(operation: Operation) -> DerivativeError:
    """Return the error for an operation whose jvp rule computes results and tangents together."""
    problem = "the operation has a forward derivative, but no reverse derivative"
    advice = "Define a rule for the function around it with mx.custom_vjp, or use mx.jvp."
    return explain(DerivativeError, operation.builder_name, problem, advice=advice)


def pushed_by_vjp(
    operation: Operation, primals: Sequence[Array], tangents: Sequence[Any], results: Results
) -> Results:
    """Compute tangents by transposing a `vjp` rule, which is linear in cotangents."""
    flat = results if type(results) is tuple else (results,)
    trace = ReverseTrace(_state.trace)
    cotangent_tracers = [trace.add_input(zeros_like(x)) if has_tangent(x) else None for x in flat]
    active = [tangent is not None for tangent in tangents]
    with tracing(trace):
        cotangents = tuple(cotangent_tracers) if type(results) is tuple else cotangent_tracers[0]
        pulled = operation.vjp(cotangents, primals, results, active)
    moved = trace.pull(pulled, tangents, cotangent_tracers)
    return tuple(moved) if type(results) is tuple else moved[0]


def _pullback(
    rule: Callable[..., Sequence[Any]],
    results: Any,  # noqa: ANN401  # one or several
    operands: Sequence[Any],
    *arguments: object,
) -> Pullback:
    """Wrap a vjp `rule` as a pullback; gradients get the dynamic sizes of operands."""
    count = len(results) if type(results) is tuple else None
    are_dynamic = is_dynamic(results) if count is None else any(map(is_dynamic, results))
    for operand in operands:  # this runs for every step, and any(map(...)) takes twice as long
        are_dynamic = are_dynamic or is_dynamic(operand)

    # Every step evaluates these annotations, so they are names.
    def pullback(cotangents: Cotangents) -> Gradients:
        wanted = cotangents[0] if count is None else tuple(map(cotangents.get, range(count)))
        gradients = rule(wanted, operands, *arguments)
        return list(map(with_sizes_of, gradients, operands)) if are_dynamic else gradients

    return pullback


class LinearTrace(Trace):
    """Record the linear operations that a jvp rule applies to tangents, on a reverse trace."""

    transformation = "the transposition of a jvp rule"
    forwards = True
    __slots__ = ("operation", "recorder")

    def __init__(self, parent: Trace, recorder: ReverseTrace, operation: Operation) -> None:
        super().__init__(parent)
        self.recorder = recorder
        self.operation = operation

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        linear = [type(operand) is LinearTracer and operand._trace is self for operand in operands]
        if not any(linear):
            return self.parent.process(operation, operands)
        if operation.stage_operands is not None:
            return self.function_of(operation, operands)  # linear in tangents
        if not operation.is_linear_in(linear):
            raise operation.not_linear()
        pairs = zip(operands, linear, strict=True)
        targets = [tracer.target if flag else None for tracer, flag in pairs]
        shapes = tuple(map(shape_of, operands))
        results = operation.infer(shapes)
        lift, name = self.parent.lift, operation.builder_name
        triples = zip(operands, shapes, linear, strict=True)
        operands_or_shapes = [
            shape if flag else lift(operand, name) for operand, shape, flag in triples
        ]
        pullback = _pullback(operation.transpose, results, operands_or_shapes, linear)
        node = Node(targets, pullback, _state.source, self.operation, (operands_or_shapes, results))
        self.recorder.record(node)
        if not isinstance(results, tuple):
            return LinearTracer(self, results, (node, 0))
        tangents = tuple([LinearTracer(self, shape, (node, i)) for i, shape in enumerate(results)])
        flags = [True] if operation.dependent is None else operation.dependent(linear)
        if all(flags):
            return tangents
        # Results that do not depend on tangents are values, for every value of the tangents.
        pairs = zip(operands_or_shapes, linear, strict=True)
        point = tuple([zeros_like(operand) if flag else operand for operand, flag in pairs])
        values = self.parent.process(operation, point)
        triples = zip(tangents, values, flags, strict=True)
        return tuple([tangent if flag else value for tangent, value, flag in triples])
