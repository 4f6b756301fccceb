"""docs/shardy_passes.md shows what passes do, and lists the facts that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minixla.sharding import run_pass
from minixla.sharding.passes import PASSES
from tests.minixla.sharding.test_facts import FACTS
from tests.oracles.shardy_text import normal_form

_PAGE = (Path(__file__).resolve().parents[3] / "docs" / "shardy_passes.md").read_text()
_SECTION = re.compile(r"^### .*?`([\w-]+)`$(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"^```mlir\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: The programs before and after each pass.
SHOWN = {
    name: programs for name, text in _SECTION.findall(_PAGE) if (programs := _PROGRAM.findall(text))
}


def test_the_passes_of_the_specification_are_shown():
    assert len(SHOWN) >= 8 and all(len(programs) == 2 for programs in SHOWN.values())


@pytest.mark.parametrize("engine", ["native", "shardy"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_pass_does_what_is_shown(name, engine):
    before, after = SHOWN[name]
    assert name in PASSES
    left = normal_form(run_pass(name, before, engine=engine))
    assert left == normal_form(after) != normal_form(before)


def test_every_fact_of_the_six_passes_is_listed():
    listed = re.findall(r"^\| (P\d\.\d+) \|", _PAGE, re.MULTILINE)
    assert listed == sorted(listed, key=lambda number: tuple(map(int, number[1:].split("."))))
    given = {fact.name.partition(":")[0]: fact for fact in FACTS if re.match(r"P\d", fact.name)}
    assert set(listed) == set(given)
    specified = re.findall(r"^\| (P[\d.]+) \|.*specification=True", _PAGE, re.MULTILINE)
    assert set(specified) == {name for name, fact in given.items() if fact.specification}
