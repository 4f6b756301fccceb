"""show, convert and cost: a program as text, as a picture, in the forms that others read."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from minixla.core.drawing import can_draw, dot_text, draw
from minixla.core.graph import Graph
from minixla.interop import ImportedProgram, export
from minixla.tools.command_line import BadInput
from minixla.tools.commands.programs import array_shapes, on_program, print_json
from minixla.tools.costs import cost_report
from minixla.tools.progress import shown_progress
from minixla.tools.worker import make_context

_PICTURES = ("svg", "png")
#: The form that the end of a file's name asks for.
_SHOWN = {".mlir": "stablehlo", ".hlo": "hlo", ".txt": "hlo", ".dot": "dot", ".gv": "dot"} | {
    f".{form}": form for form in _PICTURES
}
_CONVERTED = {".mlirbc": "portable", ".hlo": "hlo", ".jax": "exported", ".bin": "exported"}


@on_program
def show(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints or writes a program as text or as a picture."""
    if options.json:
        print_json(_described(program))
    else:
        form = options.form or _SHOWN.get(_suffix(options), "hlo")
        _write(options, _shown(program.graph, form, is_file=options.output is not None))
    return 0


@on_program
def convert(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints or writes a program in another form."""
    if options.json and options.output is None:
        raise BadInput("--json tells what was written; name a file with --output")
    form = options.to or _CONVERTED.get(_suffix(options), "stablehlo")
    data = _WRITERS[form](program)
    _write(options, data)
    if options.json:
        print_json({"form": form, "output": options.output, "bytes": len(data)})
    return 0


@on_program
def cost(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints arithmetic, bytes and memory."""
    with shown_progress("minixla cost") as say:
        say("compiling")
        report = cost_report(program.graph, with_xla=not options.no_xla)
    print_json(report.as_dict()) if options.json else print(report)
    return 0


def _suffix(options: argparse.Namespace) -> str:
    return Path(options.output or "").suffix.lower()


def _write(options: argparse.Namespace, data: bytes) -> None:
    """Writes to the output, or to standard output: text only where Python has replaced it."""
    if options.output is not None:
        Path(options.output).write_bytes(data)
    elif (buffer := getattr(sys.stdout, "buffer", None)) is not None:
        sys.stdout.flush()
        buffer.write(data)
    else:
        print(data.decode(errors="replace"), end="")


def _shown(graph: Graph, form: str, is_file: bool) -> bytes:
    if form in _PICTURES:
        picture = draw(graph, form)
        if picture is not None:
            return picture
        why = "took too long" if can_draw() else "is not installed (no program `dot`)"
        if is_file:
            raise BadInput(f"Graphviz {why}; --form dot writes what it reads")
        print(f"minixla show: Graphviz {why}: this is text", file=sys.stderr)
    if form == "dot":
        return dot_text(graph).encode()
    return (graph.stablehlo() if form == "stablehlo" else str(graph)).encode()


def _described(program: ImportedProgram) -> dict[str, object]:
    """Inputs, outputs and instructions of the program, and the functions beside it."""
    graph = program.graph
    number = {value: [-1, index] for index, value in enumerate(graph.inputs)}
    steps = []
    for index, step in enumerate(graph.instructions):
        described = {
            "operation": step.op.builder_name,
            "operands": [number[value] for value in step.operands],
            "shapes": list(map(str, step.shapes)),
            "source": None if step.source is None else str(step.source),
        }
        steps.append(described)
        number.update((value, [index, i]) for i, value in enumerate(step.results))
    return {
        "name": graph.name,
        "inputs": list(map(str, graph.input_shapes)),
        "instructions": steps,
        "outputs": [number[value] for value in graph.outputs],
        "functions": list(program.functions),
    }


def _hlo(program: ImportedProgram) -> bytes:
    text = str(program.graph)
    if "constant({...})" in text:
        raise BadInput("HLO text leaves out constants of more than 16 elements; take stablehlo")
    return text.encode()


def _bytecode(program: ImportedProgram) -> bytes:
    with make_context(), ir.Location.unknown():
        written = io.BytesIO()
        ir.Module.parse(program.graph.stablehlo()).operation.write_bytecode(written)
        return written.getvalue()


def _portable(program: ImportedProgram) -> bytes:
    # The oldest that has what programs of today need, as jax.export takes.
    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    return stablehlo.serialize_portable_artifact_str(program.graph.stablehlo(), version)


def _exported(program: ImportedProgram) -> bytes:
    shapes = array_shapes(program.graph.input_shapes, "jax.export takes arrays only")
    given: Any = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    return export(program, *given)


_WRITERS = {
    "stablehlo": lambda program: program.graph.stablehlo().encode(),
    "bytecode": _bytecode,
    "portable": _portable,
    "hlo": _hlo,
    "exported": _exported,
}
