"""The command line: `python -m minixla`, or `minixla`.

Exit codes: 0, success; 1, a check failed; 2, invalid arguments or files; 130, interrupted by
Ctrl-C.

Neither JAX nor NumPy is loaded before the arguments and file names are checked, except by files
that `--load` names. `minixla.tools.commands` implements the commands, and is loaded when one runs.
"""

import argparse
import contextlib
import errno
import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence

from minixla.tools.command_options import parsers
from minixla.tools.evaluators import loaded
from minixla.tools.terminal import INTERRUPTED, end_on_interrupt, styled


class BadInput(Exception):
    """Error for arguments or files that a command cannot use; the message gives the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    Args:
        arguments: the words after the program's name; default: those of the process, which
            Ctrl-C then ends at any time.
    """
    if arguments is None:
        end_on_interrupt()
    name = "minixla"
    try:
        _load_scripts(arguments)
        options = _parsed(arguments)
        name = f"minixla {options.command}"
        options.owns_process = arguments is None
        _look_for_files(options)
        status = _loaded(options)(options)
        _flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _give_up_output()
        if isinstance(error, BrokenPipeError):
            return 0  # the reader of the output has stopped, which is not an error
        where = f"{error.filename}: " if error.filename else ""
        problem = f"{where}{error.strerror or error}"
    except MemoryError as error:
        problem = f"out of memory: {error}"
    except Exception as error:  # SystemExit must not load NumPy for the class of errors
        from minixla.core.errors import MinixlaError

        if not isinstance(error, (BadInput, MinixlaError)):
            raise
        problem = str(error)
    with contextlib.suppress(OSError):
        print(styled(f"{name}:", "red", sys.stderr), problem, file=sys.stderr)
    return 2


def _loaded(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Load the function of a command."""
    if not options.owns_process:
        return loaded(options.run)
    # Modules create many objects and hardly any garbage. Garbage collection, here and at the end of
    # the process, would take a third of the time of `minixla run`.
    gc.disable()
    run = loaded(options.run)
    gc.freeze()
    gc.enable()
    return run


def _load_scripts(arguments: Sequence[str] | None) -> None:
    """Run the files that `--load` names, which may change the meaning of other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--load", action="append", nargs="?", default=[])
    for name in filter(None, parser.parse_known_args(arguments)[0].load):
        _check_file(name, os.R_OK)
        spec = importlib.util.spec_from_file_location(f"loaded {name}", name)
        if spec is None or spec.loader is None:
            raise BadInput(f"--load: {name} is not a Python file: its name does not end in .py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser, commands = parsers()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    try:
        options, others = parser.parse_known_args(arguments)
    except SystemExit:
        _flush()  # the help
        raise
    # argparse accepts files of arguments only if they are adjacent.
    files = getattr(options, "arguments", None)
    if others and (files is None or any(word.startswith("-") for word in others)):
        commands[options.command].error(f"unrecognized arguments: {' '.join(others)}")
    elif files is not None:
        files.extend(others)
    return options


def _look_for_files(options: argparse.Namespace) -> None:
    """Check that files can be read and written, before slow imports."""
    for name in [getattr(options, "program", "-"), *getattr(options, "arguments", ())]:
        if name != "-":
            _check_file(name, os.R_OK)
    for output in (getattr(options, name, None) for name in ("output", "reproducer")):
        if output is None:
            continue
        is_new = not os.path.exists(output)
        _check_file((os.path.dirname(output) or os.curdir) if is_new else output, os.W_OK, is_new)


def _check_file(name: str, mode: int, is_folder: bool = False) -> None:
    os.stat(name)
    is_other = os.path.isdir(name) != is_folder
    if is_other or not os.access(name, mode):
        code = (errno.ENOTDIR if is_folder else errno.EISDIR) if is_other else errno.EACCES
        raise OSError(code, os.strerror(code), name)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _give_up_output() -> None:
    """Discard output that cannot be written, so that Python does not try again at exit."""
    try:
        _flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
