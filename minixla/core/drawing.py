"""Graphs drawn by Graphviz: a box an instruction, a cluster a program that one runs."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Sequence

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.stablehlo_text import escaped

#: Graphviz lays out some hundreds of boxes in seconds, and nobody can read more.
_MOST_BOXES = 600
_MOST_DRAWN = 200
_MOST_LINES = 400
_SECONDS = 30.0


class _Drawing:
    """The lines of a drawing."""

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.most = most
        self.count = 0
        self.names: dict[int, str] = {}

    def box(self, label: Sequence[str], style: str) -> str:
        """Adds a box; returns its name."""
        name = f"n{self.count}"
        self.count += 1
        text = "\\n".join([escaped(each) for each in label])
        self.lines.append(f'  {name} [label="{text}", {style}];')
        return name

    def program(self, graph: Graph) -> None:
        """Adds a program's instructions, and those of the programs that they run."""
        pending: list[tuple[Graph, str | None]] = [(graph, None)]
        while pending:
            each, owner = pending.pop()
            if owner is not None:
                self.lines.append(f"  subgraph cluster_{self.count} {{")
                self.lines.append(f'  label="{escaped(each.name)}"; style=rounded; color=gray;')
            self.own(each)
            if owner is not None:
                self.lines.append("  }")
                first = self.names[id(each)]
                self.lines.append(f"  {owner} -> {first} [style=dotted, arrowhead=none];")
            for step in each.instructions:
                inner = self.names.get(id(step))
                if inner is not None:
                    pending.extend([(graph, inner) for graph in step.op.computations])

    def own(self, graph: Graph) -> None:
        """Adds the instructions of a program itself."""
        outputs = [str(shape) for shape in graph.output_shapes]
        result = self.box(["result", *outputs[:8]], "shape=ellipse, style=filled")
        self.names[id(graph)] = result
        for index, value in enumerate(graph.inputs):
            label = [f"input {index}", str(value.shape)]
            self.names[id(value)] = self.box(label, "shape=ellipse, style=filled")
        left_out = 0
        for step in graph.instructions:
            if self.count >= self.most:
                left_out += 1
                continue
            self.step(step)
        if left_out:
            self.box([f"{left_out} more instructions"], "shape=plaintext")
        for value in graph.outputs:
            self.edge(value, result)

    def step(self, step: Instruction) -> None:
        """Adds one instruction."""
        label = [step.op.builder_name, ", ".join(map(str, step.shapes))[:80]]
        if step.source is not None:
            label.append(f"{step.source.file.rsplit('/', 1)[-1]}:{step.source.line}")
        name = self.box(label, "shape=box, style=rounded")
        self.names[id(step)] = name
        for value in step.results:
            self.names[id(value)] = name
        for value in step.operands:
            self.edge(value, name)

    def edge(self, value: Value, target: str) -> None:
        """Adds an arrow from where a value is made."""
        source = self.names.get(id(value))
        if source is not None:
            self.lines.append(f'  {source} -> {target} [label="{value.shape}", fontsize=8];')


def dot_text(graph: Graph, most: int = _MOST_BOXES) -> str:
    """The graph in Graphviz's language; of large programs the first `most` boxes."""
    drawing = _Drawing(most)
    drawing.program(graph)
    head = f'digraph "{escaped(graph.name)}" {{\n  node [fontname="sans-serif", fontsize=10];'
    return "\n".join([head, *drawing.lines, "}"]) + "\n"


def can_draw() -> bool:
    """Whether Graphviz is there."""
    return shutil.which("dot") is not None


def draw(graph: Graph, form: str) -> bytes | None:
    """The graph as a picture, or None where Graphviz is not there or takes too long.

    Args:
        graph: what is drawn.
        form: "svg" or "png".
    """
    program = shutil.which("dot")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, f"-T{form}"],
            input=dot_text(graph).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout


def html_of(graph: Graph) -> str:
    """The graph for a notebook: drawn where that is possible, else as text, both up to a size."""
    if len(graph.instructions) <= _MOST_DRAWN:
        picture = draw(graph, "svg")
        if picture is not None:
            text = picture.decode(errors="replace")
            return text[max(text.find("<svg"), 0) :]
    lines = str(graph).splitlines()
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"... {left_out} more lines"]
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
