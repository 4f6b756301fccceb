"""Call: a program inside a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.attributes import Instance
from minixla.core.derived import batched_graph, call_vjp_graphs, jvp_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.roles import fill_role
from minixla.core.shapes import TOKEN, AnyShape
from minixla.core.tracing import bind, shape_of
from minixla_ops.batching import batch_size
from minixla_ops.computations import computation_of
from minixla_ops.evaluation import reference_graph
from minixla_ops.rules import zeros_like
from minixla_ops.tuples import from_leaves, tuple_leaves, without_tuples

__all__ = ["call"]


@register
class Call(Operation):
    """Runs a computation on its operands and gives its results. XLA: Call.

    A call whose computation has side effects is never dropped.

    Attributes:
        computation: the Graph.

    Checks:
        (C1) as many operands as the computation has inputs.
        (C2) each operand has the shape of its input.
    """

    operand_names = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    attributes = {"computation": Instance(Graph)}

    def shape(self, *operands: AnyShape, computation: Graph) -> tuple[AnyShape, ...]:
        wanted = computation.input_shapes
        given = [f"operands ({', '.join(map(str, operands))})", f"inputs {wanted}"]
        if len(wanted) != len(operands):
            self.reject(
                "C1",
                f"{len(operands)} operands for a computation of {len(wanted)} inputs",
                given,
                "Give one operand for each input.",
            )
        for index, (operand, shape) in enumerate(zip(operands, wanted, strict=True)):
            if operand is not shape:
                self.reject(
                    "C2",
                    f"operand {index} has shape {operand}, the computation takes {shape}",
                    given,
                    "Convert or reshape the operand.",
                )
        return computation.output_shapes

    def reference(self, *operands: Any, computation: Graph) -> tuple[Any, ...]:
        return tuple(reference_graph(computation, operands))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        computation: Graph,
    ) -> Sequence[str]:
        if emit.calls_host and computation.is_inlined:
            return emit.expand(computation, operands)
        is_threaded = computation.has_side_effect
        if is_threaded:
            operands = [emit.take_token(), *operands]
            shapes, results = [TOKEN, *shapes], [TOKEN, *results]
        names = [emit.name() for _ in results]
        target = f"{', '.join(names)} = " if names else ""
        types = ", ".join(shape.stablehlo for shape in shapes)
        outcome = ", ".join(shape.stablehlo for shape in results)
        symbol = emit.function(computation)
        emit.line(f"{target}func.call {symbol}({', '.join(operands)}) : ({types}) -> ({outcome})")
        return emit.give_token(names) if is_threaded else names

    def hlo_attributes(self, shapes: Sequence[AnyShape], *, computation: Graph) -> dict[str, Any]:
        return {"to_apply": computation}

    def forward(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, computation: Graph
    ) -> tuple[Any, Any]:
        active = tuple(tangent is not None for tangent in tangents)
        derived = jvp_graph(computation, active)
        everything = call(derived.graph, *primals, *(t for t in tangents if t is not None))
        count = len(computation.outputs)
        found = iter(everything[count:])
        return everything[:count], tuple(
            next(found) if flag else None for flag in derived.active_outputs
        )

    def linearize(
        self, operands: Sequence[Any], active: Sequence[bool], *, computation: Graph
    ) -> tuple[Any, Callable[..., Any]]:
        graphs = vjp_graphs(computation, tuple(active))
        results, pullback = call_vjp_graphs(graphs, len(computation.outputs), list(operands))
        return tuple(results), pullback

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Only a jvp rule applies a call to tangents, and such a rule is linear in them.
        return True

    def dependent(self, variables: Sequence[bool], *, computation: Graph) -> Sequence[bool]:
        return jvp_graph(computation, tuple(variables)).active_outputs

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        computation: Graph,
    ) -> Sequence[Any]:
        # The reverse derivative of a linear function is its transpose, wherever it is taken.
        graphs = vjp_graphs(computation, tuple(linear))
        point = [zeros_like(o) if flag else o for o, flag in zip(operands, linear, strict=True)]
        _, pullback = call_vjp_graphs(graphs, len(computation.outputs), point)
        return pullback(dict(enumerate(cotangents)))

    def batch_within(
        self, trace: Any, operands: Any, dimensions: Any, *, computation: Graph
    ) -> tuple[Any, Any]:
        return self._batch(trace.size, operands, dimensions, computation)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], *, computation: Graph
    ) -> tuple[Any, Any]:
        return self._batch(batch_size(operands, dimensions), operands, dimensions, computation)

    def _batch(
        self,
        size: int,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        computation: Graph,
    ) -> tuple[Any, Any]:
        batched = batched_graph(computation, tuple(dimensions), size)
        return call(batched.graph, *operands), batched.dimensions


def call(computation: Graph | Callable[..., Any], *operands: Any) -> tuple[Any, ...]:
    """The results of a computation as a Python tuple.

    Args:
        computation: a Graph, or a function of the operands that is traced to one.
        operands: values of the shapes of its inputs, tuples and tokens included.

    Raises:
        ShapeError: the operands do not fit (C1, C2).
        TransformError: the function reads traced values of the enclosing function.
    """
    if not isinstance(computation, Graph):
        shapes = [shape_of(operand, "call") for operand in operands]
        computation = computation_of(computation, shapes, "call")
    flat = without_tuples(computation)
    if flat is computation:
        return bind(Call.instance, *operands, computation=computation)
    Call.instance.infer(tuple(map(shape_of, operands)), {"computation": computation})
    leaves = [leaf for operand in operands for leaf in tuple_leaves(operand)]
    results = iter(bind(Call.instance, *leaves, computation=flat))
    return tuple([from_leaves(shape, results) for shape in computation.output_shapes])


fill_role("call", call)
