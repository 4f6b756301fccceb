"""The commands, which evaluate, check, show or convert the program in a file."""

import argparse
import io
import json
import sys
from collections.abc import Callable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from minixla import interop
from minixla.core import Graph, Shape, shape_of
from minixla.core.errors import TransformError
from minixla.core.linear import spread
from minixla.core.source import PROGRAM_TEXT, skip_callers
from minixla.core.tables import plain, terminal_width
from minixla.engine.readers import start_by_fork
from minixla.interop import ImportedProgram
from minixla.interop.progress import shown_progress
from minixla.tools import command_inputs as inputs
from minixla.tools import command_line
from minixla.tools.array_formatting import check_file, in_full, in_short, widened, write_file
from minixla.tools.command_line import BadInput
from minixla.tools.cost_reports import cost_report
from minixla.tools.cross_check import cross_check
from minixla.tools.drawing import dot_text
from minixla.tools.evaluators import EVALUATORS, NotEvaluated
from minixla.tools.explorer import explored, shown_parts
from minixla.tools.graph_parts import inexact_part, is_inexact
from minixla.tools.html_page import page
from minixla.tools.layered_drawing import picture
from minixla.tools.oracle_values import evaluate
from minixla.tools.program_files import opened
from minixla.tools.reports import CrossCheckReport
from minixla.tools.reproducer import Reproducer
from minixla.tools.source_lines import SourceLines
from minixla.tools.terminal import styled
from minixla.tools.worker import make_context
from minixla.transforms import make_graph, vjp, vmap

# Neither messages nor programs name the script that starts the command line.
skip_callers(command_line.__file__)

#: The form for each suffix of a file name.
_SHOWN = {".mlir": "stablehlo", ".hlo": "hlo", ".txt": "hlo", ".dot": "dot", ".gv": "dot"}
_SHOWN |= {".html": "html", ".htm": "html", ".svg": "svg"}
_CONVERTED = {".mlirbc": "portable", ".hlo": "hlo", ".jax": "exported", ".bin": "exported"}


def execute(options: argparse.Namespace) -> int:
    """Run a command on the program in a file; the program keeps its 64-bit types."""
    # Unless such files did otherwise, JAX has not looked for devices, and no thread runs but
    # Ctrl-C's.
    if options.owns_process and not getattr(options, "load", None):
        start_by_fork()
    with jax.enable_x64(True):
        return _COMMANDS[options.command](options, inputs.read_program(options)) or 0


def _print_json(value: Any) -> None:
    """Print JSON; numbers that JSON lacks become strings."""
    print(json.dumps(plain(value), indent=1, allow_nan=False))


def _run(options: argparse.Namespace, program: ImportedProgram) -> None:
    _evaluate(options, program.graph)


def _grad(options: argparse.Namespace, program: ImportedProgram) -> None:
    """Evaluate the gradient of the sum of a program's floats and complex numbers."""
    shapes = inputs.array_shapes(program.graph)
    floats = [number for number, shape in enumerate(shapes) if is_inexact(shape)]
    numbers = floats if options.argnums is None else options.argnums
    for number in numbers:
        if number not in floats:
            takes = f"the program takes ({', '.join(map(str, shapes))})"
            raise BadInput(f"--argnums: argument {number} has no derivative; {takes}")
    if not numbers:
        raise BadInput("the program takes no floats or complex numbers")
    moving = [index in numbers for index in range(len(shapes))]

    def gradients(*arguments: Any) -> list[Any]:
        part = inexact_part(lambda *all_: jax.tree.leaves(program(*all_)), moving, arguments)
        results, pullback = vjp(part, *compress(arguments, moving))
        if not results:
            raise BadInput("no result of the program has a derivative")
        gradients_found: list[Any] = [shape_of(result) for result in results]
        ones = [np.ones(shape.dimensions, shape.dtype) for shape in gradients_found]
        cotangents = spread(moving, pullback(ones))
        return [cotangents[number] for number in numbers]

    names = [f"gradient{number}" for number in numbers]
    _evaluate(options, make_graph(gradients)(*_structs(shapes)), names)


def _vmap(options: argparse.Namespace, program: ImportedProgram) -> None:
    shapes = inputs.array_shapes(program.graph)
    axes = options.in_axes or [0]
    axes = axes * len(shapes) if len(axes) == 1 else axes
    if len(axes) != len(shapes):
        raise BadInput(f"--in-axes has {len(axes)} axes for {len(shapes)} arguments")
    size = inputs.batch_size(options, axes) if options.size is None else options.size
    if size < 1:
        raise BadInput(f"--size: a batch has one element or more, not {size}")
    batched = []
    for shape, axis in zip(shapes, axes, strict=True):
        rank = shape.rank + 1
        if axis is not None and not -rank <= axis < rank:
            raise BadInput(f"--in-axes: axis {axis} is out of range for a batch of {shape}")
        one_more = axis is not None and shape.with_dimension(axis % rank, size)
        batched.append(one_more or shape)
    mapped = vmap(program, in_axes=tuple(axes), axis_size=size)
    _evaluate(options, make_graph(mapped)(*_structs(batched)))


def _structs(shapes: Sequence[Shape]) -> list[Any]:
    return [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]


def _evaluate(options: argparse.Namespace, graph: Graph, names: Sequence[str] = ()) -> None:
    """Evaluate a program and show its results, or print the program."""
    if options.emit is not None:
        print(graph.stablehlo() if options.emit == "stablehlo" else str(graph), end="")
        return
    count = len(graph.outputs)
    names = names or ["result" if count == 1 else f"result{index}" for index in range(count)]
    if options.output is not None:
        check_file(options.output, graph.output_shapes)
    operands, origins = inputs.arguments(options, graph)
    evaluator = next(x for x in EVALUATORS.values() if x.name.lower() == options.backend)
    try:
        with shown_progress(f"minixla {options.command}") as say:
            say(options.backend)
            results = evaluate(evaluator, graph, operands)
    except NotEvaluated as error:
        raise BadInput(f"{options.backend} cannot evaluate it: {error}") from None
    if options.output is not None:
        write_file(options.output, dict(zip(names, results, strict=True)))
    arguments = list(zip(map(str, graph.input_shapes), origins, strict=True))
    types = [str(Shape(result.dtype, result.shape)) for result in results]
    rows = zip(names, types, results, strict=True)
    if options.json:
        given = [{"shape": shape, "origin": origin} for shape, origin in arguments]
        outputs = [
            {"name": n, "shape": t, "values": widened(array).tolist()} for n, t, array in rows
        ]
        _print_json({"backend": options.backend, "arguments": given, "results": outputs})
    else:
        for index, (shape, origin) in enumerate(arguments):
            print(f"argument {index} {shape}: {origin}", file=sys.stderr)
        for name, kind, array in rows:
            title = styled(f"{name} {kind}:", "bold", sys.stdout)
            print(f"{title}{in_short(array)}\n{in_full(array, terminal_width())}")


def _check(options: argparse.Namespace, program: ImportedProgram) -> int:
    operands, origins = inputs.arguments(options, program.graph)
    with shown_progress("minixla check") as say:
        gradients = not options.no_gradients
        isolated = options.reproducer is not None
        how: dict[str, Any] = {"gradients": gradients, "progress": say, "isolated": isolated}
        report = cross_check(program, *operands, **how)
    written = _reproducer(report, options.reproducer) if isolated else None
    if options.json:
        told = {"reproducer": written and str(written.path)} if isolated else {}
        _print_json(report.as_dict() | told)
    else:
        for index, origin in enumerate(origins):
            print(f"argument {index}: {origin}", file=sys.stderr)
        title, end, rows = str(report).partition("\n")
        print(styled(title, "green" if report.ok else "red", sys.stdout), end=end)
        print(rows)
    return 0 if report.ok else 1


def _reproducer(report: CrossCheckReport, path: str) -> Reproducer | None:
    """Write a reproducer and print what it shows, or the reason why it was not written."""
    try:
        written = report.reproducer(path)
    except TransformError as error:
        print(f"{path} is not written: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    print(written, file=sys.stderr)
    return written


def _show(options: argparse.Namespace, program: ImportedProgram) -> None:
    if options.json:
        return _print_json(_described(program))
    suffix = Path(options.output or "").suffix.lower()
    form = options.form or _SHOWN.get(suffix, "hlo")
    if suffix == ".png" and not options.form:
        raise BadInput("the picture of a program is SVG: use a file name that ends in .svg")
    if form == "html":
        return _write(options, page(*shown_parts(program.graph)[:2], _lines(options)).encode())
    _write(options, _in_form(program, form))


def _explore(options: argparse.Namespace, program: ImportedProgram) -> None:
    operands, origins = inputs.arguments(options, program.graph) if options.overlay else ([], [])
    for index, origin in enumerate(origins):
        print(f"argument {index}: {origin}", file=sys.stderr)
    how: dict[str, Any] = {"port": options.port, "browser": not options.no_browser}
    target, lines = options.output, _lines(options)
    exploration = explored(program.graph, operands, options.overlay, target, lines, **how)
    if options.json:
        told = {
            "url": exploration.url,
            "files": list(map(str, exploration.files)),
            "notes": exploration.notes,
        }
        _print_json(told | {"overlays": exploration.overlays})
    else:
        print(exploration)
    sys.stdout.flush()
    exploration.wait()


def _lines(options: argparse.Namespace) -> SourceLines:
    """Return the lines of a text program, and of files below the folder that `--source` names."""
    source = b"" if options.program == "-" else Path(options.program).read_bytes()
    is_mlir = b"\0" not in source and not inputs.is_hlo(source)
    texts = {PROGRAM_TEXT: source.decode(errors="replace")} if is_mlir else {}
    return SourceLines(texts, options.source)


def _convert(options: argparse.Namespace, program: ImportedProgram) -> None:
    if options.json and options.output is None:
        raise BadInput("--json describes the written file; name it with --output")
    form = options.to or _CONVERTED.get(Path(options.output or "").suffix.lower(), "stablehlo")
    # After passes, only the text has the names and all functions.
    is_written = options.passes and form == "stablehlo"
    data = options.text.encode() if is_written else _in_form(program, form)
    if form == "hlo" and b"constant({...})" in data:
        raise BadInput("HLO text omits constants of more than 16 elements; use stablehlo")
    _write(options, data)
    if options.json:
        _print_json({"form": form, "output": options.output, "bytes": len(data)})


def _cost(options: argparse.Namespace, program: ImportedProgram) -> None:
    with shown_progress("minixla cost") as say:
        say("compiling")
        report = cost_report(program.graph, not options.no_xla, options.platform)
    _print_json(report.as_dict()) if options.json else print(report)


_COMMANDS: dict[str, Callable[[argparse.Namespace, ImportedProgram], int | None]] = {
    command.__name__[1:]: command
    for command in (_run, _grad, _vmap, _check, _show, _explore, _convert, _cost)
}


def _write(options: argparse.Namespace, data: bytes) -> None:
    """Write to the output file or to standard output; as text only if Python has replaced it."""
    if options.output is not None:
        Path(options.output).write_bytes(data)
    elif (buffer := getattr(sys.stdout, "buffer", None)) is not None:
        sys.stdout.flush()
        buffer.write(data)
    else:
        print(data.decode(errors="replace"), end="")


def _described(program: ImportedProgram) -> dict[str, object]:
    """Describe the inputs, outputs and instructions of the program, and its other functions."""
    graph = program.graph
    number = {value: [-1, index] for index, value in enumerate(graph.inputs)}
    steps: list[dict[str, Any]] = []
    for index, step in enumerate(graph.instructions):
        number.update((value, [index, i]) for i, value in enumerate(step.results))
        operands = [number[value] for value in step.operands]
        steps.append({"operation": step.op.builder_name, "operands": operands})
        source = None if step.source is None else str(step.source)
        steps[-1] |= {"shapes": list(map(str, step.shapes)), "source": source}
    outputs, functions = [number[value] for value in graph.outputs], list(program.functions)
    described = {"name": graph.name, "inputs": list(map(str, graph.input_shapes))}
    return described | {"instructions": steps, "outputs": outputs, "functions": functions}


def _in_form(program: ImportedProgram, form: str) -> bytes:
    """Return the program as text, or in a binary form."""
    graph = program.graph
    if form == "exported":
        structs = _structs(inputs.array_shapes(graph, "jax.export takes arrays only"))
        return interop.export(program, *structs)
    if form == "bytecode":
        with make_context(), ir.Location.unknown():
            written = io.BytesIO()
            ir.Module.parse(graph.stablehlo()).operation.write_bytecode(written)
            return written.getvalue()
    if form == "portable":
        # The oldest version that supports today's programs, as in jax.export.
        oldest = stablehlo.StablehloCompatibilityRequirement.WEEK_4
        version = stablehlo.get_version_from_compatibility_requirement(oldest)
        text = graph.stablehlo()
        if "sdy." in text:
            advice = "use bytecode, or --drop-shardings"
            raise BadInput(f"portable artifacts hold only StableHLO, without shardings; {advice}")
        return stablehlo.serialize_portable_artifact_str(text, version)
    texts = {"dot": dot_text, "hlo": str, "stablehlo": Graph.stablehlo}
    texts["svg"] = lambda graph: picture(opened(graph))
    return texts[form](graph).encode()
