"""Docstring sections in Google style, and their inheritance by operations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from inspect import cleandoc
from typing import Any

_TITLE = re.compile(r"(Args|Returns|Yields|Raises|Checks|Attributes|Example)(?: \(.*\))?:(.*)")
# The order of sections; text outside sections comes first.
_ORDER = ("", "Args", "Returns", "Yields", "Raises", "Attributes", "Example")
# Sections that classes inherit from their base classes.
_SHARED = ("Args", "Returns", "Checks")
_REFERENCE = re.compile(r"\bsee (\w+)")
_KINDS = {"float": "floats", "complex": "complex numbers", "pred": "pred"}
_KINDS |= {"signed": "integers", "unsigned": "integers"}


@lru_cache(maxsize=1024)
def sections(text: str) -> dict[str, str]:
    """Split a docstring into sections by title; text outside sections is under "".

    Args:
        text: a docstring, with or without the indentation of a class.

    Returns:
        The lines of each title, with their indentation; text after the title comes first.
    """
    lines: list[str] = []
    sections_found = {"": lines}
    for line in _dedented(text).splitlines():
        if line and line[0] != " ":
            match = _TITLE.fullmatch(line) if ":" in line else None
            lines = sections_found.setdefault(match[1] if match else "", [])
            if match:
                line = f"    {match[2].strip()}".rstrip()
        lines.append(line)
    whole = {title: "\n".join(lines).strip("\n") for title, lines in sections_found.items()}
    return {title: text for title, text in whole.items() if text}


def _dedented(text: str) -> str:
    """Return what `cleandoc` returns, in less time for docstrings in the usual style."""
    indent = text[text.rfind("\n") + 1 :]  # the closing quotes are indented like the text
    lines = text.count("\n")
    if not lines and text[:1].isalnum() and "\t" not in text:
        return text
    is_usual = indent.isspace() and text.count(f"\n{indent}") + text.count("\n\n") == lines
    if not is_usual or not text[0].isalnum() or "\t" in text:
        return cleandoc(text)
    return text.replace(f"\n{indent}", "\n").rstrip("\n")


def joined(parts: Mapping[str, str]) -> str:
    """Join sections to a docstring, in the usual order."""
    titles = [title for title in _ORDER if parts.get(title)]
    return "\n\n".join(f"{title}:\n{parts[title]}" if title else parts[title] for title in titles)


def of_operation(cls: type) -> str:
    """Build the docstring of an operation's builder from the class and its base classes.

    Missing sections are those of the nearest base class that has them. The checks become errors of
    the builder.
    """
    parts: dict[str, str] = {}
    for family in reversed([*_families(cls)]):
        parts.update((title, family[title]) for title in _SHARED if title in family)
    parts = {**sections(cls.__doc__ or ""), **parts}
    if checks := parts.pop("Checks", ""):
        lines = "\n".join(_resolved(cls, checks))
        raises = parts.get("Raises")
        problem = f"    ShapeError, AttributeValueError: one of these does not hold.\n{lines}"
        parts["Raises"] = f"{problem}\n{raises}" if raises else problem
    text = joined(parts)
    if "`element_types`" in text:
        text = text.replace("`element_types`", _types(frozenset(cls.element_types)))
    return text


def check_text(cls: type, label: str) -> str:
    """Return the docstring's text of a check, as the end of an error message."""
    for each in _families(cls):
        checks = " ".join("\n".join(_resolved(cls, each.get("Checks", ""))).split())
        if match := re.search(rf"\({label}\) (.*?)(?= \([A-Z]\d+\)|$)", checks):
            return f"Rule: {match[1]}"
    return ""


def _families(cls: type) -> Iterator[dict[str, str]]:
    """Yield the sections of the docstrings of the class and its base classes, nearest first."""
    for base in cls.__mro__:
        if base.__module__ == "minixla.core.operation":
            break
        yield sections(base.__dict__.get("__doc__") or "")


def _resolved(cls: type, checks: str) -> Iterator[str]:
    """Yield the lines of checks, indented; checks of a base class replace a reference to it."""
    for line in checks.splitlines():
        name = _REFERENCE.search(line) if "see " in line else None
        bases = [base for base in cls.__mro__[1:] if name and base.__name__ == name[1]]
        found = sections(bases[0].__doc__ or "").get("Checks") if bases else None
        if found:
            yield from _resolved(bases[0], found)
        elif line.strip():
            yield f"    {line}"


@lru_cache(maxsize=64)
def _types(element_types: frozenset[Any]) -> str:
    """Return the kinds of the element types that an operation takes, in words."""
    kinds = {element_type.kind for element_type in element_types}
    return ", ".join(dict.fromkeys(word for kind, word in _KINDS.items() if kind in kinds))
