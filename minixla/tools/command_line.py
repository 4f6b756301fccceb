"""The command line: `python -m minixla`, or `minixla`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the words after the program's name; default: those of the process.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="minixla", description="Programs of XLA's operations.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_ops(commands)
    options = parser.parse_args(arguments)
    return options.run(options)


def _add_ops(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ops = commands.add_parser("ops", help="the table of operations and their rules")
    form = ops.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON list of objects")
    form.add_argument("--markdown", action="store_true", help="the page docs/operations.md")
    ops.set_defaults(run=_ops)


def _ops(options: argparse.Namespace) -> int:
    from minixla.tools import operations_table as table

    form = table.as_text
    if options.json or options.markdown:
        form = table.as_json if options.json else table.as_markdown
    print(form(table.operation_rows()))
    return 0
