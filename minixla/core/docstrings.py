"""Docstring sections that a family of functions shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import CO_VARARGS, CO_VARKEYWORDS, signature
from types import FunctionType
from typing import Any, TypeVar

from minixla.core.operation_docstrings import joined, sections

_Function = TypeVar("_Function", bound=Callable[..., object])
_ROW = re.compile(r"^    (?=\S)", re.MULTILINE)
_NAME = re.compile(r"\*{0,2}(\w+):")


def parameter_names(function: Callable[..., object]) -> Sequence[str]:
    """Return the names of a function's parameters in the order of its signature."""
    namespace: Any = vars(function)
    while "__wrapped__" in namespace and "__signature__" not in namespace:
        function = namespace["__wrapped__"]
        namespace = getattr(function, "__dict__", {})
    if not isinstance(function, FunctionType) or "__signature__" in namespace:
        return [*signature(function).parameters]
    code = function.__code__  # `signature` takes 20 times as long
    names, positional = code.co_varnames, code.co_argcount
    end = positional + code.co_kwonlyargcount
    has_list, has_names = code.co_flags & CO_VARARGS, code.co_flags & CO_VARKEYWORDS
    if has_list:
        names = (*names[:positional], names[end], *names[positional:end], *names[end + 1 :])
    return names[: end + bool(has_list) + bool(has_names)]


def _rows(parameters: str) -> list[tuple[str, str]]:
    """Return the rows of a section `Args`, each with the name of its parameter."""
    rows = _ROW.split(parameters)
    return [(name[1], f"    {row}".rstrip("\n")) for row in rows if (name := _NAME.match(row))]


@lru_cache(maxsize=256)
def _merged(texts: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the sections of texts by title, and the rows of all `Args` by parameter."""
    parts = [sections(text) for text in texts]
    rows = {name: row for part in parts for name, row in _rows(part.get("Args", ""))}
    return {title: body for part in parts for title, body in part.items()}, rows


def documented(*texts: str) -> Callable[[_Function], _Function]:
    """Complete the docstring of a function by sections that its family shares.

    Args:
        *texts: sections of docstrings; later texts take precedence. A row of `Args` is added to
            functions with this parameter that do not describe it. Other sections are added to
            functions that lack them.

    Returns:
        A decorator.
    """

    def completed(function: _Function) -> _Function:
        if function.__doc__:  # `python -OO` removes docstrings
            shared, shared_rows = _merged(texts)
            own = sections(function.__doc__)
            rows = {**shared_rows, **dict(_rows(own.get("Args", "")))}
            described = [rows[name] for name in parameter_names(function) if name in rows]
            function.__doc__ = joined({**shared, **own, "Args": "\n".join(described)})
        return function

    return completed
