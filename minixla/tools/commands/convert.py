"""convert: a program from one form into another."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

_FORMS = ("stablehlo", "bytecode", "portable", "hlo", "exported")
_SUFFIXES = {
    ".mlir": "stablehlo",
    ".mlirbc": "portable",
    ".hlo": "hlo",
    ".jax": "exported",
    ".bin": "exported",
}


def add(commands: Commands) -> None:
    """Adds the command."""
    command = add_command(commands, "convert", "Writes a program in another form", _convert)
    command.add_argument(
        "--to",
        choices=_FORMS,
        help="stablehlo: MLIR's text; bytecode: of this version; portable: bytecode that later "
        "versions read (.mlirbc); hlo: HLO text; exported: what jax.export.deserialize reads "
        "(.jax, .bin). Default: what the output's name ends in, else stablehlo",
    )
    command.add_argument("--output", metavar="FILE", help="default: standard output")


def _convert(options: argparse.Namespace) -> int:
    suffix = Path(options.output or "").suffix.lower()
    form = options.to or _SUFFIXES.get(suffix, "stablehlo")
    if options.json and options.output is None:
        raise BadInput("--json tells what was written; name a file with --output")
    with sixty_four_bits():
        program = read_program(options)
        data = _WRITERS[form](program)
    if options.output is None:
        print_data(data)
        return 0
    Path(options.output).write_bytes(data)
    if options.json:
        print_json({"form": form, "output": options.output, "bytes": len(data)})
    return 0


def _text(program: Any) -> bytes:
    return program.graph.stablehlo().encode()


def _hlo(program: Any) -> bytes:
    text = str(program.graph)
    if "constant({...})" in text:
        raise BadInput("HLO text leaves out constants of more than 16 elements; take stablehlo")
    return text.encode()


def _bytecode(program: Any) -> bytes:
    from jax.extend.mlir import ir

    from minixla.tools.mlir import make_context

    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(program.graph.stablehlo())
        written = io.BytesIO()
        module.operation.write_bytecode(written)
        return written.getvalue()


def _portable(program: Any) -> bytes:
    from jax.extend.mlir.dialects import stablehlo

    # The oldest that has what programs of today need, as jax.export takes.
    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    return stablehlo.serialize_portable_artifact_str(program.graph.stablehlo(), version)


def _exported(program: Any) -> bytes:
    import jax

    from minixla.core.shapes import Shape
    from minixla.interop import export

    graph: Graph = program.graph
    for shape in graph.input_shapes:
        if not isinstance(shape, Shape) or shape.is_dynamic:
            raise BadInput(f"an argument is of shape {shape}: jax.export takes arrays only")
    shapes: list[Any] = list(graph.input_shapes)
    given = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    return export(program, *given)


_WRITERS = {
    "stablehlo": _text,
    "bytecode": _bytecode,
    "portable": _portable,
    "hlo": _hlo,
    "exported": _exported,
}
