"""The command line: `python -m minixla`, or `minixla`.

Exit codes: 0, it is done; 1, a check failed; 2, the words or the files that it was given are wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from minixla.core.errors import MinixlaError
from minixla.tools.commands import check, convert, cost, run, show, table
from minixla.tools.commands.options import BadInput

__all__ = ["main"]

#: In the order in which the help shows them.
_COMMANDS = (run, check, show, cost, table, convert)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the words after the program's name; default: those of the process.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="minixla", description="Programs of XLA's operations.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in _COMMANDS:
        command.add(commands)
    options, others = parser.parse_known_args(arguments)
    # argparse takes files of arguments only where they stand together.
    files = getattr(options, "arguments", None)
    if others and (files is None or any(word.startswith("-") for word in others)):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    elif files is not None:
        files.extend(others)
    try:
        status = options.run(options)
        sys.stdout.flush()
        return status
    except (MinixlaError, BadInput) as error:
        print(f"minixla {options.command}: {error}", file=sys.stderr)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _closed()
        where = f"{error.filename}: " if error.filename else ""
        print(f"minixla {options.command}: {where}{error.strerror or error}", file=sys.stderr)
    return 2


def _closed() -> int:
    """Whoever read what is printed has stopped reading: that is no error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
