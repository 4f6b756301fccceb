"""Functions of pytrees as graphs that an operation of a program runs: branches, bodies, calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.graph import Graph, Value, hoist_constants
from minixla.core.tracing import Tracer, trace_to_graph, weak_type_of

__all__ = ["Staged", "reading_all", "stage"]


class Staged(NamedTuple):
    """A function traced for certain arguments.

    Attributes:
        graph: takes `read` and the leaves of the arguments.
        read: the arrays and tracers that the function reads from outside.
        result_tree: the structure of its result.
        weak: for each leaf of the result whether it is weakly typed.
    """

    graph: Graph
    read: list[Any]
    result_tree: Any
    weak: list[bool]

    def results(self, leaves: Sequence[Any]) -> Any:
        """The function's result for the outputs of the graph."""
        for leaf, flag in zip(leaves, self.weak, strict=True):
            if flag and isinstance(leaf, Tracer):
                leaf._mark_weak()
        return tree_unflatten(self.result_tree, leaves)


def stage(
    fun: Callable[..., Any],
    tree: Any,
    shapes: Sequence[Any],
    weak: Sequence[bool],
    name: str | None = None,
) -> Staged:
    """`fun` traced for positional arguments of a structure.

    Args:
        fun: takes the arguments.
        tree: the structure of the tuple of arguments.
        shapes: the shapes of its leaves.
        weak: for each leaf whether it is weakly typed.
        name: of the graph; default: that of the function.
    """
    trees: list[Any] = []
    weak_results: list[bool] = []

    def flat(*tracers: Any) -> list[Any]:
        for tracer, flag in zip(tracers, weak, strict=True):
            if flag:
                tracer._mark_weak()
        leaves, result_tree = tree_flatten(fun(*tree_unflatten(tree, tracers)))
        trees.append(result_tree)
        weak_results.extend([weak_type_of(leaf) for leaf in leaves])
        return leaves

    graph, captured = trace_to_graph(flat, shapes, name or getattr(fun, "__name__", "main"))
    # Arrays that live in JAX, and large ones, enter as operands: the program holds none.
    graph, constants = hoist_constants(graph.pruned())
    read = [*(literal.data for literal in constants), *captured]
    return Staged(graph, read, trees[0], weak_results)


def reading_all(functions: Sequence[Staged]) -> tuple[list[Graph], list[Any]]:
    """Graphs that take all that any of the functions reads, then the arguments; and what they read.

    What several read is there once.
    """
    read: list[Any] = []
    number: dict[int, int] = {}
    for each in functions:
        for value in each.read:
            if id(value) not in number:
                number[id(value)] = len(read)
                read.append(value)
    graphs = []
    shapes: dict[int, Any] = {}
    for each in functions:
        for value, given in zip(each.read, each.graph.inputs, strict=False):
            shapes[number[id(value)]] = given.shape
    for each in functions:
        own = {number[id(v)]: x for v, x in zip(each.read, each.graph.inputs, strict=False)}
        first = [own.get(i) or Value(shapes[i], None, i) for i in range(len(read))]
        graph = each.graph
        inputs = [*first, *graph.inputs[len(each.read) :]]
        graphs.append(Graph(inputs, graph.instructions, graph.outputs, graph.name))
    return graphs, read
