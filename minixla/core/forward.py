"""Forward derivatives: a trace whose values carry a tangent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.attributes import Text
from minixla.core.errors import DerivativeError, explain
from minixla.core.linear import with_sizes_of, zeros_like
from minixla.core.operation import DERIVATIVE_ADVICE, Operation
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.tracer import WrappingTracer, unwrapped, wrapped
from minixla.core.tracing import GraphTrace, Trace, _state, shape_of, under
from minixla.core.value_types import Array, ArrayLike, Results


def has_tangent(value: object) -> bool:
    """Return whether a value (or Shape) has a tangent: floats, complex numbers, tuples of them."""
    shape = shape_of(value)
    if type(shape) is Shape:
        return shape.element_type.is_inexact
    return isinstance(shape, TupleShape) and any(map(has_tangent, shape.elements))


def jvp_of(operation: Operation, primals: list[Array], tangents: list[Any]) -> tuple[Results, Any]:
    """Return results and their tangents (None for zero) under the current trace."""
    if _state.watch is not None:
        _state.watch.differentiates(operation, primals, [t is not None for t in tangents])
    if operation.forward is not None:
        return operation.forward(primals, tangents)
    results = _state.trace.process(operation, tuple(primals))
    refuse_without_derivative(operation)
    single = type(results) is not tuple
    inexact = has_tangent(results) if single else any(map(has_tangent, results))
    if operation.zero_derivative is not None or not inexact:
        return results, None
    jvp = operation.jvp if _state.watch is None else _state.watch.jvp(operation)
    tangents_out = jvp(primals, tangents, results)
    if type(results) is tuple and tangents_out is not None:
        return results, tuple(map(with_sizes_of, tangents_out, results))
    return results, with_sizes_of(tangents_out, results)


def refuse_without_derivative(operation: Operation) -> None:
    """Raise DerivativeError if the operation declares that it has no derivative."""
    if operation.no_derivative is not None:
        problem = f"the operation has no derivative: {operation.no_derivative}"
        names = [name for name, field in operation.fields.items() if type(field.kind) is Text]
        details = [f"{name} = {operation.values[name]!r}" for name in names]
        raise explain(DerivativeError, operation.builder_name, problem, details, DERIVATIVE_ADVICE)


class ForwardTracer(WrappingTracer):
    """A primal and its tangent (the knowledge of the trace), both values of the parent trace."""

    __slots__ = ()


class ForwardTrace(Trace):
    """Compute primals under the parent trace, and propagate tangents."""

    transformation = prefix = memo_key = "jvp"
    forwards = True
    #: `derive(operation, primals, tangents)`: results and tangents (None: zero), under the parent.
    derive = staticmethod(jvp_of)
    __slots__ = ()

    def again(self, parent: Trace) -> ForwardTrace:
        return ForwardTrace(parent)

    def taken_apart(self, value: ArrayLike) -> tuple[list[Any], bool]:
        """Return the primal, and the tangent if there is one, and whether there is one."""
        if not self.is_own(value):
            return [value], False
        is_moving = has_tangent(value)
        return [value.value, value.known][: 1 + is_moving], is_moving

    def put_together(self, values: Sequence[Array], known: bool) -> Array:
        return ForwardTracer(self, *values) if known else values[0]

    def shapes_of(self, shape: AnyShape, known: bool) -> list[AnyShape]:
        return [shape] * (1 + known)

    def joined(self, known: bool, other: bool) -> bool:
        """Return whether either has a tangent; a missing tangent is zero."""
        return known or other

    def as_known(self, value: ArrayLike, known: bool) -> list[Array]:
        values, is_moving = self.taken_apart(value)
        return [*values, zeros_like(values[0])] if known and not is_moving else values

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        primals, tangents, is_active = unwrapped(self, ForwardTracer, operands)
        if not is_active:
            return self.outside(operation, operands)
        parent = self.parent
        primals = [parent.lift(primal, operation.builder_name) for primal in primals]
        previous = _state.trace
        _state.trace = parent
        try:
            results, tangents_out = self.derive(operation, primals, tangents)
        finally:
            _state.trace = previous
        return wrapped(self, ForwardTracer, results, tangents_out)


class PartialTrace(GraphTrace):
    """Record operations on its own tracers; compute all others under its parent."""

    transformation = "linearize"
    forwards = True
    __slots__ = ()

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        if any(map(self.is_own, operands)):
            if operation.stage_operands is not None:
                return self.function_of(operation, operands)  # linear in tangents
            return super().process(operation, operands)
        return self.outside(operation, operands)

    def lift(self, value: ArrayLike, subject: str = "trace") -> Array:
        return value if self.is_own(value) else self.parent.lift(value, subject)


class LinearizeTrace(ForwardTrace):
    """Compute primals immediately, and record the operations on tangents as a program."""

    transformation = "linearize"
    __slots__ = ("recorder",)

    def __init__(self, parent: Trace) -> None:
        self.recorder = PartialTrace(parent)
        super().__init__(self.recorder)

    def derive(
        self, operation: Operation, primals: list[Array], tangents: list[Any]
    ) -> tuple[Results, Any]:
        results, tangents_out = jvp_of(operation, primals, tangents)
        if type(results) is tuple and any(map(self.recorder.is_own, results)):
            # One program yields both: the recorded program runs only for tangents.
            parent = self.recorder.parent
            with under(parent):
                results = parent.process(operation, tuple(primals))
        return results, tangents_out
