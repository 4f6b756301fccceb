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
    place = next(islice(source.code.co_positions(), source.instruction // 2, None), None)
    lines = linecache.getlines(source.file)
    if place is None or None in place or not lines:
        return None
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):  # the file has changed, or is no Python
        return None
    names = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    holders: dict[ast.AST, ast.AST] = {}
    found: ast.AST | None = None
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # outer before inner: the innermost at the place is found last
        for child in ast.iter_child_nodes(node):
            holders[child] = node
            nodes.append(child)
        at_line = getattr(node, "lineno", None) == place[0]
        if at_line and tuple([getattr(node, name, None) for name in names]) == place:
            found = node
            if isinstance(node, ast.JoinedStr):  # its parts have its place
                break
    if found is None:
        return None
    parents, each = [], found
    while each in holders:
        each = holders[each]
        parents.append(each)
    return Expression(found, tuple(parents))


def text_of(node: ast.AST) -> str:
    """A node as it is written; shortened where it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
