"""The arguments of the command line: commands, their options, help and examples.

Neither JAX nor NumPy is loaded here.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from minixla.tools.evaluators import EVALUATORS
from minixla.tools.terminal import has_colors, styled
from minixla.version import __version__

_HEADING = re.compile(r"^[a-z ]+:", re.MULTILINE)


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, in color on a terminal."""

    examples: Sequence[str] = ()

    def format_help(self) -> str:
        """Return the help."""
        text = super().format_help()
        text += "".join(["\nexamples:\n", *(f"  {line}\n" for line in self.examples)])
        if not has_colors(sys.stdout) or "\x1b" in text:  # Python 3.14 has colors
            return text
        return _HEADING.sub(lambda heading: styled(heading[0], "bold", sys.stdout), text)

    def error(self, message: str) -> NoReturn:
        """Print usage and an error message, and exit."""
        self.print_usage(sys.stderr)
        title = styled(f"{self.prog}: error:", "red", sys.stderr)
        self.exit(2, f"{title} {message}\n")


def parsers() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the command line, and those of the commands by name."""
    parser = Parser(prog="minixla", description="Run, differentiate and check XLA programs.")
    parser.examples = [
        "minixla run program.mlir",
        "minixla check program.mlir arguments.npz",
        "minixla run --help",
    ]
    parser.add_argument("--version", action="version", version=f"minixla {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    def add(name: str, text: str, examples: str, *parents: Parser) -> Parser:
        command = commands.add_parser(name, help=text, description=f"{text}.", parents=parents)
        command.examples = [f"minixla {name} {line}".strip() for line in examples.split("\n")]
        command.set_defaults(run="minixla.tools.commands:execute")
        return command

    program, inputs, _ = evaluated = _shared_options()
    examples = "program.mlir\nprogram.mlir x.npy w.npy --backend reference --output results.npz"
    add("run", "Compute the results of a program", examples, *evaluated)

    text = "Compute the gradient of the sum of a program's results"
    grad = add("grad", text, "program.mlir arguments.npz --argnums 0,2", *evaluated)
    indices = partial(_listed, "indices such as 0,2", {})
    what = "indices of the arguments to differentiate; default: all float and complex arguments"
    grad.add_argument("--argnums", type=indices, metavar="0,1", help=what)

    text = "Compute the results of a program for each element of a batch"
    vmap = add("vmap", text, "program.mlir --in-axes 0,none --size 10", *evaluated)
    axes = partial(_listed, "axes such as 0,none,-1", {"none": None})
    what = "batch axis of each argument, or none; default: 0 for all"
    vmap.add_argument("--in-axes", type=axes, metavar="0,none", help=what)
    what = "batch size; default: that of the files, or 2"
    vmap.add_argument("--size", type=int, metavar="SIZE", help=what)

    text = "Check that NumPy, StableHLO's interpreter and XLA agree; exit code 1 if they do not"
    examples = "program.mlir arguments.npz\nprogram.mlir --reproducer fault.py"
    check = add("check", text, examples, program, inputs)
    check.add_argument("--no-gradients", action="store_true", help="do not check derivatives")
    what = "run XLA in a separate process, and write a Python script that shows the first error of "
    what += "XLA with the smallest program found; the script needs jax and numpy only"
    check.add_argument("--reproducer", metavar="FILE", help=what)

    examples = "program.mlir --form stablehlo\nprogram.mlir --html --output program.html"
    show = add("show", "Show a program as text, a picture or a page", examples, program)
    what = "form of the output; default: the form that the suffix of --output names, or hlo"
    forms = ("hlo", "stablehlo", "dot", "svg", "html")
    show.add_argument("--form", choices=forms, help=what)
    what = "one page with the graph, the instructions and the source; the same as --form html"
    show.add_argument("--html", dest="form", action="store_const", const="html", help=what)
    _add_output(show)
    _add_source(show)

    text = "Open the graph of a program in Model Explorer, which minixla[explorer] installs"
    explore = add("explore", text, "program.mlir --overlay nan", program, inputs)
    what = "color nodes by the results of running the program; may be repeated. Overlays of costs "
    what += "and shardings are always included"
    overlays = ("nan", "errors", "findings")
    explore.add_argument("--overlay", choices=overlays, action="append", default=[], help=what)
    _add_source(explore)
    what = "write the viewer's files (.json) or a page (.html) instead of opening the viewer"
    explore.add_argument("--output", metavar="FILE", help=what)
    what = "port of the local server; default: a free one"
    explore.add_argument("--port", type=int, metavar="PORT", help=what)
    explore.add_argument("--no-browser", action="store_true", help="do not open a browser")

    text = "Count arithmetic, bytes and peak memory of a program, by operation and in total"
    cost = add("cost", text, "program.mlir\nprogram.mlir --platform 'tpu v5e:2x2'", program)
    cost.add_argument("--no-xla", action="store_true", help="leave out XLA's own analysis")
    what = "platform that XLA compiles for, such as 'tpu v5e:2x2' or 'gpu h100'"
    cost.add_argument("--platform", help=what)

    text = "Convert a program to another form"
    examples = (
        "program.mlir --output program.jax\nprogram.mlir --to portable --output program.mlirbc"
    )
    convert = add("convert", text, examples, program)
    what = "stablehlo: MLIR text; bytecode: MLIR bytecode of this version; portable: bytecode that "
    what += "later versions read (.mlirbc); hlo: HLO text; exported: a file for "
    what += "jax.export.deserialize (.jax, .bin). Default: the form that the suffix of --output "
    what += "names, or stablehlo"
    forms = ("stablehlo", "bytecode", "portable", "hlo", "exported")
    convert.add_argument("--to", choices=forms, help=what)
    what = "run one of Shardy's passes first, such as sdy-import-pipeline; may be repeated"
    convert.add_argument("--pass", dest="passes", metavar="NAME", action="append", help=what)
    what = "implementation of the passes: minixla's (native, the default) or Shardy's"
    convert.add_argument("--engine", choices=("native", "shardy"), default="native", help=what)
    _add_output(convert)

    table = add("ops", "Print the table of operations and their rules", "\n--json")
    table.set_defaults(run="minixla.tools.operations_table:show")
    form = table.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list of objects")
    form.add_argument("--markdown", action="store_true", help="print the page docs/operations.md")

    explain = add("explain", "Explain an error class: causes and fixes", "ShapeError")
    explain.set_defaults(run="minixla.tools.explanations:explain")
    what = "the name of an error class; default: list all"
    explain.add_argument("error", nargs="?", metavar="ERROR", help=what)

    text = "Print a script that completes commands and options in a shell"
    examples = 'bash >> ~/.bashrc\nzsh > "${fpath[1]}/_minixla"\n'
    examples += "fish > ~/.config/fish/completions/minixla.fish"
    completion = add("completion", text, examples)
    completion.set_defaults(run="minixla.tools.completion:show")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    return parser, commands.choices


def _add_output(command: Parser) -> None:
    command.add_argument("--output", metavar="FILE", help="file to write; default: standard output")


def _add_source(command: Parser) -> None:
    what = "folder of the source files whose lines a page may show; default: none"
    command.add_argument("--source", metavar="DIR", help=what)


def _shared_options() -> list[Parser]:
    """Return parsers of the options for the program, its arguments, and the backend."""
    parents = [Parser(add_help=False) for _ in range(3)]
    program, inputs, evaluation = parents
    what = "file of a StableHLO program (.mlir text, bytecode, portable artifact, jax.export) or "
    what += "of an HLO program (text); '-' means standard input"
    program.add_argument("program", help=what)
    what = "function of the module; default: main"
    program.add_argument("--function", metavar="NAME", help=what)
    what = "shapes of the arguments of a program with symbolic sizes, such as 3x4,4x2; '-' "
    what += "means an argument with static sizes. Default: the shapes in the files"
    program.add_argument("--shapes", type=_shapes, metavar="3x4,4x2", help=what)
    what = "ignore the shardings of a program for several devices"
    program.add_argument("--drop-shardings", action="store_true", help=what)
    program.add_argument("--json", action="store_true", help="print JSON")
    what = "files of the arguments in order: .npy contains one array, .npz several; missing "
    what += "arguments are generated"
    # Without a default, usage errors would require one.
    inputs.add_argument("arguments", nargs="*", default=[], metavar="array", help=what)
    what = "seed for generated arguments: floats are drawn from a normal distribution, integers "
    what += "from 0 to 7; default: 0"
    inputs.add_argument("--seed", type=_seed, metavar="SEED", default=0, help=what)
    what = "Python file to run first; it may call mx.register_evaluator"
    inputs.add_argument("--load", metavar="FILE.py", action="append", help=what)
    backends, what = list(map(str.lower, EVALUATORS)), "backend that runs the program; default: xla"
    evaluation.add_argument("--backend", choices=backends, default="xla", help=what)
    what = "write the results to a file: .npz (several arrays), .npy (one), .csv (a table of "
    what += "numbers) or .png (a picture)"
    evaluation.add_argument("--output", "--save", metavar="FILE", help=what)
    what = "print the program instead of running it"
    evaluation.add_argument("--emit", choices=("hlo", "stablehlo"), help=what)
    return parents


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 0")
    return int(text)


def _listed(what: str, words: dict[str, Any], text: str) -> list[Any]:
    """Return integers, and the values of words, from a text with commas between them."""
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        return [words[part] if part in words else int(part) for part in parts]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {what}") from None


def _shapes(text: str) -> list[list[int] | None]:
    """Return shapes from a text such as 3x4,-,2, with None for `-`."""
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        shapes = [None if part == "-" else list(map(int, part.split("x"))) for part in parts]
        if all(size >= 0 for shape in shapes for size in shape or ()):
            return shapes
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a list of shapes such as 3x4,4x2")
