"""Data-flow edges: operands, results and program values that control flow connects."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A value of an instruction, or of a program that it runs.

    Attributes:
        kind: `operand`, `result`, or `input` or `output` of a program.
        number: the index of the value.
        block: the index of the program.
    """

    kind: str
    number: int
    block: int = 0


class Edge(NamedTuple):
    """Values that flow into others, and must have the same sharding (SDY: data-flow edge).

    Attributes:
        sources: the origins of the values.
        targets: the destinations.
        owner: the target that represents the edge.
    """

    sources: Sequence[Place]
    targets: Sequence[Place]
    owner: Place


def edge(sources: Sequence[Place], *targets: Place) -> Edge:
    """Build the edge whose owner is the first target."""
    return Edge(sources, targets, targets[0])


def through(computation: Any) -> list[Edge]:  # noqa: ANN401  # a Graph
    """Return the edges of running a program once: operands to inputs, outputs to results."""
    count = len(computation.inputs)
    return [
        *[edge([Place("operand", i)], Place("input", i)) for i in range(count)],
        *[edge([Place("output", i)], Place("result", i)) for i in range(len(computation.outputs))],
    ]
