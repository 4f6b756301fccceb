"""Errors about programs in text form, with the position and the text there."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from minixla.core.errors import ImportError_, explain

_LOCATION = re.compile(r'"([^"]*)":(\d+):(\d+)')
_SHOWN = 100
_LONGEST_OPERATION = 1 << 16
# The start of a line that follows an operation.
_NEXT = re.compile(r'\s*(?:[%}^#!"@]|//|\w+\.\w|(?:return|call|module)\b|\Z)')
_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|->|[][(){}<>:\n]')


def check_characters(text: str, refused: Callable[[int, str], ImportError_]) -> None:
    """Raise the error of `refused` for the first character that no program may have."""
    if "\0" in text:
        raise refused(text.index("\0"), "a null character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(error.start, "half of a surrogate pair") from None


def refused_at(
    subject: str, text: str, at: int, problem: str, advice: str, details: Iterable[str] = ()
) -> ImportError_:
    """Return the error for a position in a text; see `explain`."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f'"-":{line}:{column}'
    return located(subject, place, problem, details, advice, text)


def located(
    subject: str, location: Any, problem: str, details: Iterable[str], advice: str, source: str = ""
) -> ImportError_:
    """Return an error for a location of MLIR, with the line of `source` and the types there."""
    where, lines = "", []
    match = _LOCATION.search(str(location))
    if match is not None:
        file = "" if match[1] == "-" else f"{match[1]}, "
        where = f"{file}line {match[2]}, column {match[3]}: "
        if source and not file:
            lines = _shown(source, int(match[2]), int(match[3]))
    problem = f"{where}{problem.strip()[:500].rstrip('.')}"
    return explain(ImportError_, subject, problem, [*lines, *details], advice)


def _shown(text: str, line: int, column: int) -> list[str]:
    """Return the line of the text as a terminal shows it, and the types if they are cut off."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return []
    end = text.find("\n", start)
    whole = text[start : len(text) if end < 0 else end].rstrip()
    left = max(0, column - _SHOWN * 3 // 5)
    part = whole[left : left + _SHOWN].strip()
    types = _types(text, start + column - 1)
    beyond = [f"types {types[: 2 * _SHOWN]}"] if types and types not in part else []
    details = [line for line in (part, *beyond) if line]
    # Escape characters that not every terminal can print.
    return [x.encode(errors="backslashreplace").decode().replace("\0", "\\0") for x in details]


def _types(text: str, start: int) -> str:
    """Return the types of the operation at a position; empty without types."""
    depth, colon = 0, -1
    for match in _MARK.finditer(text, start, start + _LONGEST_OPERATION):
        text_found = match[0]
        if text_found in "([{<":
            depth += 1
        elif text_found in ")]}>":
            depth -= 1
            if depth < 0:
                return ""
        elif text_found == ":" and not depth:
            colon = match.end()
        elif text_found == "\n" and not depth and _NEXT.match(text, match.end()):
            types = text[colon : match.start()] if colon >= 0 else ""
            return " ".join(types.partition(" loc(")[0].split())
    return ""
