"""Parsing of declarations, with values in protocol buffers' text format."""

from __future__ import annotations

import ast
import re
from typing import Any, NoReturn

from minixla.core.errors import AttributeValueError, explain

_SPACE = re.compile(r"[\s,;]*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)\b")
_STRING = re.compile(r"b?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
NAME = re.compile(r"[^\W\d]\w*")


class Word(str):
    """A name in a value, without quotes."""


_ENDS = {"[": "]", "(": ")", "{": "}", "<": ">"}


class Reader:
    """A declaration that is being parsed.

    Args:
        subject: the owner of the declaration, for messages.
        text: the declaration.
    """

    def __init__(self, subject: str, text: str) -> None:
        self.subject, self.text, self.position = subject, text, 0

    def skip(self) -> int:
        """Skip white space and return the position."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.position

    def found(self, pattern: re.Pattern[str]) -> str:
        """Return and consume the text that matches at the position; else return ""."""
        match = pattern.match(self.text, self.skip())
        if match is None:
            return ""
        self.position = match.end()
        return match[0]

    def takes(self, text: str) -> bool:
        """Consume `text` if it is at the position, and return whether it was."""
        if not self.text.startswith(text, self.skip()):
            return False
        self.position += len(text)
        return True

    def expect(self, text: str, advice: str) -> None:
        """Consume `text`; raise an error if it is not at the position."""
        if not self.takes(text):
            self.refuse(f"{text!r} is missing", advice)

    def name(self, advice: str) -> str:
        """Read a name."""
        return self.found(NAME) or self.refuse("a name is missing", advice)

    @property
    def is_at_end(self) -> bool:
        """True if all is read."""
        return self.skip() == len(self.text)

    def refuse(self, problem: str, advice: str, at: int | None = None) -> NoReturn:
        """Raise AttributeValueError, which shows a position; default: the current one."""
        place = self.skip() if at is None else at
        line = self.text.replace("\n", " ")
        lines = [f"in {line!r}, at {line[place : place + 20]!r}" if place < len(line) else ""]
        lines = lines if lines[0] else [f"in {line!r}, at its end"]
        raise explain(AttributeValueError, self.subject, problem, lines, advice)

    def number(self, advice: str) -> int | float:
        """Read a number."""
        text = self.found(_NUMBER) or self.refuse("a number is missing", advice)
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)

    def quoted(self, advice: str) -> str | bytes:
        """Read a string in quotes."""
        at = self.skip()
        text = self.found(_STRING) or self.refuse("a string in quotes is missing", advice)
        try:
            value = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            self.refuse("the string has an invalid escape", advice, at)
        # Octal and hexadecimal escapes are bytes.
        if isinstance(value, str) and "\\" in text and not value.isascii():
            return ast.literal_eval(f"b{text}") if text.isascii() else value
        return value

    def value(self, advice: str) -> Any:
        """Read a value in text format: number, string, word, list, or message (a dict of lists).

        A Python tuple is read as a list.
        """
        at = self.skip()
        start = self.text[at : at + 1]
        if start in ("{", "<"):
            return self._message(advice)
        if start in ("[", "("):
            self.position += 1
            return self._members(_ENDS[start], lambda: self.value(advice), advice)
        if _STRING.match(self.text, at):
            return self.quoted(advice)
        if _NUMBER.match(self.text, at):
            return self.number(advice)
        return Word(self.name(advice))

    def _members(self, end: str, member: Any, advice: str) -> list[Any]:
        members = []
        while not self.takes(end):
            if self.is_at_end:
                self.refuse(f"{end!r} is missing", advice)
            members.append(member())
            self.found(_SPACE)
        return members

    def _message(self, advice: str) -> dict[str, list[Any]]:
        fields: dict[str, list[Any]] = {}

        def field() -> None:
            name = self.name(advice)
            if not self.takes(":") and self.text[self.skip() : self.position + 1] not in ("{", "<"):
                self.refuse(f"':' is missing after {name}", advice)
            value = self.value(advice)
            fields.setdefault(name, []).extend(value if isinstance(value, list) else [value])

        start = self.text[self.position]
        self.position += 1
        self._members(_ENDS[start], field, advice)
        return fields
