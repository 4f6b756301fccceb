"""The tests themselves: no pattern that any message matches, no assertion that cannot fail."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))

#: What no test expects.
UNRELATED = ("", "quite another message: 0")
LAZY = ("map", "zip", "filter", "reversed", "enumerate", "iter")


def has_bare_alternatives(pattern):
    """Whether a `|` stands outside of all groups: `a|b: c` is `a` or `b: c`."""
    # What is escaped, then classes, then groups from the innermost.
    rest = re.sub(r"\\.", "", pattern, flags=re.DOTALL)
    rest = re.sub(r"\[\^?\]?[^\]]*\]", "", rest)
    while (shorter := re.sub(r"\([^()]*\)", "", rest)) != rest:
        rest = shorter
    return "|" in rest


def matches_anything(pattern):
    return any(re.search(pattern, text) for text in UNRELATED)


def text_of(node):
    """The text of a literal, with letters in the place of what f-strings insert; or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join([text_of(part) or "inserted" for part in node.values])
    return None


def is_lazy(node):
    """Whether it is an iterator or a function: true, and equal to nothing but itself."""
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") in LAZY
    return is_call or isinstance(node, (ast.GeneratorExp, ast.Lambda))


def is_always_true(node):
    """Whether an expression is true whatever the program does."""
    if isinstance(node, ast.BoolOp):
        combine = any if isinstance(node.op, ast.Or) else all
        return combine(map(is_always_true, node.values))
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
        return text_of(node.left) == ""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts)
    if isinstance(node, ast.Constant):
        return bool(node.value)
    return is_lazy(node) or isinstance(node, ast.JoinedStr)


def compares_what_is_lazy(node):
    is_equality = isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq))
    return is_equality and any(map(is_lazy, [node.left, *node.comparators]))


def is_empty(node):
    return isinstance(node, (ast.List, ast.Tuple, ast.Set)) and not node.elts


def faults_of_call(node):
    for keyword in node.keywords:
        pattern = text_of(keyword.value) if keyword.arg == "match" else None
        if pattern is not None and has_bare_alternatives(pattern):
            yield f"alternatives without a group: {pattern!r}"
        if pattern is not None and matches_anything(pattern):
            yield f"a pattern that any message matches: {pattern!r}"


def faults_of_assertion(node):
    if is_always_true(node.test):
        yield f"always true: {ast.unparse(node.test)}"
    if any(map(compares_what_is_lazy, ast.walk(node.test))):
        yield f"compares an iterator: {ast.unparse(node.test)}"
    if isinstance(node.msg, ast.Constant) and not isinstance(node.msg.value, str):
        yield f"a message that is no text: {ast.unparse(node)}"


def faults_in(source):
    """What is wrong in the source of a test, with its lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found = faults_of_call(node)
        elif isinstance(node, ast.Assert):
            found = faults_of_assertion(node)
        elif isinstance(node, ast.For) and is_empty(node.iter):
            found = ["a loop over nothing"]
        else:
            continue
        yield from (f"line {node.lineno}: {fault}" for fault in found)


def test_every_assertion_can_fail():
    found = [
        f"{path.relative_to(TESTS)}, {fault}"
        for path in FILES
        for fault in faults_in(path.read_text())
    ]
    assert len(FILES) > 100 and not found, "\n".join(found)


REFUSED = {
    'pytest.raises(TypeError, match="maximum|max: too long")': "alternatives without a group",
    'pytest.raises(TypeError, match=rf"{x}: a|b")': "alternatives without a group",
    'pytest.raises(TypeError, match="(x|y)|[z|]")': "alternatives without a group",
    'pytest.raises(TypeError, match="")': "any message matches",
    'pytest.raises(TypeError, match=".*")': "any message matches",
    'pytest.raises(TypeError, match="(name|)")': "any message matches",
    "assert (x, y)": "always true",
    "assert x == 1 or True": "always true",
    "assert (x for x in y)": "always true",
    'assert "" in text': "always true",
    "assert lambda: x == 1": "always true",
    "assert y != (x for x in z)": "compares an iterator",
    "assert x and map(f, y) == [1]": "compares an iterator",
    "assert x, 3": "no text",
    "for x in []: assert x": "loop over nothing",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_fail_is_refused(source):
    (fault,) = faults_in(source)
    assert REFUSED[source] in fault


FINE = [
    'pytest.raises(TypeError, match=r"^(maximum|max): [a|b] \\| too long")',
    'pytest.raises(TypeError, match=f"{x}: (a|(b|c))")',
    "assert x or y, [x, y]",
    "assert (x or '') in text",
    "assert list(map(f, y)) == [1]",
    "assert x in (y for y in z)",
    "for x in [1]: assert x",
]


@pytest.mark.parametrize("source", FINE)
def test_what_may_fail_is_not(source):
    assert list(faults_in(source)) == []
