"""A program as nodes for viewers; programs that its instructions run are opened within it.

A node is an instruction, an input of a program or its results. Nodes are grouped by function and
line of the user's program. Within an instruction, nodes of the programs that it runs form groups.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from minixla.core.attributes import Literal
from minixla.core.graph import Graph, Instruction, Value, inner_first
from minixla.core.operation import shown_attribute
from minixla.core.shapes import Shape
from minixla.tools.costs import instruction_cost

#: With more nodes, each program that runs in several places is opened only in the first one.
_MOST_NODES = 20_000
_MOST_GROUPS = 60
_MOST_ELEMENTS = 16


class Node(NamedTuple):
    """A box in a viewer.

    Attributes:
        id: its name in the picture, such as `4` or, in a program that instruction 4 runs, `4.0.2`.
        label: its title: `dot_general`, `args[0]['w']` (`input 0` if no path is known), `results`.
        groups: the groups around it, the outermost first.
        attributes: its properties, by name.
        reads: for each operand, the node that computes it, the index of the result of that node,
            and the operand's name.
        shapes: the shapes of its results.
        step: the instruction, if it is one.
    """

    id: str
    label: str
    groups: tuple[str, ...]
    attributes: dict[str, str]
    reads: list[tuple[str, int, str]]
    shapes: list[str]
    step: Instruction | None = None


class Part(NamedTuple):
    """A program at a place where it is opened.

    Attributes:
        path: the prefix of the names of its nodes.
        graph: the program.
        groups: the groups around its nodes.
        owner: the node of the instruction that runs it, or "".
    """

    path: str
    graph: Graph
    groups: tuple[str, ...] = ()
    owner: str = ""

    def name_of(self, number: int) -> str:
        """Return the name of the node of an instruction, given its index."""
        return f"{self.path}{number}"

    def input_name(self, number: int) -> str:
        """Return the name of the node of an input."""
        return f"{self.path}input{number}"

    def inner(self, number: int) -> Iterator["Part"]:
        """Yield the programs that an instruction runs, opened within it."""
        step = self.graph.instructions[number]
        if step.op.is_plain:
            return
        name = self.name_of(number)
        for index, graph in enumerate(step.op.computations):
            title = f"{number} {step.op.builder_name}: {_role(step, graph)} {graph.name}"
            around = (*self.groups, *_place(step))
            # Deeply nested programs would have names that grow with the depth.
            around = around if len(around) < _MOST_GROUPS else (f"within {name}",)
            groups = (*around, title.replace("/", "_"))
            yield Part(f"{name}.{index}.", graph, groups, name)

    def nodes(self) -> Iterator[Node]:
        """Yield its nodes: inputs, instructions in order, results."""
        made: dict[Value, tuple[str, int]] = {}
        notes = self.graph.annotations.values if self.graph.annotations else {}
        above = [(self.owner, 0, "run by")] if self.owner else []
        for number, value in enumerate(self.graph.inputs):
            name, label = self.input_name(number), self.graph.paths.argument(number)
            text = str(value.shape)
            layout = {"layout": str(notes[value])} if value in notes else {}
            made[value] = name, 0
            yield Node(name, label, self.groups, {"shape": text} | layout, above, [text])
        for number, step in enumerate(self.graph.instructions):
            name = self.name_of(number)
            labels = step.op.operand_labels(len(step.operands))
            labels += [str(index) for index in range(len(labels), len(step.operands))]
            pairs = zip(step.operands, labels, strict=True)
            reads = [(*made[value], label) for value, label in pairs]
            made.update((value, (name, index)) for index, value in enumerate(step.results))
            said = _said_of(step)
            layouts = [str(notes[value]) for value in step.results if value in notes]
            said |= {"layout": ", ".join(layouts)} if layouts else {}
            groups, label = (*self.groups, *_place(step)), step.op.builder_name
            yield Node(name, label, groups, said, reads, list(map(str, step.shapes)), step)
        results = self.graph.paths.results or range(len(self.graph.outputs))
        reads = [
            (*made[value], str(label))
            for value, label in zip(self.graph.outputs, results, strict=True)
        ]
        shapes = ", ".join(map(str, self.graph.output_shapes))
        yield Node(f"{self.path}results", "results", self.groups, {"shape": shapes}, reads, [])


def opened(graph: Graph, most: int = _MOST_NODES) -> list[Part]:
    """Return the program and all programs that run within it, outer before inner.

    Args:
        graph: the program.
        most: the maximum number of nodes; beyond it, a program that runs in several places is
            opened only in the first one.
    """
    is_small, opened_ids = _node_count(graph) <= most, {id(graph)}
    parts = [Part("", graph)]
    for part in parts:  # the list grows
        for number in range(len(part.graph.instructions)):
            for inner in part.inner(number):
                if is_small or id(inner.graph) not in opened_ids:
                    opened_ids.add(id(inner.graph))
                    parts.append(inner)
    return parts


@inner_first
def _node_count(graph: Graph) -> int:
    """Count the nodes if all programs are opened wherever they run."""
    count = len(graph.inputs) + len(graph.instructions) + 1
    return count + sum(_node_count(computation) for computation in graph.computations)


def _place(step: Instruction) -> tuple[str, ...]:
    """Return the groups of a user's line."""
    if step.source is None:
        return ()
    file = os.path.basename(step.source.file)
    return (f"{step.source.function} ({file})".replace("/", "_"), f"line {step.source.line}")


def _role(step: Instruction, graph: Graph) -> str:
    """Return the attribute that is, or contains, a program."""
    for name in step.op.fields:
        value: Any = getattr(step.op, name)
        if value is graph:
            return name
        if isinstance(value, tuple) and (at := [n for n, x in enumerate(value) if x is graph]):
            return f"{name}[{at[0]}]"
    return "program"


def _said_of(step: Instruction) -> dict[str, str]:
    said = {"shape": ", ".join(map(str, step.shapes))}
    attributes = {name: getattr(step.op, name) for name in step.op.fields}
    said |= {name: _text(value) for name, value in attributes.items() if value is not None}
    cost = instruction_cost(step)
    counts = zip(cost._fields[:3], cost[:3], strict=True)
    said |= {name: f"{count:,}" for name, count in counts if count}
    if not cost.is_bound:
        said["iterations"] = "unknown: the loop is counted once"
    return said if step.source is None else said | {"line": str(step.source)}


def _text(value: Any) -> str:
    """Return an attribute's value as text; constants show their elements."""
    if not isinstance(value, Literal):
        return shown_attribute(value)
    shape: Shape = value.shape
    if value.is_splat:
        return f"{shape} {value.scalar}"
    elements: Sequence[Any] | str = value.array.tolist() if shape.size <= _MOST_ELEMENTS else "..."
    return f"{shape} {elements}"
