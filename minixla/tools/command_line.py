"""The command line: `python -m minixla`, or `minixla`.

Exit codes: 0, it is done; 1, a check failed; 2, the words or the files that it was given are wrong;
130, Ctrl-C has ended it.
Neither JAX nor NumPy is loaded before the words and the names of files have been looked at, but by
files that `--load` names.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

import minixla
from minixla.tools.commands import check, convert, cost, run, show, table
from minixla.tools.commands.options import BadInput, load_scripts, look_for_files
from minixla.tools.interrupts import INTERRUPTED, end_on_interrupt

#: In the order in which the help shows them.
_COMMANDS = (run, check, show, cost, table, convert)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the words after the program's name; default: those of the process, which Ctrl-C
            then ends, whatever it is doing.

    Returns:
        The exit status.
    """
    if arguments is None:
        end_on_interrupt()
    name = "minixla"
    try:
        load_scripts(arguments)
        options = _parsed(arguments)
        name = f"minixla {options.command}"
        look_for_files(options)
        _name_no_caller()
        status = options.run(options)
        _flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _give_up_output()
        if isinstance(error, BrokenPipeError):
            return 0  # whoever read what is printed has stopped reading: that is no error
        where = f"{error.filename}: " if error.filename else ""
        problem = f"{where}{error.strerror or error}"
    except Exception as error:
        problem = str(error)
        if not _is_on_purpose(error):
            if not isinstance(error, MemoryError):
                raise
            problem = f"there is not enough memory: {error}"
    with contextlib.suppress(OSError):
        print(f"{name}: {problem}", file=sys.stderr)
    return 2


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="minixla", description="Programs of XLA's operations.")
    version = f"minixla {minixla.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in _COMMANDS:
        command.add(commands)
    try:
        options, others = parser.parse_known_args(arguments)
    except SystemExit:
        _flush()  # the help
        raise
    # argparse takes files of arguments only where they stand together.
    files = getattr(options, "arguments", None)
    if others and (files is None or any(word.startswith("-") for word in others)):
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(others)}")
    elif files is not None:
        files.extend(others)
    return options


def _is_on_purpose(error: Exception) -> bool:
    """Whether an error's message says what is wrong with the input."""
    if isinstance(error, BadInput):
        return True
    from minixla.core.errors import MinixlaError

    return isinstance(error, MinixlaError)


def _name_no_caller() -> None:
    """Neither messages nor programs name the script that starts the command line."""
    from minixla.core.source import skip_callers

    skip_callers(main.__code__.co_filename)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _give_up_output() -> None:
    """What cannot be written now is not tried again at exit, where Python would complain."""
    try:
        _flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
