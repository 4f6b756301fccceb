"""cost: arithmetic, bytes and memory of a program, ours and XLA's."""

from __future__ import annotations

import argparse

from minixla.tools.commands.options import (
    Commands,
    add_command,
    print_json,
    read_program,
    sixty_four_bits,
)
from minixla.tools.progress import shown_progress


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "Counts arithmetic, bytes and memory of a program, by operation and in total"
    command = add_command(commands, "cost", text, _cost)
    command.add_argument("--no-xla", action="store_true", help="without XLA's own analysis")


def _cost(options: argparse.Namespace) -> int:
    from minixla.tools.cost_report import cost_report

    with sixty_four_bits():
        program = read_program(options)
        with shown_progress("minixla cost") as say:
            say("compiling")
            report = cost_report(program.graph, with_xla=not options.no_xla)
    if options.json:
        print_json(report.as_dict())
    else:
        print(report)
    return 0
