"""The Python programs in the pages run: every block that is marked `python`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import minixla as mx

pytestmark = pytest.mark.usefixtures("standing_evaluators")

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: A program; `python raises ShapeError` says that it ends so, and a block `text` after it what the
#: error's message is.
_BLOCK = re.compile(
    r"^```python(?: raises (\w+))?\n(.*?)^```\n(?:\n```text\n(.*?)\n```$)?",
    re.DOTALL | re.MULTILINE,
)


#: `make test` runs these; `make docs-test` runs the other pages.
QUICK = ("README.md", "CONTRIBUTING.md", "numpy.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.name in QUICK else [pytest.mark.docs]) for page in PAGES],
    ids=lambda page: page.name,
)
def test_blocks_run_in_order(page: Path) -> None:
    for message, (error, found) in messages(page).items():
        assert error is None or _pattern(message).fullmatch(found), f"{error} says:\n{found}"


def messages(page: Path) -> dict[str, tuple[str | None, str]]:
    """Runs a page; what it says of each error, with the error's class and what it did say."""
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    found: dict[str, tuple[str | None, str]] = {}
    for match in _BLOCK.finditer(text):
        error, program, message = match.groups()
        line = text.count("\n", 0, match.start(2))
        # Padded so that a traceback names the page's own line.
        code = compile("\n" * line + program, str(page), "exec")
        if error is None:
            exec(code, namespace)
            continue
        with pytest.raises(getattr(mx, error)) as caught:
            exec(code, namespace)
        assert type(caught.value) is getattr(mx, error)
        found[message] = error, _as_read(str(caught.value), page, line)
    return found


def _pattern(message: str) -> re.Pattern[str]:
    """What the page says; its `...` stands for anything."""
    return re.compile(re.escape(message).replace(re.escape("..."), ".*"), re.DOTALL)


def _as_read(message: str, page: Path, before: int) -> str:
    """An error's message as the page has it: places are lines of a program of its own."""
    place = re.compile(rf"[\w./-]*{re.escape(page.name)}:(\d+)")
    return place.sub(lambda match: f"program.py:{int(match[1]) - before}", message)


def test_readme_has_programs() -> None:
    assert len(_BLOCK.findall((ROOT / "README.md").read_text())) >= 2


def test_each_class_of_errors_has_its_heading() -> None:
    classes, pending = set(), [mx.MinixlaError]
    importlib.import_module("minixla.numpy.systems")
    for name in mx.__all__:
        getattr(mx, name)  # which loads it
    while pending:
        below = pending.pop().__subclasses__()
        pending += below
        ours = [each for each in below if each.__module__.startswith("minixla")]
        classes |= {each.__name__ for each in ours if not each.__name__.startswith("_")}
    text = (ROOT / "docs" / "errors.md").read_text()
    assert {*re.findall(r"^## (\w+)$", text, re.MULTILINE)} == classes


def test_errors_name_the_command_that_explains_them() -> None:
    with pytest.raises(mx.TransformError) as caught:
        mx.grad(lambda x: x)([])
    assert caught.value.__notes__[0] == (
        "Causes and fixes: python -m minixla explain TransformError"
    )
