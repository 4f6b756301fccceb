"""The table of operations: every entry of the specification, no empty cell, and its page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.operation import REGISTRY, Operation
from minixla.tools.command_line import main
from minixla.tools.operations_table import _row, as_markdown, operation_rows
from minixla_ops.elementwise.families import Unary
from minixla_ops.inventory import ENTRIES, Entry

ROOT = Path(__file__).resolve().parents[3]
ROWS = operation_rows()


def test_the_inventory_has_153_entries_in_order():
    assert [entry.number for entry in ENTRIES] == list(range(1, 154))
    assert len({entry.name for entry in ENTRIES}) == 153
    built = [entry.built_by for entry in ENTRIES]
    counts = {kind: built.count(kind) for kind in built}
    assert counts == {"user": 127, "communication primitive": 6, "dump-only": 20}
    assert ENTRIES[0].name == "Abs" and ENTRIES[152].name == "RngGetAndUpdateState"


def test_operations_that_are_none_of_xlas_follow_with_their_platforms():
    assert [row.number for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert [row.name for row in ROWS[:153]] == [entry.name for entry in ENTRIES]
    others = {row.name: (row.tpu, row.gpu) for row in ROWS[153:]}
    factorizations = {
        "Lu": ("not f64", "yes"),
        "Qr": ("yes", "yes"),
        "Eigh": ("no", "yes"),
        "Svd": ("no", "yes"),
        "Eig": ("no", "yes"),
        "Schur": ("no", "no"),
        "Threefry2x32": ("yes", "yes"),
    }
    assert {name: others[name] for name in factorizations} == factorizations
    builders = {name for name in ops.__all__ if name[0].islower()}
    named = {row.builder.removeprefix("ops.") for row in ROWS}
    assert builders - named == {"create_token", "register_custom_call", "slice_in_dim"}


def test_no_cell_is_empty():
    empty = {
        (row.name, column) for row in ROWS for column, cell in row._asdict().items() if not cell
    }
    assert not empty, "neither a rule nor a reason"


def test_every_builder_is_a_documented_function():
    names = {row.builder.removeprefix("ops.") for row in ROWS}
    assert names <= set(ops.__all__)
    functions = {name: getattr(ops, name) for name in names}
    assert [name for name, each in functions.items() if not callable(each)] == []
    assert [name for name, each in functions.items() if not (each.__doc__ or "").strip()] == []


def test_the_page_is_what_the_registry_says():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert page == as_markdown(ROWS) + "\n", (
        "docs/operations.md is stale: python -m minixla ops --markdown > docs/operations.md"
    )


def test_a_missing_rule_leaves_its_cell_empty():
    class Bare(Operation):
        """Nothing but a name."""

    class Incomplete(Unary):
        """A member of a family that does not give what the family's rules need."""

    row = _row(Entry(1, "Abs", "user"), [Bare])
    assert (row.shape, row.reference, row.jvp, row.reverse, row.stablehlo) == ("",) * 5
    row = _row(Entry(1, "Abs", "user"), [Incomplete])
    assert (row.shape, row.reference, row.jvp, row.reverse) == ("yes", "", "", "")
    assert row.batch == "rule"


def test_an_entry_of_several_operations_is_as_complete_as_the_least():
    class Bare(Operation):
        """Nothing but a name."""

    assert _row(Entry(1, "Abs", "user"), [REGISTRY["Abs"], Bare]).reference == ""
    row = _row(Entry(1, "Abs", "user"), [REGISTRY["Abs"], REGISTRY["Neg"]])
    assert (row.stablehlo, row.jvp) == ("abs / negate", "yes / linear")


def test_reasons_are_told():
    rows = {row.name: row for row in ROWS}
    assert rows["Floor"].jvp == "zero: it is piecewise constant"
    assert rows["Parameter"].reference == "none: the caller passes its value"
    assert rows["Reshape (explicit)"].builder == "ops.reshape_explicit"
    assert rows["And"].builder == "ops.and_"
    names = "Sort", "Add", "While", "TopK", "RaggedDot", "Iota", "Tuple"
    shown = ["rule", "rule", "program", "rule", "program", "none", "none"]
    assert [rows[name].sharding for name in names] == shown


def test_the_command_prints_text_json_and_the_page(capsys):
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["number", "name", "builder"]
    assert lines[1].split()[:4] == ["1", "Abs", "ops.abs", "abs"]
    assert len(lines[: lines.index("")]) == 1 + len(ROWS)
    assert main(["ops", "--json"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert [tuple(each.values()) for each in loaded] == [tuple(row) for row in ROWS]
    assert main(["ops", "--markdown"]) == 0
    assert capsys.readouterr().out == as_markdown(ROWS) + "\n"


def test_the_command_lists_all_operations():
    script = (
        "import sys, runpy; sys.argv = ['minixla', 'ops', '--json']\n"
        "try: runpy.run_module('minixla', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert len(json.loads(done.stdout)) == len(ROWS)


def test_a_missing_rule_says_why():
    class Odd(Operation):
        """An operation that cannot run."""

        missing_rules = {"reference": "it has no meaning"}

    with pytest.raises(TypeError, match="odd: the operation has no reference rule: it has no mean"):
        Odd().reference(np.ones(3))
