"""HLO text with positions in it: comments, strings, brackets, and errors that name the place."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

from minixla.core.errors import ImportError_, explain

__all__ = ["SUBJECT", "HloText"]

SUBJECT = "import_hlo"
_STRING = r'"(?:[^"\\]|\\.)*+"'
# What has no end goes on to the end of the text, so that nothing is searched twice.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|/\*.*?(?:\*/|\Z)|//[^\n]*', re.DOTALL)
_BLANKS = re.compile(r"\s*")
# What stands between the brackets of an attribute, and of a shape or a constant.
_IN_BRACES = re.compile(rf'{_STRING}|[{{}}]|"')
_IN_PARENTHESES = re.compile(r"[()]")
# Most have none of their own within them.
_PLAIN_BRACES = re.compile(rf'\{{(?:[^{{}}"]++|{_STRING})*+\}}')
_PLAIN_PARENTHESES = re.compile(r"\([^()]*+\)")
_SHOWN = 100
_ADVICE = (
    "Give HLO text as XLA prints it (compiled.as_text(), lowered.as_text('hlo'), --xla_dump_to), "
    "whole and unchanged."
)


class HloText:
    """A program's text.

    Attributes:
        text: the text; blanks stand in place of comments, so that positions are the user's.
    """

    def __init__(self, text: str) -> None:
        self._given = text
        has_comments = "/*" in text or "//" in text
        self.text = _COMMENT.sub(_without_comment, text) if has_comments else text

    @cached_property
    def _ends(self) -> list[int]:
        """Where lines end."""
        return [match.start() for match in re.finditer("\n", self._given)]

    def line(self, position: int) -> int:
        """The line, counted from 1, that a position is in."""
        return bisect_left(self._ends, position) + 1

    def error(
        self, position: int, problem: str, given: Iterable[str] = (), advice: str = _ADVICE
    ) -> ImportError_:
        """The error for a place in the text."""
        line = self.line(position)
        start = self._ends[line - 2] + 1 if line > 1 else 0
        end = self._ends[line - 1] if line <= len(self._ends) else len(self._given)
        left = max(start, position - _SHOWN // 2)
        shown = self._given[left : min(end, left + _SHOWN)].strip()
        where = f"line {line}, column {position - start + 1}: {problem}"
        return explain(ImportError_, SUBJECT, where, [*([shown] if shown else []), *given], advice)

    def unexpected(self, position: int, wanted: str) -> ImportError_:
        """The error for something else than what is wanted."""
        position = self.skip(position)
        found = self.text[position : position + 20].partition("\n")[0].strip()
        return self.error(position, f"found {found!r}" if found else "found the end", [wanted])

    def skip(self, position: int) -> int:
        """The position after blanks."""
        return _BLANKS.match(self.text, position).end()  # type: ignore[union-attr]  # it may be empty

    def braces_end(self, position: int) -> int:
        """The position after the braces that open at `position`; strings may hold braces too.

        Raises:
            ImportError_: they do not close.
        """
        return self._end(position, _PLAIN_BRACES, _IN_BRACES, "{", "}")

    def parentheses_end(self, position: int) -> int:
        """The position after the parentheses that open at `position`.

        Raises:
            ImportError_: they do not close.
        """
        return self._end(position, _PLAIN_PARENTHESES, _IN_PARENTHESES, "(", ")")

    def _end(
        self,
        position: int,
        plain: re.Pattern[str],
        pattern: re.Pattern[str],
        opening: str,
        closing: str,
    ) -> int:
        match = plain.match(self.text, position)
        if match is not None:
            return match.end()
        depth = 0
        for match in pattern.finditer(self.text, position):
            found = match[0]
            if found == opening:
                depth += 1
            elif found == closing:
                depth -= 1
                if not depth:
                    return match.end()
            elif found == '"':
                raise self.error(match.start(), "a string has no end")
        raise self.error(position, f"there is no {closing} for this {opening}")


def _without_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)
