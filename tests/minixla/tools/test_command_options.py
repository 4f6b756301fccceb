"""Help, usage and errors of the words of the command line."""

from __future__ import annotations

import io
import re
import sys

import pytest

from minixla.tools.command_line import main
from minixla.tools.command_options import parsers

COMMANDS = [None, *parsers()[1]]
ERRORS = {
    "fly": "argument command: invalid choice: 'fly'",
    "run": "minixla run: error: the following arguments are required: program\n",
    "run p.mlir --nothing": "minixla run: error: unrecognized arguments: --nothing",
    "ops --nothing": "minixla ops: error: unrecognized arguments: --nothing",
    "show p.mlir x.npy": "minixla show: error: unrecognized arguments: x.npy",
    "run p.mlir --backend gpu": "argument --backend: invalid choice: 'gpu'",
    "run p.mlir --seed -1": "argument --seed: '-1' is not an integer of at least 0",
    "grad p.mlir --argnums a": "argument --argnums: 'a' is not a list of indices such as 0,2",
    "vmap p.mlir --in-axes 0,b": "argument --in-axes: '0,b' is not a list of axes such as 0,none",
    "vmap p.mlir --size many": "argument --size: invalid int value: 'many'",
    "convert p.mlir --to exe": "argument --to: invalid choice: 'exe'",
    "completion csh": "argument shell: invalid choice: 'csh'",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("words", ERRORS)
def test_errors_follow_the_usage(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(words.split())
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.startswith("usage: minixla")
    assert ERRORS[words] in err


def print_help(words) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_purpose_and_examples(capsys, command):
    name = " ".join(["minixla", *([command] if command else [])])
    print_help([*name.split()[1:], "--help"])
    out, err = capsys.readouterr()
    assert not err and out.startswith(f"usage: {name}") and "\x1b" not in out
    description = parsers()[1][command].description if command else "Run, differentiate"
    assert description and description in " ".join(out.split())
    assert f"\nexamples:\n  {name}" in out


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_examples_are_valid(command):
    for example in parsers()[1][command].examples:
        words = re.sub(r" >.*", "", example).replace("'tpu v5e:2x2'", "tpu").split()
        assert parsers()[0].parse_args(words[1:]).command == command


def test_no_words_print_the_help(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    out, err = capsys.readouterr()
    assert end.value.code == 2 and not out
    assert err.startswith("usage: minixla") and "\nexamples:\n  minixla run" in err


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colors(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    print_help(["run", "--help"])
    with pytest.raises(SystemExit):
        main(["run"])
    assert main(["run", "nothing.mlir"]) == 2
    has_colors = not variables
    assert ("\x1b[" in out.getvalue()) == has_colors
    assert ("\x1b[31mminixla run: error:\x1b[0m" in err.getvalue()) == has_colors
    assert ("\x1b[31mminixla run:\x1b[0m nothing.mlir" in err.getvalue()) == has_colors
    assert ("\x1b" in err.getvalue()) == has_colors
