"""Completion scripts: what bash completes, and what all scripts list."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from minixla.tools.command_line import main
from minixla.tools.command_options import parsers

COMPLETED = {
    "minixla c": "check cost convert completion",
    "minixla run --b": "--backend",
    "minixla run p.mlir --backend ": "reference interpreter xla",
    "minixla show p.mlir --form s": "stablehlo svg",
    "minixla completion ": "bash zsh fish",
    # Names of files, which bash completes itself.
    "minixla run p": "",
}


def script(capsys, shell) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("line", COMPLETED)
def test_bash(capsys, line):
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    call = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _minixla; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", script(capsys, "bash") + call], capture_output=True)
    assert (done.stdout.decode().strip(), done.stderr) == (COMPLETED[line], b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_list_all_commands_and_options(capsys, shell):
    text = script(capsys, shell)
    for name, command in parsers()[1].items():
        assert name in text
        for action in command._actions:
            for flag in action.option_strings:
                short = f"-s {flag[1:]} " if len(flag) == 2 else f"-l {flag[2:]} "
                assert (short if shell == "fish" else flag) in text
