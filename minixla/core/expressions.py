"""The expression of the user's that is running, read off the source: for advice in errors."""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from typing import NamedTuple

from minixla.core.source import Source

# Longer texts are no help in a message.
_LONGEST = 60


class Expression(NamedTuple):
    """A part of the user's program; the nodes that hold it, the innermost first."""

    node: ast.AST
    parents: tuple[ast.AST, ...]


def running_expression(source: Source | None) -> Expression | None:
    """The expression that the instruction of a source evaluates; None where nobody knows."""
    if source is None:
        return None
    found = next(islice(source.code.co_positions(), source.instruction // 2, None), None)
    lines = linecache.getlines(source.file)
    if found is None or None in found or not lines:
        return None
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):  # the file has changed, or is no Python
        return None
    return _at(tree, found)


def _at(tree: ast.AST, position: tuple[int | None, ...]) -> Expression | None:
    """The innermost expression of a position: first line, last line, first column, last column."""
    first, last, start, stop = position
    parents: list[ast.AST] = []
    found = None
    node: ast.AST | None = tree
    while node is not None:
        place = _place(node)
        if place == (first, start, last, stop):
            found = Expression(node, tuple(reversed(parents)))
            if isinstance(node, ast.JoinedStr):
                break
        parents.append(node)
        node = next(
            (each for each in ast.iter_child_nodes(node) if _holds(each, first, start, last, stop)),
            None,
        )
    return found


def _place(node: ast.AST) -> tuple[int | None, ...]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple([getattr(node, name, None) for name in names])


def _holds(node: ast.AST, *place: int | None) -> bool:
    """Whether a node spans a place; those without one (arguments' lists, loops of `for`) may."""
    own = _place(node)
    if None in own:
        return any(_holds(each, *place) for each in ast.iter_child_nodes(node))
    return own[:2] <= place[:2] and place[2:] <= own[2:]  # type: ignore[operator]  # no None


def text_of(node: ast.AST) -> str:
    """A node as it is written; shortened where it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
