"""The command line: `python -m minixla`, or `minixla`.

Exit codes: 0, it is done; 1, a check failed; 2, the words or the files that it was given are wrong;
130, Ctrl-C has ended it.
Neither JAX nor NumPy is loaded before the words and the names of files have been looked at, but by
files that `--load` names: what commands do is in `minixla.tools.commands`, loaded when it is run.
"""

import argparse
import contextlib
import errno
import importlib.util
import os
import sys
from argparse import ArgumentParser as Parser
from collections.abc import Sequence
from functools import partial
from typing import Any

from minixla.tools.evaluators import EVALUATORS, loaded
from minixla.tools.terminal import INTERRUPTED, end_on_interrupt
from minixla.version import __version__


class BadInput(Exception):
    """Words or files that a command cannot use; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    Args:
        arguments: the words after the program's name; default: those of the process, which Ctrl-C
            then ends, whatever it is doing.
    """
    if arguments is None:
        end_on_interrupt()
    name = "minixla"
    try:
        _load_scripts(arguments)
        options = _parsed(arguments)
        name = f"minixla {options.command}"
        _look_for_files(options)
        status = loaded(options.run)(options)
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
    except MemoryError as error:
        problem = f"there is not enough memory: {error}"
    except Exception as error:  # not asked of SystemExit: the error's class would load NumPy
        from minixla.core.errors import MinixlaError

        if not isinstance(error, (BadInput, MinixlaError)):
            raise
        problem = str(error)
    with contextlib.suppress(OSError):
        print(f"{name}: {problem}", file=sys.stderr)
    return 2


def _load_scripts(arguments: Sequence[str] | None) -> None:
    """Runs the files that `--load` names, which may add to what other words mean."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--load", action="append", nargs="?", default=[])
    for name in filter(None, parser.parse_known_args(arguments)[0].load):
        _check_file(name, os.R_OK)
        spec = importlib.util.spec_from_file_location(f"loaded {name}", name)
        if spec is None or spec.loader is None:
            raise BadInput(f"--load: {name} is no file of Python's: its name does not end in .py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser, commands = _parsers()
    try:
        options, others = parser.parse_known_args(arguments)
    except SystemExit:
        _flush()  # the help
        raise
    # argparse takes files of arguments only where they stand together.
    files = getattr(options, "arguments", None)
    if others and (files is None or any(word.startswith("-") for word in others)):
        commands[options.command].error(f"unrecognized arguments: {' '.join(others)}")
    elif files is not None:
        files.extend(others)
    return options


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser of all words, and those of the words after each command."""
    parser = Parser(prog="minixla", description="Programs of XLA's operations.")
    parser.add_argument("--version", action="version", version=f"minixla {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    def add(name: str, text: str, *parents: Parser) -> Parser:
        what = text.split(" ", 1)[1]
        command = commands.add_parser(name, help=what, description=f"{text}.", parents=parents)
        command.set_defaults(run="minixla.tools.commands:execute")
        return command

    program, arguments, _ = evaluated = _words_of_several()
    add("run", "Computes the results of a program", *evaluated)
    grad = add("grad", "Computes the gradient of a program's results, summed up", *evaluated)
    kind = partial(_listed, "of numbers such as 0,2", {})
    what = "the arguments; default: all floats and complex numbers"
    grad.add_argument("--argnums", type=kind, metavar="0,1", help=what)
    vmap = add("vmap", "Computes the results of a program for every member of a batch", *evaluated)
    kind = partial(_listed, "such as 0,none,-1", {"none": None})
    what = "the batch's axis in each argument, or none; default: 0 in all"
    vmap.add_argument("--in-axes", type=kind, metavar="0,none", help=what)
    what = "of the batch; default: that of the files, or 2"
    vmap.add_argument("--size", type=int, metavar="NUMBER", help=what)
    text = "Checks whether the reference, StableHLO's interpreter and XLA agree; exit code 1 if not"
    check = add("check", text, program, arguments)
    what = "leaves the derivatives unchecked"
    check.add_argument("--no-gradients", action="store_true", help=what)
    what = "runs XLA in a process of its own, and writes a Python script that shows the first "
    what += "error of XLA with the smallest program found; the script needs jax and numpy only"
    check.add_argument("--reproducer", metavar="FILE", help=what)
    text = "Shows a program as text, a picture or a page"
    show = add("show", text, program)
    what = "default: what the output's name ends in, else hlo"
    forms = ("hlo", "stablehlo", "dot", "svg", "html")
    show.add_argument("--form", choices=forms, help=what)
    what = "one page with the graph, the instructions and the source; the same as --form html"
    show.add_argument("--html", dest="form", action="store_const", const="html", help=what)
    show.add_argument("--output", metavar="FILE", help="default: standard output")
    what = "the folder of source files whose lines a page may show; default: none"
    show.add_argument("--source", metavar="DIR", help=what)
    text = "Opens a program's graph in Model Explorer, where minixla[explorer] is installed"
    explore = add("explore", text, program, arguments)
    what = "colours found by running the program; may be given again, for another"
    choices, what = ("nan", "errors", "findings"), f"{what}; costs and layouts are always there"
    explore.add_argument("--overlay", choices=choices, action="append", default=[], help=what)
    what = "the folder of source files whose lines a page may show; default: none"
    explore.add_argument("--source", metavar="DIR", help=what)
    what = "writes the viewer's files (.json), or a page (.html), in place of opening it"
    explore.add_argument("--output", metavar="FILE", help=what)
    what = "where its server listens on this machine; default: one that is free"
    explore.add_argument("--port", type=int, metavar="NUMBER", help=what)
    explore.add_argument("--no-browser", action="store_true", help="opens no browser")
    text = "Counts arithmetic, bytes and memory of a program, by operation and in total"
    cost = add("cost", text, program)
    cost.add_argument("--no-xla", action="store_true", help="without XLA's own analysis")
    cost.add_argument("--platform", help="what XLA compiles for: 'tpu v5e:2x2', 'gpu h100'")
    table = add("ops", "Prints the table of operations and their rules")
    table.set_defaults(run="minixla.tools.operations_table:show")
    form = table.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON list of objects")
    form.add_argument("--markdown", action="store_true", help="the page docs/operations.md")
    convert = add("convert", "Writes a program in another form", program)
    what = "stablehlo: MLIR's text; bytecode: of this version; portable: bytecode that later "
    what += "versions read (.mlirbc); hlo: HLO text; exported: what jax.export.deserialize reads "
    what += "(.jax, .bin). Default: what the output's name ends in, else stablehlo"
    forms = ("stablehlo", "bytecode", "portable", "hlo", "exported")
    convert.add_argument("--to", choices=forms, help=what)
    what = "one of Shardy's passes that the program goes through first, such as "
    what += "sdy-import-pipeline; may be given again, for the next"
    convert.add_argument("--pass", dest="passes", metavar="NAME", action="append", help=what)
    what = "whose passes: ours (native, the default) or Shardy's own"
    convert.add_argument("--engine", choices=("native", "shardy"), default="native", help=what)
    convert.add_argument("--output", metavar="FILE", help="default: standard output")
    return parser, commands.choices


def _words_of_several() -> list[Parser]:
    """Words that name a program, say where arguments come from, and how it is evaluated."""
    program, inputs, evaluation = parsers = [Parser(add_help=False) for _ in range(3)]
    what = "a StableHLO program (.mlir text, bytecode, a portable artifact, what jax.export "
    what += "serialized) or an HLO program (text); - reads standard input"
    program.add_argument("program", help=what)
    what = "the function of the module; default: main"
    program.add_argument("--function", metavar="NAME", help=what)
    what = (
        "sizes of the arrays that a program with symbolic sizes takes, such as 3x4,4x2; - for one "
    )
    what += "that is static. Default: those of the files of arguments"
    program.add_argument("--shapes", type=_shapes, metavar="3x4,4x2", help=what)
    what = "read a program for several devices without what it says of their shares"
    program.add_argument("--drop-shardings", action="store_true", help=what)
    program.add_argument("--json", action="store_true", help="print JSON")
    what = "files of arguments in order: .npy of one, .npz of several (in the order of the file); "
    what += "those that are missing are generated"
    # A default, else usage errors would ask for one.
    inputs.add_argument("arguments", nargs="*", default=[], metavar="array", help=what)
    what = "of generated arguments: floats are normal, integers 0 to 7 (default 0)"
    inputs.add_argument("--seed", type=_seed, metavar="NUMBER", default=0, help=what)
    what = "run first: it may add evaluators by mx.register_evaluator"
    inputs.add_argument("--load", metavar="FILE.py", action="append", help=what)
    backends, what = list(map(str.lower, EVALUATORS)), "what evaluates (default xla)"
    evaluation.add_argument("--backend", choices=backends, default="xla", help=what)
    what = "writes the results to a file: .npz has several, .npy one, .csv one as a table of "
    what += "numbers, .png one as a picture"
    evaluation.add_argument("--output", "--save", metavar="FILE", help=what)
    what = "prints the program instead of evaluating it"
    evaluation.add_argument("--emit", choices=("hlo", "stablehlo"), help=what)
    return parsers


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _listed(kind: str, words: dict[str, Any], text: str) -> list[Any]:
    """Numbers, and words for something else, with commas between them."""
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        return [words[part] if part in words else int(part) for part in parts]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list {kind}") from None


def _shapes(text: str) -> list[list[int] | None]:
    """Shapes with commas between them, each of which has sizes with an x between them, or is -."""
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        shapes = [None if part == "-" else list(map(int, part.split("x"))) for part in parts]
        if all(size >= 0 for shape in shapes for size in shape or ()):
            return shapes
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a list of shapes such as 3x4,4x2")


def _look_for_files(options: argparse.Namespace) -> None:
    """Looks whether files can be read and written, before anything is loaded that takes time."""
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
    """What cannot be written now is not tried again at exit, where Python would complain."""
    try:
        _flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
