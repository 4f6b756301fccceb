"""show: a program as text or as a picture."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from minixla.tools.commands.options import (
    BadInput,
    Commands,
    add_command,
    print_data,
    print_json,
    read_program,
    sixty_four_bits,
)

if TYPE_CHECKING:
    from minixla.core.graph import Graph

_PICTURES = ("svg", "png")
_FORMS = ("hlo", "stablehlo", "dot", *_PICTURES)
_SUFFIXES = {".mlir": "stablehlo", ".hlo": "hlo", ".txt": "hlo", ".dot": "dot", ".gv": "dot"}


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "Shows a program as text, or as a picture where Graphviz is installed"
    command = add_command(commands, "show", text, _show)
    command.add_argument(
        "--form",
        choices=_FORMS,
        help="default: what the output's name ends in, else hlo",
    )
    command.add_argument("--output", metavar="FILE", help="default: standard output")


def _show(options: argparse.Namespace) -> int:
    suffix = Path(options.output or "").suffix.lower()
    form = options.form or _SUFFIXES.get(suffix, suffix[1:] if suffix[1:] in _PICTURES else "hlo")
    with sixty_four_bits():
        program = read_program(options)
        if options.json:
            print_json(_described(program))
            return 0
        data = _formed(program.graph, form, is_file=options.output is not None)
    if options.output is not None:
        Path(options.output).write_bytes(data)
    else:
        print_data(data)
    return 0


def _formed(graph: Graph, form: str, is_file: bool) -> bytes:
    from minixla.core.drawing import can_draw, dot_text, draw

    if form in _PICTURES:
        picture = draw(graph, form)
        if picture is not None:
            return picture
        why = "took too long" if can_draw() else "is not installed (no program `dot`)"
        if is_file:
            raise BadInput(f"Graphviz {why}; --form dot writes what it reads")
        print(f"minixla show: Graphviz {why}: this is text", file=sys.stderr)
        form = "hlo"
    if form == "dot":
        return dot_text(graph).encode()
    return (graph.stablehlo() if form == "stablehlo" else str(graph)).encode()


def _described(program: object) -> dict[str, object]:
    """Inputs, outputs and instructions of the program, and the functions beside it."""
    graph: Graph = program.graph  # type: ignore[attr-defined]  # an imported program has one
    number = {id(value): [-1, index] for index, value in enumerate(graph.inputs)}
    steps = []
    for index, step in enumerate(graph.instructions):
        steps.append(
            {
                "operation": step.op.builder_name,
                "operands": [number[id(value)] for value in step.operands],
                "shapes": list(map(str, step.shapes)),
                "source": None if step.source is None else str(step.source),
            }
        )
        number.update((id(value), [index, i]) for i, value in enumerate(step.results))
    return {
        "name": graph.name,
        "inputs": list(map(str, graph.input_shapes)),
        "instructions": steps,
        "outputs": [number[id(value)] for value in graph.outputs],
        "functions": list(getattr(program, "functions", {})),
    }
