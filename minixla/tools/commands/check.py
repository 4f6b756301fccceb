"""check: a program through every evaluator; see `minixla.tools.cross_check`."""

from __future__ import annotations

import argparse
import sys

from minixla.tools.commands.options import (
    Commands,
    add_argument_options,
    add_command,
    argument_arrays,
    print_json,
    read_program,
    sixty_four_bits,
)
from minixla.tools.progress import shown_progress


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "Checks whether the reference, StableHLO's interpreter and XLA agree; exit code 1 if not"
    command = add_command(commands, "check", text, _check)
    add_argument_options(command)
    command.add_argument(
        "--no-gradients", action="store_true", help="leaves the derivatives unchecked"
    )


def _check(options: argparse.Namespace) -> int:
    from minixla.tools.cross_check import cross_check

    with sixty_four_bits():
        program = read_program(options)
        operands, origins = argument_arrays(options, program.graph.input_shapes)
        with shown_progress("minixla check") as say:
            gradients = not options.no_gradients
            report = cross_check(program, *operands, gradients=gradients, progress=say)
    if options.json:
        print_json(report.as_dict())
        return 0 if report.ok else 1
    for index, origin in enumerate(origins):
        print(f"argument {index}: {origin}", file=sys.stderr)
    print(report)
    return 0 if report.ok else 1
