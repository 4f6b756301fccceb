"""`minixla explain`: the sections of docs/errors.md, which wheels contain as `errors.md`."""

import argparse
import re
from difflib import get_close_matches
from pathlib import Path

from minixla.tools.command_line import BadInput

_PAGES = Path(__file__).with_name("errors.md"), Path(__file__).parents[2] / "docs" / "errors.md"
_MARK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def explain(options: argparse.Namespace) -> int:
    """Print the section of an error class, or the names of all."""
    sections = _sections(next(filter(Path.is_file, _PAGES)).read_text(encoding="utf-8"))
    name = options.error
    if name is None:
        print("\n".join(sections))
        return 0
    by_name = {title.lower(): title for title in sections}
    title = by_name.get(name.rpartition(".")[2].lower())
    if title is None:
        close = get_close_matches(name.lower(), by_name, 1)
        advice = f"did you mean {by_name[close[0]]}?" if close else "minixla explain lists all"
        raise BadInput(f"{name!r} is not an error class; {advice}")
    print(sections[title])
    return 0


def _sections(page: str) -> dict[str, str]:
    """Return the text of each section by its title, without links."""
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    titled = [part.strip().partition("\n") for part in parts]
    return {title: _MARK.sub(r"\1", f"{title}\n{text}") for title, _, text in titled}
