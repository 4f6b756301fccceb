"""check and cost: a program through every evaluator; what it costs, ours and XLA's."""

from __future__ import annotations

import argparse
import sys

import minixla as mx
from minixla.interop import ImportedProgram
from minixla.tools.commands.programs import argument_arrays, on_program, print_json
from minixla.tools.cost_report import cost_report
from minixla.tools.progress import shown_progress


@on_program
def check(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints what `minixla.tools.cross_check` finds."""
    operands, origins = argument_arrays(options, program.graph.input_shapes)
    with shown_progress("minixla check") as say:
        gradients = not options.no_gradients
        report = mx.cross_check(program, *operands, gradients=gradients, progress=say)
    if options.json:
        print_json(report.as_dict())
    else:
        for index, origin in enumerate(origins):
            print(f"argument {index}: {origin}", file=sys.stderr)
        print(report)
    return 0 if report.ok else 1


@on_program
def cost(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints arithmetic, bytes and memory."""
    with shown_progress("minixla cost") as say:
        say("compiling")
        report = cost_report(program.graph, with_xla=not options.no_xla)
    if options.json:
        print_json(report.as_dict())
    else:
        print(report)
    return 0
