"""The operations of stop_gradient, custom_jvp and custom_vjp; they are not XLA operations."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.core

from minixla.core.attributes import Function, Instance, Integer, attribute
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, hoist_constants
from minixla.core.operation import Operation
from minixla.core.reverse import Cotangents, Gradients
from minixla.core.shapes import AnyShape
from minixla.core.tracing import (
    Tracer,
    current_trace,
    evaluate_graph,
    shape_of,
    trace_to_graph,
    under,
)
from minixla.core.value_types import Results
from minixla.engine import stage_for_jax
from minixla.engine.jax_private import disable_bwd_checks
from minixla.transforms.arguments import misfit
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.elementwise.families import ALL, Unary
from minixla_ops.helpers.batch_dimensions import move_batch, move_dimension
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.call import Call
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import CallsProgram


class Unchanged(Unary):
    """Base class of operations that return the operand."""

    element_types = ALL

    def reference(self, operand):
        return operand

    def stablehlo(self, emit, operands, shapes, results):
        return operands


class StopGradient(Unchanged):
    """Return the operand as a constant for derivatives; it is printed as HLO's copy."""

    hlo_name = "copy"
    zero_derivative = "stop_gradient removes the derivative"


class CustomDerivativeCall(CallsProgram):
    """Base class of calls with a custom derivative rule; they are printed as HLO's call.

    If the current trace evaluates, `function` runs in Python; a graph contains `computation`. The
    function takes all operands and returns a sequence of results; the first `captured` operands are
    closed-over values. Rules take only the others, and None is zero. `jvp(primals, tangents)`
    returns results and tangents. `forward(operands, active)` returns results and a pytree of
    residuals, from which `backward(residuals, cotangents, result shapes)` returns cotangents.
    """

    operands = ("operands...",)
    has_user_rule = True
    only_arrays = False
    function: Any = attribute(Function(), hlo=None)
    computation: Any = attribute(Instance(Graph), default=None, hlo="to_apply")
    captured: int = attribute(Integer(0), default=0, hlo=None)

    def shape(self, *operands):
        return self.computation.output_shapes

    def stage_operands(self, operands):
        if self.computation is not None:
            return self, operands
        shapes = [shape_of(operand, self.builder_name) for operand in operands]
        graph, captured = trace_to_graph(self.function, shapes, self.function.name)
        graph, literals = hoist_constants(graph.pruned())
        read = [*(literal.data for literal in literals), *captured]
        staged = self.replace(computation=graph, captured=self.captured + len(read))
        return staged, (*read, *operands)

    def run(self, *operands):
        if any(isinstance(operand, jax.core.Tracer) for operand in operands):
            # JAX must see one program: otherwise, it would differentiate the function, not use the
            # rule.
            return stage_for_jax(self)(*operands)
        lift, name = current_trace().lift, self.builder_name
        outputs = self.apply(*[lift(operand, name) for operand in operands])
        return tuple([lift(output, name) for output in outputs])

    def apply(self, *operands: Array) -> Sequence[Array]:
        """Call the function under the current trace."""
        if self.computation is None:
            return self.function(*operands)
        return evaluate_graph(self.computation, operands)

    def reference(self, *operands):
        return tuple(reference_graph(self.computation, operands))

    def stablehlo(self, emit, operands, shapes, results):
        return Call(self.computation).stablehlo(emit, operands, shapes, results)

    def batch_within(self, trace, operands, dimensions):
        # All results have leading batch dimensions.
        function = _Batched(self, trace, tuple(dimensions))
        results = self(*operands, function=function, computation=None)
        return results, (0,) * len(results)

    def _refuse_captured(self, active: Sequence[bool]) -> None:
        if any(active[: self.captured]):
            problem = "the function must not read a value that is being differentiated"
            advice = "A custom rule only knows the arguments: pass the value as an argument."
            raise explain(DerivativeError, self.builder_name, problem, advice=advice)

    def _checked_results(self, results: Sequence[ArrayLike]) -> tuple[Array, ...]:
        """Check that the results of a rule have the shapes of the function's results."""
        name, lift = self.builder_name, current_trace().lift
        lifted = tuple([lift(result, name) for result in results])
        shapes = tuple([shape_of(result) for result in lifted])
        if self.computation is not None and shapes != self.computation.output_shapes:
            problem = "the rule's results must have the shapes of the function's results"
            details = [f"rule: {shapes}", f"function: {self.computation.output_shapes}"]
            advice = "The rule must return the function's results together with its derivative."
            raise misfit(name, problem, details, advice)
        return lifted

    def _checked(
        self, what: str, tangents: Sequence[ArrayLike | None], shapes: Sequence[AnyShape]
    ) -> list[Any]:
        """Check that tangents or cotangents of a rule have the types of their values.

        JAX's option `jax_disable_bwd_checks` allows cotangents with other types.
        """
        lift, checked = current_trace().lift, [*tangents]
        is_checked = what != "cotangent" or not disable_bwd_checks.value
        for index, (tangent, shape) in enumerate(zip(tangents, shapes, strict=True)):
            checked[index] = None if tangent is None else lift(tangent, self.builder_name)
            if is_checked and tangent is not None and shape_of(checked[index]) is not shape:
                problem = f"the rule's {what} {index} does not match its value"
                details = [f"{what} {index}: {shape_of(checked[index])}", f"value: {shape}"]
                advice = f"A {what} must have the shape and element type of its value."
                raise misfit(self.builder_name, problem, details, advice)
        return checked


class CustomJvpCall(CustomDerivativeCall):
    """A call of a function with a forward derivative rule."""

    builder_name, hlo_name = "custom_jvp", "call"

    def forward(self, primals, tangents):
        self._refuse_captured([tangent is not None for tangent in tangents])
        captured, function = self.captured, self.function
        results, moving = function.jvp(primals[captured:], tangents[captured:])
        results = self._checked_results(results)
        return results, tuple(self._checked("tangent", moving, list(map(shape_of, results))))


class CustomVjpCall(CustomDerivativeCall):
    """A call of a function with a reverse derivative rule."""

    builder_name, hlo_name = "custom_vjp", "call"

    def forward(self, primals, tangents):
        problem = "can't apply forward-mode autodiff (jvp) to a custom_vjp function"
        advice = "Use grad or vjp, or define the rule with mx.custom_jvp, which supports both."
        raise explain(DerivativeError, self.builder_name, problem, advice=advice)

    def linearize(self, operands, active):
        self._refuse_captured(active)
        captured, function = self.captured, self.function
        results, residuals = function.forward(operands[captured:], active[captured:])
        results = self._checked_results(results)
        result_shapes = [shape_of(result) for result in results]
        shapes = [shape_of(operand) for operand in operands[captured:]]

        def pullback(cotangents: Cotangents) -> Gradients:
            received = [cotangents.get(index) for index in range(len(results))]
            pairs = zip(function.backward(residuals, received, result_shapes), shapes, strict=True)
            wanted = [cotangent if has_tangent(shape) else None for cotangent, shape in pairs]
            return [None] * captured + self._checked("cotangent", wanted, shapes)

        return results, pullback


class _InnerBatchTrace(BatchTrace):
    """The batch of `origin` under another parent, for a function that runs later.

    It may read values of `origin`, or of another trace like this: they belong to this batch.
    """

    __slots__ = ("origin",)

    def __init__(self, parent: Any, origin: BatchTrace) -> None:
        super().__init__(parent, origin.size, origin.name)
        self.origin = getattr(origin, "origin", origin)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        return super().process(operation, tuple(map(self.own, operands)))

    def owns(self, tracer: Tracer) -> bool:
        """Return whether a tracer belongs to the same batch."""
        return getattr(tracer._trace, "origin", tracer._trace) in (self, self.origin)

    def own(self, value: ArrayLike) -> ArrayLike:
        """Return `value`, as a tracer of this trace if it belongs to the same batch."""
        if type(value) is not BatchTracer or value._trace is self:
            return value
        origin = getattr(value._trace, "origin", value._trace)
        return BatchTracer(self, value.value, value.known) if origin is self.origin else value


class _Batched:
    """A flat function over a batch, and its rules; results have leading batch dimensions."""

    def __init__(
        self, call: CustomDerivativeCall, trace: BatchTrace, dimensions: tuple[int | None, ...]
    ) -> None:
        self.call, self.trace, self.dimensions = call, trace, dimensions
        self.inner, self.name = call.function, call.function.name
        #: The batch dimensions of the operands that the rules take.
        self.own_dimensions = dimensions[call.captured :]

    def __call__(self, *operands: Array) -> Sequence[Array]:
        return self._run(self.call.apply, operands, self.dimensions)

    def _run(
        self,
        function: Callable[..., Sequence[Array]],
        operands: Sequence[Any],
        at: Sequence[int | None],
    ) -> list[Any]:
        """Run the function of one batch element over the batch; results have leading batches."""
        trace = _InnerBatchTrace(current_trace(), self.trace)
        inputs = [trace.put_together([x], where) for x, where in zip(operands, at, strict=True)]
        try:
            with under(trace):
                outputs = [trace.own(output) for output in function(*inputs)]
        finally:
            trace.alive = False
        parts = [(value, where) for (value,), where in map(trace.taken_apart, outputs)]
        return [x if x is None else move_batch(x, where, 0, trace.size) for x, where in parts]

    def jvp(
        self, primals: Sequence[Array], tangents: Sequence[Array | None]
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:
        dimensions, count = self.own_dimensions, len(primals)
        # A tangent has the batch dimension of its value, unless it is zero.
        at = [None if t is None else d for t, d in zip(tangents, dimensions, strict=True)]

        def flat(*members: Array) -> Sequence[Array]:
            results, moving = self.inner.jvp(members[:count], members[count:])
            return [*results, *moving]

        found = self._run(flat, (*primals, *tangents), (*dimensions, *at))
        return found[: len(found) // 2], found[len(found) // 2 :]

    def forward(
        self, operands: Sequence[Array], active: Sequence[bool]
    ) -> tuple[Sequence[Array], PyTree]:
        kept: list[PyTree] = []

        def flat(*members: Array) -> Sequence[Array]:
            results, residuals = self.inner.forward(members, active)
            kept.append(residuals)  # values of the trace, unchanged, which `own` recognizes
            return results

        return self._run(flat, operands, self.own_dimensions), kept[0]

    def backward(
        self, residuals: PyTree, cotangents: Sequence[Array | None], shapes: Sequence[AnyShape]
    ) -> Sequence[Array | None]:
        members = [array_shape(shape).without_dimension(0) for shape in shapes]
        at = [None if cotangent is None else 0 for cotangent in cotangents]

        def flat(*operands: Array) -> Sequence[Array]:
            trace: Any = current_trace()
            return self.inner.backward(jax.tree.map(trace.own, residuals), operands, members)

        return list(map(_from_front, self._run(flat, cotangents, at), self.own_dimensions))


def _from_front(cotangent: Array | None, dimension: int | None) -> Array | None:
    if cotangent is None:
        return None
    if dimension is None:  # all batch elements share the operand
        return sum_over(cotangent, [0])
    return move_dimension(cotangent, 0, dimension)
