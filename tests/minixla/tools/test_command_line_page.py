"""docs/command_line.md: every command on it runs, and what it says of JSON is so."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.command_line import main
from minixla.tools.reports import Finding

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command_line.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
X, W = np.ones((4, 8), "f4"), np.full((8, 3), 0.1, "f4")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def layer(x, w):
        return mnp.tanh(x @ w)

    Path("layer.mlir").write_text(mx.make_graph(layer)(X, W).stablehlo())
    np.save("x.npy", X)
    np.savez("both.npz", x=X, w=W)


def run(line):
    """Standard output of a command, which may go to a file."""
    words = shlex.split(line, comments=True)
    assert words.pop(0) == "minixla"
    target = None
    if ">" in words:
        words, (target,) = words[: words.index(">")], words[words.index(">") + 1 :]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)) as out:
        assert main(words) == 0, line
        out.flush()
        text = out.buffer.getvalue().decode()
    if target is not None:
        Path(target).write_text(text)
    return text


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_commands_of_a_block_run(folder, number):
    for line in BLOCKS[number].splitlines():
        run(line)


def test_the_costs_on_the_page_are_those(folder):
    shown = re.search(r"^    cost of .*?\n\n(?=\w)", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    lines = [line.removeprefix("    ") for line in shown[0].splitlines()]
    # XLA's peak depends on its version.
    wanted = [line for line in lines if line and not line.startswith("peak")]
    printed = [line for line in run("minixla cost layer.mlir").splitlines() if line]
    assert [line for line in printed if not line.startswith("peak")] == wanted


def keys(value):
    """All names in a JSON value of a command."""
    if isinstance(value, dict):
        return set(value) | {name for each in value.values() for name in keys(each)}
    if isinstance(value, list):
        return {name for each in value for name in keys(each)}
    return set()


DOCUMENTED = {
    "explore": "minixla explore layer.mlir --output layer.json --json",
    "run": "minixla run layer.mlir --json",
    "check": "minixla check layer.mlir --json",
    "show": "minixla show layer.mlir --json",
    "cost": "minixla cost layer.mlir --json",
    "convert": "minixla convert layer.mlir --output l.mlirbc --json",
}


@pytest.mark.parametrize("command", DOCUMENTED)
def test_the_names_on_the_page_are_those(folder, command):
    row = next(
        line for line in PAGE.split("## JSON")[1].splitlines() if line.startswith(f"| `{command}`")
    )
    told = set(re.findall(r"`(\w+)`", row.split("|")[2]))
    found = keys(json.loads(run(DOCUMENTED[command])))
    # Where all is well, there are no findings.
    absent = {*Finding._fields} if command == "check" else set()
    assert found <= told and told - absent <= found
