"""The operations behind stop_gradient, custom_jvp and custom_vjp. None is an operation of XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from jax.core import Tracer as JaxTracer
from jax.tree_util import tree_unflatten

from minixla.core.attributes import Attribute, Instance, Optional
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.errors import DerivativeError, TransformError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, hoist_constants
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import (
    bind,
    current_trace,
    evaluate_graph,
    shape_of,
    trace_to_graph,
    under,
)
from minixla.engine import stage_for_jax
from minixla.engine.random_keys import flatten
from minixla_ops.batching import move_batch
from minixla_ops.calls import Call
from minixla_ops.elementwise import ALL, Unary
from minixla_ops.evaluation import reference_graph
from minixla_ops.rules import sum_over

__all__ = [
    "CUSTOM_JVP",
    "CUSTOM_VJP",
    "STOP_GRADIENT",
    "CustomDerivativeCall",
    "FlatFunction",
    "JvpFunction",
    "VjpFunction",
]


class StopGradient(Unary):
    """The operand itself, as a constant for derivatives; it prints as HLO's copy."""

    hlo_name = "copy"
    element_types = ALL
    zero_derivative = "it is what stop_gradient is for"

    def reference(self, operand: Any) -> Any:
        """The operand."""
        return operand

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
    ) -> Sequence[str]:
        """Nothing: the operand is the result."""
        return operands


class FlatFunction(Protocol):
    """A function of a flat sequence of values that returns another."""

    def __call__(self, *operands: Any) -> Sequence[Any]:
        """The results."""
        ...


class JvpFunction(FlatFunction, Protocol):
    """A function with a forward derivative rule of the user's; None stands for zero."""

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Results, and a tangent for each."""
        ...


class VjpFunction(FlatFunction, Protocol):
    """A function with a reverse derivative rule of the user's; None stands for zero."""

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[Sequence[Any], Any]:
        """Results, and a pytree of what `backward` needs."""
        ...

    def backward(
        self, residuals: Any, cotangents: Sequence[Any], shapes: Sequence[AnyShape]
    ) -> Sequence[Any]:
        """A cotangent for each operand; `shapes` are those of the results."""
        ...


class CustomDerivativeCall(Operation):
    """Base class of calls with the user's own derivative rule; they print as HLO's call.

    Where the current trace evaluates, the function runs in Python; in a graph it is a computation.

    Attributes:
        function: the function with its rules. It takes all operands; its rules only those that
            are not captured.
        computation: the Graph of the function, once staged.
        captured: how many leading operands are values that the function reads from outside.
    """

    hlo_name = "call"
    operand_names = ("operands...",)
    attributes: ClassVar[dict[str, Attribute]] = {
        "function": Attribute(),
        "computation": Optional(Instance(Graph)),
        "captured": Attribute(0),
    }
    #: The class of batched functions: (function, trace, dimensions of operands, captured).
    batched: ClassVar[Callable[..., Any]]

    def infer(
        self, shapes: tuple[AnyShape, ...], attributes: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The computation's output shapes; not cached, to keep no function of the user's alive."""
        return self.shape(*shapes, **attributes), attributes

    def shape(self, *operands: AnyShape, computation: Graph | None, **_: Any) -> Any:
        """The computation's output shapes."""
        assert computation is not None, "a staged call has a graph"
        return computation.output_shapes

    def stage_operands(
        self, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Operands and attributes for a graph: the function becomes a computation."""
        if attributes["computation"] is not None:
            return operands, attributes
        function = attributes["function"]
        shapes = [shape_of(operand, self.builder_name) for operand in operands]
        graph, captured = trace_to_graph(function, shapes, getattr(function, "name", "custom"))
        graph, literals = hoist_constants(graph.pruned())
        read = [*(literal.data for literal in literals), *captured]
        count = attributes["captured"] + len(read)
        return (*read, *operands), {**attributes, "computation": graph, "captured": count}

    def run(self, *operands: Any, **attributes: Any) -> Any:
        """The function's results, where the current trace evaluates."""
        if any(isinstance(operand, JaxTracer) for operand in operands):
            # JAX must see one program: else it would differentiate the function, not ask the rule.
            return stage_for_jax(lambda *xs: bind(self, *xs, **attributes))(*operands)
        lift, name = current_trace().lift, self.builder_name
        lifted = [lift(operand, name) for operand in operands]
        computation = attributes["computation"]
        if computation is not None:
            outputs: Sequence[Any] = evaluate_graph(computation, lifted)
        else:
            outputs = attributes["function"](*lifted)
        return tuple([lift(output, name) for output in outputs])

    def reference(self, *operands: Any, computation: Graph, **_: Any) -> Any:
        """The computation's results."""
        return tuple(reference_graph(computation, operands))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        computation: Graph,
        **_: Any,
    ) -> Sequence[str]:
        """A call of the computation."""
        return Call(computation).stablehlo(emit, operands, shapes, results)

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], *, computation: Graph, **_: Any
    ) -> dict[str, Any]:
        """The computation."""
        return {"to_apply": computation}

    def batch_within(
        self,
        trace: BatchTrace,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        function: FlatFunction,
        computation: Graph | None,
        captured: int,
    ) -> tuple[Any, Any]:
        """A call of the same function over a batch; all results have the batch in front."""
        batched = self.batched(function, computation, trace, tuple(dimensions), captured)
        results = bind(self, *operands, function=batched, computation=None, captured=captured)
        return results, (0,) * len(results)

    def _refuse_captured(self, active: Sequence[bool], captured: int) -> None:
        if any(active[:captured]):
            raise explain(
                DerivativeError,
                self.builder_name,
                "the function reads a value that is being differentiated",
                advice="A custom rule only knows the arguments: pass the value as an argument.",
            )

    def _checked_results(
        self, results: Sequence[Any], computation: Graph | None
    ) -> tuple[Any, ...]:
        """What a rule gave for the function's results, which must have the function's shapes."""
        name = self.builder_name
        lift = current_trace().lift
        lifted = tuple([lift(result, name) for result in results])
        shapes = tuple([shape_of(result) for result in lifted])
        if computation is not None and shapes != computation.output_shapes:
            raise explain(
                TransformError,
                name,
                "the rule's result has other shapes than the function's",
                [f"rule: {shapes}", f"function: {computation.output_shapes}"],
                "The rule must return what the function returns, next to its derivative.",
            )
        return lifted

    def _checked_derivative(self, what: str, index: int, given: Any, shape: AnyShape) -> Any:
        """A tangent or cotangent of a rule, which must be like the value that it belongs to."""
        if given is None:
            return None
        lifted = current_trace().lift(given, self.builder_name)
        if shape_of(lifted) is not shape:
            raise explain(
                TransformError,
                self.builder_name,
                f"the rule's {what} {index} does not fit the value that it belongs to",
                [f"{what} {index}: {shape_of(lifted)}", f"value: {shape}"],
                f"A {what} has the shape and element type of its value.",
            )
        return lifted


class CustomJvpCall(CustomDerivativeCall):
    """A call of a function with a forward derivative rule."""

    builder_name = "custom_jvp"
    hlo_name = "call"

    def forward(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        function: JvpFunction,
        computation: Graph | None,
        captured: int,
    ) -> tuple[Any, Any]:
        """Results and tangents by the rule."""
        self._refuse_captured([tangent is not None for tangent in tangents], captured)
        results, moving = function.jvp(primals[captured:], tangents[captured:])
        results = self._checked_results(results, computation)
        return results, tuple(
            [
                self._checked_derivative("tangent", index, tangent, shape_of(result))
                for index, (tangent, result) in enumerate(zip(moving, results, strict=True))
            ]
        )


class CustomVjpCall(CustomDerivativeCall):
    """A call of a function with a reverse derivative rule."""

    builder_name = "custom_vjp"
    hlo_name = "call"

    def forward(self, primals: Sequence[Any], tangents: Sequence[Any], **_: Any) -> Any:
        """Raises DerivativeError: there is no forward derivative."""
        raise explain(
            DerivativeError,
            self.builder_name,
            "a function with a custom_vjp rule cannot be differentiated forwards",
            advice="Use grad or vjp, or define the rule with mx.custom_jvp, which serves both.",
        )

    def linearize(
        self,
        operands: Sequence[Any],
        active: Sequence[bool],
        *,
        function: VjpFunction,
        computation: Graph | None,
        captured: int,
    ) -> tuple[Any, Callable[..., Any]]:
        """Results by the rule's first half; the pullback runs the second."""
        self._refuse_captured(active, captured)
        results, residuals = function.forward(operands[captured:], active[captured:])
        results = self._checked_results(results, computation)
        result_shapes = [shape_of(result) for result in results]
        shapes = [shape_of(operand) for operand in operands[captured:]]

        def pullback(cotangents: Any) -> Sequence[Any]:
            given = [cotangents.get(index) for index in range(len(results))]
            found = function.backward(residuals, given, result_shapes)
            pairs = enumerate(zip(found, shapes, strict=True))
            return [None] * captured + [
                self._checked_derivative("cotangent", index, each, shape)
                if has_tangent(shape)
                else None
                for index, (each, shape) in pairs
            ]

        return results, pullback


class _InnerBatchTrace(BatchTrace):
    """The batch of `origin` once more, under another parent.

    A function that runs later, when the trace it was called under has moved on, may read values
    of that trace: they count as this one's.
    """

    __slots__ = ("origin",)

    def __init__(self, parent: Any, origin: BatchTrace) -> None:
        super().__init__(parent, origin.size, origin.name)
        self.origin = origin

    def process(
        self, operation: Operation, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Any:
        """The operation's batching rule, where an operand is batched."""
        own = tuple([self.own(operand) for operand in operands])
        return super().process(operation, own, attributes)

    def own(self, value: Any) -> Any:
        """`value`, or a tracer of this trace where it is the origin's."""
        if type(value) is BatchTracer and self._stands_for(value._trace):
            return BatchTracer(self, value.value, value.dimension)
        return value

    def _stands_for(self, trace: Any) -> bool:
        origin = self.origin
        while isinstance(origin, _InnerBatchTrace) and origin is not trace:
            origin = origin.origin
        return origin is trace


class _Batched:
    """A flat function over a batch: all its results have the batch in front."""

    def __init__(
        self,
        function: Any,
        computation: Graph | None,
        trace: BatchTrace,
        dimensions: tuple[int | None, ...],
        captured: int,
    ) -> None:
        self.inner = function
        self.computation = computation
        self.trace = trace
        self.dimensions = dimensions
        self.captured = captured
        self.name = getattr(function, "name", "custom")

    def __call__(self, *operands: Any) -> Sequence[Any]:
        function = self.inner
        if self.computation is not None:
            computation = self.computation
            function = lambda *xs: evaluate_graph(computation, xs)  # noqa: E731
        return self._in_front(self._run(function, operands, self.dimensions))

    def _run(
        self, function: Callable[..., Sequence[Any]], operands: Sequence[Any], at: Sequence[Any]
    ) -> list[tuple[Any, int | None]]:
        """What the function returns for one member, over the batch: values and dimensions."""
        trace = _InnerBatchTrace(current_trace(), self.trace)
        inputs = [
            operand if dimension is None else BatchTracer(trace, operand, dimension)
            for operand, dimension in zip(operands, at, strict=True)
        ]
        try:
            with under(trace):
                outputs = [trace.own(output) for output in function(*inputs)]
        finally:
            trace.alive = False
        return [
            (output.value, output.dimension)
            if type(output) is BatchTracer and output._trace is trace
            else (output, None)
            for output in outputs
        ]

    def _in_front(self, outputs: Sequence[tuple[Any, int | None]]) -> list[Any]:
        size = self.trace.size
        return [None if value is None else move_batch(value, at, 0, size) for value, at in outputs]


class _BatchedJvp(_Batched):
    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        dimensions = self.dimensions[self.captured :]
        # A tangent has its batch where its value has, unless it is zero.
        at = [None if t is None else d for t, d in zip(tangents, dimensions, strict=True)]
        count = len(primals)

        def flat(*members: Any) -> Sequence[Any]:
            results, moving = self.inner.jvp(members[:count], members[count:])
            return [*results, *moving]

        found = self._in_front(self._run(flat, (*primals, *tangents), (*dimensions, *at)))
        return found[: len(found) // 2], found[len(found) // 2 :]


class _BatchedVjp(_Batched):
    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[Any, Any]:
        count = 0
        tree: Any = None

        def flat(*members: Any) -> Sequence[Any]:
            nonlocal count, tree
            results, residuals = self.inner.forward(members, active)
            leaves, tree = flatten(residuals)
            count = len(results)
            return [*results, *leaves]

        found = self._run(flat, operands, self.dimensions[self.captured :])
        kept = found[count:]
        values = [value for value, _ in kept]
        return self._in_front(found[:count]), (values, _Layout(tree, [at for _, at in kept]))

    def backward(
        self, residuals: Any, cotangents: Sequence[Any], shapes: Sequence[AnyShape]
    ) -> Sequence[Any]:
        values, layout = residuals
        members = [_without_front(shape) for shape in shapes]
        at = [*layout.dimensions, *[None if c is None else 0 for c in cotangents]]

        def flat(*given: Any) -> Sequence[Any]:
            own = tree_unflatten(layout.tree, given[: len(values)])
            return self.inner.backward(own, given[len(values) :], members)

        found = self._in_front(self._run(flat, [*values, *cotangents], at))
        dimensions = self.dimensions[self.captured :]
        return [_from_front(each, d) for each, d in zip(found, dimensions, strict=True)]


class _Layout:
    """How residuals of one member are laid out; a leaf of the batch's residuals."""

    def __init__(self, tree: Any, dimensions: Sequence[int | None]) -> None:
        self.tree = tree
        self.dimensions = dimensions


def _without_front(shape: AnyShape) -> AnyShape:
    assert isinstance(shape, Shape), f"{shape} cannot be batched"
    return shape.without_dimension(0)


def _from_front(cotangent: Any, dimension: int | None) -> Any:
    if cotangent is None:
        return None
    if dimension is None:  # every member shares the operand
        return sum_over(cotangent, [0])
    shape = shape_of(cotangent)
    assert isinstance(shape, Shape), f"{shape} cannot be batched"
    return move_batch(cotangent, 0, dimension, shape.dimensions[0])


CustomJvpCall.batched = _BatchedJvp
CustomVjpCall.batched = _BatchedVjp

STOP_GRADIENT = StopGradient()
CUSTOM_JVP = CustomJvpCall()
CUSTOM_VJP = CustomVjpCall()
