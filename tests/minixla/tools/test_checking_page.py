"""docs/checking.md prints what it shows: each kind of finding has a program, a report and a fix."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from minixla.tools.reports import ADVICE

PAGE = Path(__file__).parents[3] / "docs" / "checking.md"
KINDS = "## Kinds of findings"
#: A program and the report after it, if there is one.
_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def words(text: str) -> str:
    """Return a text without line breaks and folders."""
    return " ".join(re.sub(r"\S*/train\.py", "train.py", text).split())


def headings() -> dict[str, str]:
    """Return the sections of the kinds of findings by their headings."""
    section = PAGE.read_text().split(KINDS)[1].split("\n## ")[0]
    parts = section.split("\n### ")[1:]
    return {part.partition("\n")[0].lower(): part for part in parts}


@pytest.mark.parametrize("kind", ADVICE)
def test_each_kind_has_a_program_a_report_and_a_fix(kind):
    first, *others = _BLOCK.findall(headings()[kind])
    assert words(first[1]).startswith(f"{kind}: ")
    assert f'kind == "{kind}"' in first[0] or "in report.findings[0].explanation" in first[0]
    assert any(".ok" in program for program, _ in others)


@pytest.mark.docs
def test_programs_print_the_reports_that_the_page_shows(tmp_path):
    namespace: dict[str, object] = {}
    compared = 0
    for at, (program, shown) in enumerate(_BLOCK.findall(PAGE.read_text())):
        (tmp_path / str(at)).mkdir()
        file = tmp_path / str(at) / "train.py"
        file.write_text(program)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, str(file), "exec"), namespace)
        wanted = words(shown)
        if "findings[0]" in program and wanted:
            compared += 1
            assert words(printed.getvalue()).startswith(wanted), program
    assert compared >= len(ADVICE)
