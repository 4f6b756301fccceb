"""Functions of pytrees as graphs of operations: branches, bodies, calls."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import jax.core

from minixla.core.attributes import spelling
from minixla.core.element_types import S64, canonical_element_type
from minixla.core.graph import Graph, Value, hoist_constants
from minixla.core.shapes import AnyShape
from minixla.core.tracing import GraphTrace, Tracer, _state, tracing, weak_type_of
from minixla.engine.devices import surroundings
from minixla.engine.float0 import flatten, structure_places
from minixla.engine.random_keys import shapes_of_members
from minixla.engine.structures import PyTreeDef
from minixla.transforms.arguments import Arguments, Cache, Signature, flatten_prefix, misfit
from minixla.transforms.typed_functions import Function
from minixla.typing import Array, PyTree


class Staged(NamedTuple):
    """A function traced for given arguments."""

    graph: Graph  # takes captured values and the leaves of the arguments
    read: list[Any]  # captured arrays and tracers
    result_tree: PyTreeDef
    weak: list[bool]  # whether each leaf of the result is weakly typed

    def results(self, leaves: Sequence[Array]) -> PyTree:
        """Return the function's result from the outputs of the graph."""
        if any(self.weak):
            pairs = zip(leaves, self.weak, strict=True)
            leaves = [_state.trace.weakly(leaf) if flag else leaf for leaf, flag in pairs]
        return jax.tree.unflatten(self.result_tree, leaves)

    def described_by(
        self,
        subject: str,
        name: str,
        prefix: PyTree,
        what: str = "an integer",
        is_leaf: Callable[[object], bool] | None = None,
    ) -> list[tuple[AnyShape, Any]]:
        """Return, for each array of the result, its shape for users and its leaf of a prefix tree.

        `name` is the option with the prefix tree; the other parameters are as in `flatten_prefix`.
        """
        shapes = shapes_of_members(self.result_tree, list(self.graph.output_shapes))
        described = flatten_prefix(subject, name, self.result_tree, prefix, what, is_leaf)
        return list(zip(shapes, described, strict=True))


def traced(
    fun: Function, signature: Signature, name: str | None = None, open_inputs: bool = False
) -> Staged:
    """Trace `fun` completely; with `open_inputs`, it may add inputs with `parameter`."""
    label = name or getattr(fun, "__name__", "main")
    trace = GraphTrace(_state.trace, open_inputs)
    tracers = [trace.add_input(shape) for shape in signature.shapes]
    for tracer in compress(tracers, signature.weak):
        tracer._mark_weak()
    with tracing(trace):
        leaves, tree = flatten(fun(*jax.tree.unflatten(signature.tree, tracers)))
        graph = trace.graph(leaves, label, lambda: structure_places("the result", tree))
        return Staged(graph, [*trace.captured], tree, list(map(weak_type_of, leaves)))


def stage(fun: Function, signature: Signature, name: str | None = None) -> Staged:
    """Trace `fun`, pruned; JAX's arrays and large arrays become operands."""
    staged = traced(fun, signature, name)
    graph, constants = hoist_constants(staged.graph.pruned())
    read = [*(literal.data for literal in constants), *staged.read]
    return Staged(graph, read, staged.result_tree, staged.weak)


def stage_once(
    cache: Cache,
    arguments: Arguments,
    static: Iterable[tuple[Hashable, object]],
    at: Signature,
    fun: Function,
) -> Staged:
    """Return `stage`, cached by signature and `static`, names or positions with values."""
    mode = canonical_element_type(S64)
    axes = tuple([(name, type(axis), axis and axis.key) for name, axis in _state.axes])
    static_keys = tuple([static_key(arguments.subject, *pair) for pair in static])
    tree, shapes, weak = at
    key = (tree, tuple(shapes), tuple(weak), static_keys, mode, axes, surroundings(), _state.watch)
    cache = cache if _state.watch is None else _state.watch.cached(cache)
    staged = cache.get(key)
    if staged is None:
        staged = stage(fun, at, arguments.name)
        # A graph that reads tracers of this call must not be reused.
        if not any(isinstance(value, (Tracer, jax.core.Tracer)) for value in staged.read):
            cache[key] = staged
    return staged


def static_key(subject: str, name: Hashable, value: object) -> Hashable:
    """Return the key of a static argument; 1, 1.0 and True are different."""
    try:
        hash(value)
    except TypeError:
        problem = f"static argument {name} is not hashable"
        advice = "Pass a hashable object (a tuple, not a list), or make the argument non-static."
        raise misfit(subject, problem, [f"it is of type {type(value).__name__}"], advice) from None
    return name, spelling(value), value


def reading_all(functions: Sequence[Staged]) -> tuple[list[Graph], list[Array]]:
    """Return graphs that take all captured values, then the arguments; and the captured values."""
    owns = [
        dict(zip(map(id, function.read), function.graph.inputs, strict=False))
        for function in functions
    ]
    shapes = {key: value.shape for inputs in owns for key, value in inputs.items()}
    graphs = []
    for function, inputs in zip(functions, owns, strict=True):
        graph, rest = function.graph, function.graph.inputs[len(function.read) :]
        first = [inputs.get(key) or Value(shape, None, 0) for key, shape in shapes.items()]
        graphs.append(Graph([*first, *rest], graph.instructions, graph.outputs, graph.name))
    read = {id(value): value for function in functions for value in function.read}
    return graphs, list(read.values())
