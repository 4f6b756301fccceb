"""ops: the table of operations and their rules."""

from __future__ import annotations

import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
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
