"""Symbolic zeros: cotangents that do not exist, carried through the pullback of a program.

The pullback of a program takes a cotangent for each result of the program. The cotangent of an
unused result does not exist. An array of zeros in its place would be multiplied by the slopes of
the program, and 0 * inf is NaN. So the pullback gets a `ZeroTracer`: linear operations return
symbolic zeros for it, and programs drop it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.derived import ReverseGraphs, entered_graph
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import spread, zeros_like
from minixla.core.operation import Operation
from minixla.core.registry import role
from minixla.core.reverse import Cotangents, Gradients, Pullback
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import Trace, Tracer, _state, shape_of, tracing, under
from minixla.core.value_types import Array, ArrayLike, Results


class ZeroTracer(Tracer):
    """A derivative that is zero; only its shape is known."""

    __slots__ = ()

    def __init__(self, trace: ZeroTrace, shape: AnyShape) -> None:
        self._trace, self._shape, self._weak = trace, shape, False

    def _mark_weak(self) -> None:
        """Do nothing: a derivative that is zero is not weakly typed."""

    def _concrete(self, wanted: str) -> Array:
        zeros = self._trace.instantiated(self)
        return zeros._concrete(wanted) if isinstance(zeros, Tracer) else zeros


class ZeroTrace(Trace):
    """A trace that computes under its parent and skips linear operations on zeros.

    It knows the shape of a symbolic zero. An operation that is not linear in its zeros gets
    arrays of zeros: the gradient rules of users may do anything with a cotangent.
    """

    transformation = "a pullback"
    prefix = memo_key = "without_zeros"
    forwards = True
    __slots__ = ()

    def again(self, parent: Trace) -> ZeroTrace:
        return ZeroTrace(parent)

    def taken_apart(self, value: ArrayLike) -> tuple[list[Any], bool]:
        """Return no parent value for a symbolic zero; the zero itself is known."""
        return ([], True) if self.is_own(value) else ([value], False)

    def output_apart(self, value: ArrayLike) -> tuple[list[Any], bool]:
        """Split an output; constants are zeros if no derivative reaches the output."""
        is_constant = _can_be_zero(shape_of(value)) and _is_zero_constant(value)
        return ([], True) if is_constant else self.taken_apart(value)

    def put_together(self, values: Sequence[Array], known: bool) -> Array:
        return values[0]

    def absent(self, shape: AnyShape) -> ZeroTracer:
        return ZeroTracer(self, shape)

    def shapes_of(self, shape: AnyShape, known: bool) -> list[AnyShape]:
        return [] if known else [shape]

    def joined(self, known: bool, other: bool) -> bool:
        return known and other

    def as_known(self, value: ArrayLike, known: bool) -> list[ArrayLike]:
        return [] if known else [self.instantiated(value)]

    def instantiated(self, value: ArrayLike) -> ArrayLike:
        """Return the parent's value; for a symbolic zero, an array of zeros."""
        if not self.is_own(value):
            return value
        with under(self.parent):
            return zeros_like(value._shape)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        zero = [type(operand) is ZeroTracer and operand._trace is self for operand in operands]
        if not any(zero):
            return self.outside(operation, operands)
        if operation.enter is not None:
            return operation.enter(self, operands)
        if operation.stage_operands is None:
            shapes = operation.infer(tuple(map(shape_of, operands)))
            flat = shapes if isinstance(shapes, tuple) else (shapes,)
            if operation.is_linear_in(zero) and all(map(_can_be_zero, flat)):
                if self._gives_zeros(operation, operands, zero):
                    made = tuple([ZeroTracer(self, shape) for shape in flat])
                    return made if isinstance(shapes, tuple) else made[0]
                if isinstance(shapes, tuple) and operation.linear_operands is not None:
                    return self._without_zeros(operation, operands, zero, shapes)
        values = tuple(map(self.instantiated, operands))
        with under(self.parent):
            return self.parent.process(operation, values)

    def _gives_zeros(
        self, operation: Operation, operands: Sequence[object], zero: Sequence[bool]
    ) -> bool:
        """Return whether an operation that is linear in the marked operands returns zeros."""
        if operation.computations:
            # A computation of scalars is linear if it maps zeros to zeros.
            zeros = [
                _makes_zeros(computation)
                for computation in operation.computations
                if _is_inexact(computation)
            ]
            if not all(zeros):
                return False
        elif not operation.jointly_linear:
            return True
        linear = operation.linear_operands
        return all(
            is_zero or _is_zero_constant(operand)
            for i, (operand, is_zero) in enumerate(zip(operands, zero, strict=True))
            if (has_tangent(operand) if linear is None else i in linear)
        )

    def _without_zeros(
        self,
        operation: Operation,
        operands: Sequence[Any],
        zero: Sequence[bool],
        shapes: Sequence[AnyShape],
    ) -> tuple[Array, ...]:
        """Compute a jointly linear operation by its jvp rule, which skips zeros."""
        linear, rows = operation.linear_operands or (), zip(operands, zero, strict=True)
        moving = [x if i in linear and not flag else None for i, (x, flag) in enumerate(rows)]
        with under(self.parent):
            tangents_out = operation.jvp(operands, moving, None)
        pairs = zip(tangents_out, shapes, strict=True)
        return tuple([ZeroTracer(self, s) if tangent is None else tangent for tangent, s in pairs])


def _is_inexact(computation: Graph) -> bool:
    return any(map(has_tangent, computation.output_shapes))


def _makes_zeros(computation: Graph) -> bool:
    """Return whether a computation of scalars is known to map zeros to zeros."""
    known = (True,) * len(computation.inputs)
    return all(entered_graph(computation, ZeroTrace(None), known).known)


def _is_zero_constant(value: object) -> bool:
    """Return whether a value is known to contain only zeros: a scalar, or a constant."""
    literal = getattr(getattr(value, "_value", None), "literal", None)
    if literal is not None:
        return literal.is_splat and not literal.scalar
    if not isinstance(value, (int, float, complex, np.generic, np.ndarray)):
        return False
    array = np.asarray(value)
    is_splat = array.size == 1 or (array.size > 0 and not any(array.strides))
    return is_splat and not array.flat[0]


def _zero(trace: ZeroTrace, value: object) -> Array:
    """Return a symbolic zero like `value`, or an array of zeros if its size is dynamic."""
    shape = shape_of(value)
    return ZeroTracer(trace, shape) if _can_be_zero(shape) else zeros_like(value)


def _can_be_zero(shape: AnyShape) -> bool:
    """Return whether the shape suffices to build an array of zeros."""
    return type(shape) is Shape and not shape.is_dynamic and shape.element_type.is_inexact


def pulled(
    backward: Callable[..., Sequence[Array]],
    cotangents: Sequence[Array | None],
    results: Sequence[object],
) -> list[Array | None]:
    """Apply a pullback to cotangents; absent cotangents and results are None.

    Args:
        backward: takes a cotangent for each of `results`, and is linear in them.
        cotangents: one for each result, or None for a symbolic zero.
        results: values or shapes.
    """
    if not any(cotangent is None for cotangent in cotangents):
        return list(backward(*cotangents))
    trace = ZeroTrace(_state.trace)
    active_cotangents = [
        _zero(trace, result) if cotangent is None and has_tangent(result) else cotangent
        for cotangent, result in zip(cotangents, results, strict=True)
    ]
    with tracing(trace):
        gradients = backward(*active_cotangents)
    return [None if trace.is_own(gradient) else gradient for gradient in gradients]


def pullback_by(
    backward: Callable[..., Sequence[Array]],
    results: Sequence[Array],
    outputs: Sequence[object],
    inputs: Sequence[object],
) -> Pullback:
    """Build a pullback (`Operation.linearize`) from a function of the marked cotangents."""

    def pullback(cotangents: Cotangents) -> Gradients:
        marked = list(compress(enumerate(results), outputs))
        received = [cotangents.get(index) for index, _ in marked]
        return spread(inputs, pulled(backward, received, [result for _, result in marked]))

    return pullback


def call_vjp_graphs(
    graphs: ReverseGraphs, operands: Sequence[Array]
) -> tuple[tuple[Any, ...], Pullback]:
    """Run the forward half; return the results and the pullback, which runs the other half."""
    call, count = role("call"), len(graphs.active_outputs)
    everything = call(graphs.forward, *operands)
    results, residuals = everything[:count], everything[count:]
    backward = partial(call, graphs.backward, *residuals)
    return results, pullback_by(backward, results, graphs.active_outputs, graphs.active_inputs)
