"""Docstring sections that a family of functions shares, written once."""

import re
from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import TypeVar

from minixla.core.operation_docstrings import joined, sections

_Function = TypeVar("_Function", bound=Callable[..., object])
_ROW = re.compile(r"^    (?=\S)", re.MULTILINE)
_NAME = re.compile(r"\*{0,2}(\w+):")


@lru_cache(maxsize=1024)
def _rows(text: str) -> list[tuple[str, str]]:
    """The rows of `Args` in a docstring, each with the name of its parameter."""
    rows = _ROW.split(sections(text).get("Args", ""))
    return [(name[1], f"    {row}".rstrip("\n")) for row in rows if (name := _NAME.match(row))]


def documented(*texts: str) -> Callable[[_Function], _Function]:
    """Complete the docstring of a function by sections that its family shares.

    Args:
        *texts: sections of docstrings; later texts take precedence. A row of `Args` is for
            functions that have this parameter and do not describe it. Another section is for
            functions that lack it.

    Returns:
        A decorator.
    """

    def completed(function: _Function) -> _Function:
        if function.__doc__:  # `python -OO` removes docstrings
            parts = [sections(text) for text in (*texts, function.__doc__)]
            rows = {name: row for text in (*texts, function.__doc__) for name, row in _rows(text)}
            described = [rows[name] for name in signature(function).parameters if name in rows]
            merged = {title: body for part in parts for title, body in part.items()}
            function.__doc__ = joined({**merged, "Args": "\n".join(described)})
        return function

    return completed
