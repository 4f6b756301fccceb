"""The Python programs in README.md and docs/ run: every block that is marked `python`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minixla.tools.evaluators import EVALUATORS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def standing_evaluators() -> Iterator[None]:
    """Pages may register evaluators; other tests do not meet them."""
    before = dict(EVALUATORS)
    yield
    EVALUATORS.clear()
    EVALUATORS.update(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_in_order(page: Path) -> None:
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(1))
        # Padded so that a traceback names the page's own line.
        exec(compile("\n" * line + match[1], str(page), "exec"), namespace)


def test_readme_has_programs() -> None:
    assert len(_BLOCK.findall((ROOT / "README.md").read_text())) >= 2
