"""Graphs in Graphviz's language, and for notebooks."""

import html
from collections.abc import Sequence
from typing import Any

from minixla.core.graph import Graph, Value
from minixla.tools.layered_drawing import picture
from minixla.tools.program_files import opened

#: Graphviz lays out some hundreds of boxes in seconds; larger pictures are unreadable.
_MOST_BOXES = 600
_MOST_DRAWN = 200
_MOST_LINES = 400


def dot_text(graph: Graph, most: int = _MOST_BOXES) -> str:
    """Return the graph in Graphviz's language, with at most `most` boxes."""
    lines = [f'digraph "{_label(graph.name)}" {{', '  node [fontname="sans-serif", fontsize=10];']
    names: dict[Any, str] = {}
    pending = [(graph, "")]
    while pending:
        program, owner = pending.pop()
        if id(program) not in names:
            inside = _boxes(program, names, most)
            if owner:
                head = f'  label="{_label(program.name)}"; style=rounded; color=gray;'
                inside = [f"  subgraph cluster_{len(names)} {{", head, *inside, "  }"]
            lines += inside
            drawn = [step for step in program.instructions if id(step) in names]
            pending += [
                (computation, names[id(step)])
                for step in drawn
                for computation in step.op.computations
            ]
        if owner:
            lines.append(f"  {owner} -> {names[id(program)]} [style=dotted, arrowhead=none];")
    return "\n".join([*lines, "}"]) + "\n"


def _label(text: str) -> str:
    """Escape text for a quoted label."""
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join([character if character.isprintable() else "?" for character in safe])


def _boxes(program: Graph, names: dict[Any, str], most: int) -> list[str]:
    """Return the lines of a program itself; `names` maps nodes to the names of their boxes."""
    lines: list[str] = []

    notes = program.annotations.values if program.annotations else {}

    def layouts(values: Sequence[Value]) -> list[str]:
        """Return the shardings of values, if the program declares them."""
        texts = [str(notes[value]) for value in values if value in notes]
        return [", ".join(texts).replace('"', "")[:80]] if texts else []

    def add_box(key: Any, style: str, *label: str) -> None:
        name = names[key] = f"n{len(names)}"
        text = "\\n".join(map(_label, label))
        lines.append(f'  {name} [label="{text}", {style}];')

    def add_arrow(value: Value, target: str) -> None:
        source = names.get(id(value.instruction or value))
        if source is not None:
            lines.append(f'  {source} -> {target} [label="{value.shape}", fontsize=8];')

    outputs = map(str, program.output_shapes[:8])
    add_box(id(program), "shape=ellipse, style=filled", "result", *outputs)
    for index, value in enumerate(program.inputs):
        label = [program.paths.argument(index), str(value.shape), *layouts([value])]
        add_box(id(value), "shape=ellipse, style=filled", *label)
    drawn = program.instructions[: max(most - len(names), 0)]
    for step in drawn:
        label = [step.op.builder_name, ", ".join(map(str, step.shapes))[:80]]
        label += layouts(step.results)
        if step.source is not None:
            label.append(f"{step.source.file.rsplit('/', 1)[-1]}:{step.source.line}")
        add_box(id(step), "shape=box, style=rounded", *label)
        for value in step.operands:
            add_arrow(value, names[id(step)])
    left_out = len(program.instructions) - len(drawn)
    if left_out:
        add_box(("left out of", id(program)), "shape=plaintext", f"{left_out} more instructions")
    for value in program.outputs:
        add_arrow(value, names[id(program)])
    return lines


def html_of(graph: Graph) -> str:
    """Return the graph for a notebook: a picture, or the text of a large graph."""
    parts = opened(graph)
    if sum(len(part.graph.instructions) for part in parts) <= _MOST_DRAWN:
        return picture(parts)
    lines = str(graph).splitlines()
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"... {left_out} more lines"]
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
