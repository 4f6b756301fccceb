"""Docstring sections that a family of functions shares, written once."""

import re
from collections.abc import Callable
from inspect import signature
from typing import TypeVar

from minixla.core.operation_docstrings import joined, sections

_Function = TypeVar("_Function", bound=Callable[..., object])
_ROW = re.compile(r"^    (?=\S)", re.MULTILINE)
_NAME = re.compile(r"\*{0,2}(\w+):")


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
            rows = {}
            for row in [row for part in parts for row in _ROW.split(part.get("Args", ""))]:
                if name := _NAME.match(row):
                    rows[name[1]] = f"    {row}".rstrip("\n")
            described = [rows[name] for name in signature(function).parameters if name in rows]
            merged = {title: body for part in parts for title, body in part.items()}
            function.__doc__ = joined({**merged, "Args": "\n".join(described)})
        return function

    return completed
