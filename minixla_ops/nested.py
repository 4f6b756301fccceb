"""Operands and computations of loops, branches and maps: arrays, tuples, or sequences of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minixla.core.graph import Graph, Value
from minixla.core.shapes import AnyShape
from minixla.core.tracing import shape_of, trace_to_graph
from minixla_ops.computations import computation_of
from minixla_ops.tuples import from_leaves, tuple_leaves

__all__ = ["as_given", "closed", "leaves_of", "members", "merged", "program", "with_more_inputs"]


def members(operand: Any) -> list[Any]:
    """The members of a Python sequence; any other value alone."""
    return [*operand] if isinstance(operand, (list, tuple)) else [operand]


def leaves_of(operand: Any) -> list[Any]:
    """The arrays (and tokens) of a value or of a Python sequence of values."""
    return [leaf for member in members(operand) for leaf in tuple_leaves(member)]


def closed(computation: Graph | Callable[..., Any], operand: Any, subject: str) -> Graph:
    """The graph of a computation that takes `operand`, each member of a sequence by itself.

    Raises:
        TransformError: the function reads traced values of the enclosing function.
        ShapeError: it is neither a Graph nor a function of that many arguments.
    """
    return computation_of(computation, [shape_of(each) for each in members(operand)], subject)


def as_given(shapes: Sequence[AnyShape], leaves: Iterable[Any]) -> list[Any]:
    """Values of `shapes`, tuples made of their leaves."""
    remaining = iter(leaves)
    return [from_leaves(shape, remaining) for shape in shapes]


def merged(flags: Iterable[bool], marked: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """One list of two, which takes from `marked` where the flag is set."""
    first, second = iter(marked), iter(others)
    return [next(first if flag else second) for flag in flags]


def program(function: Callable[..., Sequence[Any]], shapes: Sequence[AnyShape], name: str) -> Graph:
    """The graph of a function that is known to read nothing from outside."""
    graph, captured = trace_to_graph(function, shapes, name)
    assert not captured, f"{name} reads {captured}"
    return graph.pruned()


def with_more_inputs(graph: Graph, shapes: Sequence[AnyShape]) -> Graph:
    """The program with inputs after its own that it does not read."""
    count = len(graph.inputs)
    unread = [Value(shape, None, count + index) for index, shape in enumerate(shapes)]
    return Graph([*graph.inputs, *unread], graph.instructions, graph.outputs, graph.name)
