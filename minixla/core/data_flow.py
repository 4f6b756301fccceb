"""Where control flow carries values: which operands, results and values of programs are one."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A value of an instruction, or of a program that it runs.

    Attributes:
        kind: `operand`, `result`, or `input` or `output` of a program.
        number: which of these.
        block: which of the programs.
    """

    kind: str
    number: int
    block: int = 0


class Edge(NamedTuple):
    """Values that flow into others, which lie over devices in one way (SDY: data-flow edge).

    Attributes:
        sources: where they come from.
        targets: where they go.
        owner: the target that stands for all.
    """

    sources: Sequence[Place]
    targets: Sequence[Place]
    owner: Place


def edge(sources: Sequence[Place], *targets: Place) -> Edge:
    """The edge whose owner is the first target."""
    return Edge(sources, targets, targets[0])


def through(computation: Any) -> list[Edge]:  # noqa: ANN401  # a Graph
    """The edges of what runs a program once: operands to inputs, outputs to results."""
    count = len(computation.inputs)
    return [
        *[edge([Place("operand", i)], Place("input", i)) for i in range(count)],
        *[edge([Place("output", i)], Place("result", i)) for i in range(len(computation.outputs))],
    ]
