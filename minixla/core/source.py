"""Where in the user's program an operation was called."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

__all__ = ["Source", "find_source", "skip_package"]


class Source(NamedTuple):
    """A position in the user's program, resolved to a line only when it is printed."""

    code: CodeType
    instruction: int

    @property
    def file(self) -> str:
        """The path of the file, as Python knows it."""
        return self.code.co_filename

    @property
    def function(self) -> str:
        """The qualified name of the function that holds the line."""
        return self.code.co_qualname

    @property
    def line(self) -> int:
        """The line number, counted from 1; 0 where Python does not know it."""
        starts, lines = _line_table(self.code)
        return lines[bisect_right(starts, self.instruction) - 1]

    def __str__(self) -> str:
        path = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        shown = self.file if path.startswith("..") else path
        return f"{shown}:{self.line} ({self.function})"


@lru_cache(maxsize=1024)
def _line_table(code: CodeType) -> tuple[list[int], list[int]]:
    rows = [(start, line or 0) for start, _, line in code.co_lines()]
    return [start for start, _ in rows], [line for _, line in rows]


_SKIPPED_FOLDERS: list[str] = []
_IS_USER_CODE: dict[CodeType, bool] = {}


def skip_package(folder: str) -> None:
    """Counts the code in `folder` as the framework's, not the user's."""
    _SKIPPED_FOLDERS.append(os.path.join(os.path.abspath(folder), ""))
    _IS_USER_CODE.clear()


def _classify(code: CodeType) -> bool:
    name = code.co_filename
    is_user = not name.startswith("<frozen") and not name.startswith(tuple(_SKIPPED_FOLDERS))
    _IS_USER_CODE[code] = is_user
    return is_user


def find_source(depth: int = 1) -> Source | None:
    """The innermost frame of the caller's stack that is the user's code, or None.

    Args:
        depth: how many frames to pass over before looking.
    """
    frame = sys._getframe(depth)
    known = _IS_USER_CODE
    while frame is not None:
        code = frame.f_code
        is_user = known.get(code)
        if is_user or (is_user is None and _classify(code)):
            return Source(code, frame.f_lasti)
        frame = frame.f_back
    return None


_CORE = os.path.dirname(os.path.abspath(__file__))
skip_package(os.path.dirname(_CORE))
skip_package(os.path.join(os.path.dirname(os.path.dirname(_CORE)), "minixla_ops"))
