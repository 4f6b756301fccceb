"""Find regular expressions that may take more than linear time."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # private, no stubs
from re import _parser as parser  # type: ignore[attr-defined]  # private, no stubs
from typing import Any

ROOT = Path(__file__).parents[1]
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_FUNCTIONS = {
    "compile",
    "match",
    "search",
    "fullmatch",
    "findall",
    "finditer",
    "split",
    "sub",
    "subn",
}
_LIBRARY = os.path.dirname(re.__file__)
# Helper processes, and files that are not Python modules.
_SCRIPTS = ("__main__", "_process", ".process", ".worker", ".library")
_PROBES = [chr(code) for code in range(128)] + ["é", "\u2028", "٣"]


def is_unbounded(item: Any) -> bool:
    """Whether an item of a parsed pattern repeats without a limit."""
    return item[0] in _REPEATS and item[1][1] == codes.MAXREPEAT


def parts(item: Any) -> list[Any]:
    """Return the patterns directly within an item."""
    kind, value = item
    if kind in _REPEATS:
        return [value[2]]
    if kind is codes.SUBPATTERN:
        return [value[3]]
    if kind is codes.BRANCH:
        return list(value[1])
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return [value] if kind is codes.ATOMIC_GROUP else []


def has_unbounded(pattern: Any) -> bool:
    """Whether a repeat without a limit stands in a pattern, at any depth."""
    return any(is_unbounded(each) or any(map(has_unbounded, parts(each))) for each in pattern)


def nested(pattern: Any) -> bool:
    """Whether a repeat without a limit stands in another."""
    for item in pattern:
        inside = parts(item)
        if is_unbounded(item) and any(map(has_unbounded, inside)):
            return True
        if any(map(nested, inside)):
            return True
    return False


def _accepts(item: Any, flags: int) -> set[str]:
    """Return the probed characters with which an item may begin."""
    kind, value = item
    if kind in _REPEATS:
        return _begins(value[2], flags)
    if kind is codes.SUBPATTERN:
        return _begins(value[3], flags)
    if kind is codes.BRANCH:
        return set().union(*(_begins(each, flags) for each in value[1]))
    if kind is codes.ATOMIC_GROUP:
        return _begins(value, flags)
    if kind in (codes.ASSERT, codes.ASSERT_NOT, codes.AT):
        return set()
    if kind is codes.GROUPREF:
        return set(_PROBES)
    state = parser.State()
    state.str, state.flags = "", flags
    single = parser.SubPattern(state, [item])
    compiled = re._compiler.compile(single, flags)  # type: ignore[attr-defined]  # private
    return {each for each in _PROBES if compiled.match(each)}


def _begins(pattern: Any, flags: int) -> set[str]:
    found: set[str] = set()
    for item in pattern:
        found |= _accepts(item, flags)
        if _least(item):
            break
    return found


def _least(item: Any) -> int:
    """Return the minimal length of a match of an item."""
    state = parser.State()
    return parser.SubPattern(state, [item]).getwidth()[0]


def _ends(item: Any) -> list[Any]:
    """Return the unlimited repeats with which an item may end."""
    if is_unbounded(item):
        return [item]
    return [end for each in parts(item) for end in _last(each)]


def _last(pattern: Any) -> list[Any]:
    found: list[Any] = []
    for item in reversed(pattern):
        found += _ends(item)
        if _least(item):
            break
    return found


def _first(pattern: Any) -> list[Any]:
    found: list[Any] = []
    for item in pattern:
        found += [item] if is_unbounded(item) else [x for each in parts(item) for x in _first(each)]
        if _least(item):
            break
    return found


def adjacent(pattern: Any, flags: int) -> bool:
    """Whether two repeats without a limit that take the same characters may follow each other."""
    items = list(pattern)
    for at, item in enumerate(items):
        if any(adjacent(each, flags) for each in parts(item)):
            return True
        before = [each for each in _ends(item) if each[0] is not codes.POSSESSIVE_REPEAT]
        after = _first(items[at + 1 :])
        for one in before:
            for other in after:
                if _accepts(one, flags) & _accepts(other, flags):
                    return True
    return False


def fault_of(pattern: str | bytes, flags: int = 0) -> str:
    """Describe the fault of a pattern; empty if it takes linear time from each position."""
    parsed = parser.parse(pattern, flags)
    flags = parsed.state.flags
    if nested(parsed):
        return "a repeat without a limit stands in another"
    if adjacent(parsed, flags):
        return "two repeats without a limit may take the same characters, one after the other"
    return ""


def literal_patterns() -> Iterator[tuple[str, Any]]:
    """Return the calls of `re`'s functions and their patterns; None if not a literal."""
    for folder in ("minixla", "minixla_ops"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                module, name = node.func.value, node.func.attr
                if isinstance(module, ast.Name) and module.id == "re" and name in _FUNCTIONS:
                    first = node.args[0]
                    pattern = first.value if isinstance(first, ast.Constant) else None
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", pattern


def compiled_patterns() -> Iterator[tuple[str, str | bytes, int]]:
    """Return where our modules compile patterns on import, the patterns, and their flags."""
    found: dict[tuple[str | bytes, int], str] = {}
    compile_pattern = re._compiler.compile  # type: ignore[attr-defined]  # private

    def compiled(pattern: Any, flags: int = 0) -> Any:
        frame: Any = sys._getframe(1)
        while frame is not None and os.path.dirname(frame.f_code.co_filename) == _LIBRARY:
            frame = frame.f_back
        file = frame.f_code.co_filename if frame is not None else ""
        if file.startswith((f"{ROOT}/minixla/", f"{ROOT}/minixla_ops/")):
            found[pattern, flags] = f"{os.path.relpath(file, ROOT)}:{frame.f_lineno}"
        return compile_pattern(pattern, flags)

    re.purge()
    re._compiler.compile = compiled  # type: ignore[attr-defined]  # private
    for package in map(importlib.import_module, ("minixla", "minixla_ops")):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not each.name.endswith(_SCRIPTS):
                importlib.import_module(each.name)
    for (pattern, flags), place in found.items():
        yield place, pattern, flags


if __name__ == "__main__":
    patterns = [*compiled_patterns()]
    print(len(patterns))
    for place, pattern, flags in patterns:
        fault = fault_of(pattern, flags)
        if fault:
            print(f"{place}: {pattern!r}: {fault}")
