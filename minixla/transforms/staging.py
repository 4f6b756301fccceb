"""Functions of pytrees as graphs that an operation of a program runs: branches, bodies, calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.core import Tracer as JaxTracer
from jax.tree_util import tree_unflatten

from minixla.core.attributes import spelling
from minixla.core.element_types import S64, canonical_element_type
from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph, Value, hoist_constants
from minixla.core.tracing import Tracer, _state, trace_to_graph, weak_type_of
from minixla.engine.devices import surroundings
from minixla.engine.float0 import flatten
from minixla.transforms.places import structure_places


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
        if any(self.weak):
            weakly = _state.trace.weakly
            pairs = zip(leaves, self.weak, strict=True)
            leaves = [weakly(leaf) if flag else leaf for leaf, flag in pairs]
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
        leaves, result_tree = flatten(fun(*tree_unflatten(tree, tracers)))
        trees.append(result_tree)
        weak_results.extend([weak_type_of(leaf) for leaf in leaves])
        return leaves

    def where() -> list[str]:
        return structure_places("the result", trees[0])

    graph, captured = trace_to_graph(
        flat, shapes, name or getattr(fun, "__name__", "main"), where=where
    )
    # Arrays that live in JAX, and large ones, enter as operands: the program holds none.
    graph, constants = hoist_constants(graph.pruned())
    read = [*(literal.data for literal in constants), *captured]
    return Staged(graph, read, trees[0], weak_results)


def stage_once(
    cache: dict[Any, Staged],
    subject: str,
    fun: Callable[..., Any],
    tree: Any,
    shapes: Sequence[Any],
    weak: Sequence[bool],
    static: Sequence[tuple[Any, Any]],
    name: str,
) -> Staged:
    """`stage`; what it gave before, where all is the same that a trace depends on.

    Args:
        cache: what was staged before.
        subject: the transformation, for messages.
        fun: takes the arguments.
        tree: the structure of the tuple of arguments.
        shapes: the shapes of its leaves.
        weak: for each leaf whether it is weakly typed.
        static: names or positions of static arguments, and their values.
        name: of the graph.

    Raises:
        TransformError: a static argument cannot be hashed.
    """
    mode = canonical_element_type(S64)
    axes = tuple([(name, type(axis), axis.size) for name, axis in _state.axes])
    static_keys = tuple([_static_key(subject, *pair) for pair in static])
    key = (tree, tuple(shapes), tuple(weak), static_keys, mode, axes, surroundings(), _state.watch)
    found = cache.get(key)
    if found is None:
        found = stage(fun, tree, shapes, weak, name)
        # A graph that reads tracers of this very call must not serve another.
        if not any(isinstance(each, (Tracer, JaxTracer)) for each in found.read):
            cache[key] = found
    return found


def _static_key(subject: str, name: Any, value: Any) -> Any:
    """A static argument in a key: 1, 1.0 and True are different.

    Raises:
        TransformError: it cannot be hashed.
    """
    try:
        hash(value)
    except TypeError:
        raise explain(
            TransformError,
            subject,
            f"static argument {name} is not hashable",
            [f"it is of type {type(value).__name__}"],
            "Give a hashable object (a tuple, not a list), or make the argument not static.",
        ) from None
    return name, spelling(value), value


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
