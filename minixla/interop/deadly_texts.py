"""Where in a text MLIR's parser dies."""

from __future__ import annotations

from minixla.core.errors import ImportError_, explain
from minixla.interop.reader import Refusal, sent
from minixla.interop.refusals import SUBJECT, refused_at

_ADVICE = (
    "No program may do that to MLIR: correct it; if it is legal StableHLO, report it to the "
    "StableHLO project, and write it in another way until then."
)


def deadly(text: str, refusal: Refusal) -> ImportError_:
    """The error for a text of which MLIR's parser dies: the line, and how.

    The parser reads a text that is cut off until it misses the rest, unless it dies before.
    """
    lines = text.splitlines(keepends=True)
    lives, dies = 0, len(lines)
    # Where it does not end, each try takes seconds.
    while dies - lives > 1 and not refusal.is_slow:
        middle = (lives + dies) // 2
        if _dies("".join(lines[:middle])):
            dies = middle
        else:
            lives = middle
    if dies == len(lines):
        problem = f"MLIR's parser or verifier dies of the program: {refusal.problem}"
        return explain(ImportError_, SUBJECT, problem, (), _ADVICE)
    line = lines[dies - 1]
    at = len("".join(lines[: dies - 1])) + len(line) - len(line.lstrip())
    return refused_at(text, at, f"MLIR's parser dies of this line: {refusal.problem}", _ADVICE)


def _dies(text: str) -> bool:
    try:
        sent(text)
    except Refusal as refusal:
        return refusal.died
    return False
