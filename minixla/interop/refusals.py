"""Errors of import_stablehlo: the place in the program, what stands there, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from minixla.core.errors import ImportError_, explain

__all__ = ["ADVICE", "SUBJECT", "advice_for", "located", "refused_at"]

SUBJECT = "import_stablehlo"
ADVICE = "Give a StableHLO module as MLIR text, bytecode or a portable artifact."
_SYNTAX = (
    "This is not MLIR's text, or not the whole of it: correct what stands there, or print the "
    "program again (lowered.as_text(), module.operation.get_asm())."
)
_RULE = (
    "The program breaks a rule of the operation: correct its operands, attributes or declared "
    "types; StableHLO's specification lists the rules by operation."
)
_DIALECT = (
    "Programs may use the dialects stablehlo, chlo and func: programs of other dialects must be "
    "converted to StableHLO first."
)
_NAME = "StableHLO, as jaxlib has it, has nothing of this name: look for a mistyped or newer one."
_OTHER_DIALECT = re.compile(
    r"unregistered|Dialect `|dialect .*not (found|loaded)|is unknown \(tried"
)
_OWN_NAME = re.compile(r"'?(stablehlo|chlo|func)\.")
_PARSER_SAYS = re.compile(
    r"(un)?expected|unterminated|invalid|use of|redefinition|undefined|undeclared|reference to|"
    r"operation location alias|custom op|attempting|elements hex|cannot name"
)
_LOCATION = re.compile(r'"([^"]*)":(\d+):(\d+)')
_SHOWN = 100
_LONGEST_OPERATION = 1 << 16
_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[][(){}<>:\n]')


def advice_for(problem: str) -> str:
    """What to do about a complaint of MLIR's: it differs for parser, verifier and dialects."""
    if _OTHER_DIALECT.search(problem):
        return _NAME if _OWN_NAME.search(problem) else _DIALECT
    return _SYNTAX if _PARSER_SAYS.match(problem) else _RULE


def refused_at(text: str, position: int, found: str, advice: str = _SYNTAX) -> ImportError_:
    """The error for a place in a text."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    shown = _shown(text, line, column)
    return explain(ImportError_, SUBJECT, f"line {line}, column {column}: {found}", shown, advice)


def located(
    location: Any,
    problem: str,
    given: Iterable[str],
    advice: str,
    source: str | None = None,
) -> ImportError_:
    """An error that names the place in the program.

    Args:
        location: MLIR's, or its text.
        problem: what is wrong.
        given: what was given, line by line.
        advice: what to do.
        source: the text, of which the line and the operation's types are shown.
    """
    where, shown = "", []
    match = _LOCATION.search(str(location))
    if match is not None:
        file = "" if match[1] == "-" else f"{match[1]}, "
        where = f"{file}line {match[2]}, column {match[3]}: "
        if source is not None and not file:
            shown = _shown(source, int(match[2]), int(match[3]))
    problem = f"{where}{problem.strip()[:500].rstrip('.')}"
    return explain(ImportError_, SUBJECT, problem, [*shown, *given], advice)


def _shown(text: str, line: int, column: int) -> list[str]:
    """The line of the text, cut to what a terminal shows, and the types if they stand beyond it."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return []
    end = text.find("\n", start)
    whole = text[start : len(text) if end < 0 else end].rstrip()
    left = max(0, column - _SHOWN * 3 // 5)
    part = whole[left : left + _SHOWN].strip()
    types = _types(text, start + column - 1)
    beyond = [f"types {types[: 2 * _SHOWN]}"] if types and types not in part else []
    return [*([part] if part else []), *beyond]


def _types(text: str, start: int) -> str:
    """The types of the operation that begins at a position; nothing where there are none."""
    depth, colon = 0, -1
    for match in _MARK.finditer(text, start, start + _LONGEST_OPERATION):
        found = match[0]
        if found in "([{<":
            depth += 1
        elif found in ")]}>":
            depth -= 1
            if depth < 0:
                return ""
        elif found == ":" and not depth:
            colon = match.end()
        elif found == "\n" and not depth and colon >= 0 and text[colon : match.start()].strip():
            return _in_one_line(text[colon : match.start()])
    return ""


def _in_one_line(types: str) -> str:
    return " ".join(types.partition(" loc(")[0].split())
