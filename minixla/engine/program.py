"""A whole graph as one JAX primitive, lowered by parsing its StableHLO text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph, hoist_constants
from minixla.core.shapes import AnyShape, Shape
from minixla.core.stablehlo_text import Emitter
from minixla.core.tracing import GraphTrace, tracing

__all__ = ["PROGRAM", "run_graph", "stage_for_jax"]


class HeldGraph:
    """A graph as a parameter in JAX: JAX's caches compare it by identity, not by structure."""

    __slots__ = ("graph",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __repr__(self) -> str:
        return repr(self.graph)


def held(graph: Graph) -> HeldGraph:
    """The one HeldGraph of a graph."""
    found = graph.memo.get("held")
    if found is None:
        found = graph.memo["held"] = HeldGraph(graph)
    return found


#: The primitive `minixla_program`; its parameter `graph` is a HeldGraph.
PROGRAM = Primitive("minixla_program")
PROGRAM.multiple_results = True


def abstract_value(shape: AnyShape) -> Any:
    """JAX's abstract value for an array shape."""
    if not isinstance(shape, Shape):
        raise explain(
            TransformError,
            "jit",
            f"a value of shape {shape} cannot cross the border to JAX",
            advice="Return arrays: take the members out of a tuple with get_tuple_element.",
        )
    return jax.core.ShapedArray(shape.dimensions, shape.dtype)


@PROGRAM.def_abstract_eval
def _abstract_eval(*_: Any, graph: HeldGraph) -> list[Any]:
    return [abstract_value(shape) for shape in graph.graph.output_shapes]


def lower_graph(ctx: Any, operands: Sequence[Any], graph: Graph) -> Sequence[Any]:
    """Adds a graph's functions to the module that JAX is lowering and calls the main one."""
    module_context = ctx.module_context
    prefix = _fresh_prefix(module_context.symbol_table)
    text = Emitter(locations=True, prefix=prefix).module(graph.pruned())
    parsed = ir.Module.parse(text, context=module_context.context)
    main = None
    for function in list(parsed.body.operations):
        # The operation moves: it belongs to JAX's module from here on.
        module_context.module.body.append(function)
        module_context.symbol_table.insert(function.operation)
        function.attributes["sym_visibility"] = ir.StringAttr.get(
            "private", context=module_context.context
        )
        main = main or function
    assert main is not None
    symbol = ir.FlatSymbolRefAttr.get(ir.StringAttr(main.attributes["sym_name"]).value)
    return func.CallOp(main.type.results, symbol, operands).results


def _fresh_prefix(symbols: Any) -> str:
    number = 0
    while f"minixla_{number}_main" in symbols:
        number += 1
    return f"minixla_{number}_"


mlir.register_lowering(
    PROGRAM, lambda ctx, *operands, graph: lower_graph(ctx, operands, graph.graph)
)
PROGRAM.def_impl(lambda *operands, graph: _compiled(graph.graph)(*operands))


def _compiled(graph: Graph) -> Callable[..., Any]:
    found = graph.memo.get("compiled")
    if found is None:
        found = graph.memo["compiled"] = jax.jit(lambda *each: bind_program(graph, *each))
    return found


def bind_program(graph: Graph, *operands: Any) -> list[Any]:
    """Binds the primitive under JAX's current trace."""
    return PROGRAM.bind(*operands, graph=held(graph))


def run_graph(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """The results of a graph as JAX arrays, or JAX tracers where JAX is tracing."""
    graph, literals = hoist_constants(graph)
    return bind_program(graph, *(each.data for each in literals), *operands)


def stage_for_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as one that JAX traces: our traces see it, JAX sees one primitive."""

    def staged(*args: Any, **kwargs: Any) -> Any:
        from minixla.engine.eager import ENGINE

        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        trace = GraphTrace(ENGINE)
        operands = []
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, jax.core.Tracer):
                operands.append(leaf)
                tracer = trace.add_input(Shape(leaf.dtype, leaf.shape))
                if leaf.weak_type:
                    tracer._mark_weak()
                leaves[index] = tracer
        args, kwargs = jax.tree_util.tree_unflatten(tree, leaves)
        with tracing(trace):
            results, result_tree = jax.tree_util.tree_flatten(function(*args, **kwargs))
            graph = trace.graph(results, getattr(function, "__name__", "main"))
        outputs = run_graph(graph, operands)
        return jax.tree_util.tree_unflatten(result_tree, outputs)

    staged.__name__ = getattr(function, "__name__", "function")
    return staged
