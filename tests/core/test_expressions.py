"""The user's running expression, read off the source."""

from __future__ import annotations

import ast
import linecache
import sys
from typing import Any

import pytest

from minixla.core.expressions import Expression, running_expression, text_of
from minixla.core.source import Source, find_source


class Asked:
    """Keeps the expression whose evaluation asks it something."""

    def __init__(self) -> None:
        self.found: Any = None

    def look(self) -> None:
        frame = sys._getframe(2)
        self.found = running_expression(Source(frame.f_code, frame.f_lasti))

    def __float__(self) -> float:
        self.look()
        return 1.0

    def __format__(self, format_spec: str) -> str:
        self.look()
        return ""


def expression_of(program: str, file: str = "<expression>") -> Expression | None:
    asked = Asked()
    linecache.cache[file] = (len(program), None, program.splitlines(True), file)
    try:
        exec(compile(program, file, "exec"), {"x": asked})
    finally:
        linecache.cache.pop(file)
    return asked.found


# A program, the expression that calls a method of x, and the kind of node that holds it.
PROGRAMS = [
    ("import math\ny = 1 + math.sin(x)", "math.sin(x)", ast.BinOp),
    ("def f():\n    return [float(x) for _ in range(1)]\nf()", "float(x)", ast.ListComp),
    ("y = {'a': float(x)}", "float(x)", ast.Dict),
    ("y = (lambda z, /, *a, k=1: float(z))(x)", "float(z)", ast.Lambda),
    ("s = 'äöü'; y = float(x)", "float(x)", ast.Assign),
    ("y = float(\n    x\n)", "float(x)", ast.Assign),
    (
        "for i in range(1):\n    try:\n        float(x)\n    finally:\n        pass",
        "float(x)",
        ast.Expr,
    ),
    ("y = f'{float(x)} and'", "float(x)", ast.FormattedValue),
    ("@(lambda z: lambda f: f)(float(x))\ndef f():\n    pass", "float(x)", ast.Call),
]


@pytest.mark.parametrize(("program", "text", "parent"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_the_innermost_expression_is_found(program: str, text: str, parent: type) -> None:
    found = expression_of(program)
    assert found is not None
    assert text_of(found.node) == text
    assert isinstance(found.parents[0], parent)
    assert isinstance(found.parents[-1], ast.Module)


def test_a_formatted_string_is_one_expression() -> None:
    found = expression_of("y = f'one {1} {x:.3f}'")
    assert found is not None and isinstance(found.node, ast.JoinedStr)


def test_unknown_where_there_is_no_source() -> None:
    asked = Asked()
    exec(compile("float(x)", "<nowhere>", "exec"), {"x": asked})
    assert asked.found is None
    assert running_expression(None) is None


def test_unknown_where_the_file_has_changed() -> None:
    here = find_source()
    assert here is not None
    name = "<changed>"
    code = here.code.replace(co_filename=name)
    for text in ("no python (", "x = 1\n"):
        linecache.cache[name] = (len(text), None, [text], name)
        assert running_expression(Source(code, here.instruction)) is None
        linecache.cache.pop(name)


def test_long_texts_are_cut() -> None:
    node = ast.parse(" + ".join(["name"] * 30)).body[0]
    assert len(text_of(node)) == 60
    assert text_of(node).endswith("...")
