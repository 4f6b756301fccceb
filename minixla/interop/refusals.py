"""Errors of import_stablehlo: the place in the program, what stands there, and what to do."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from minixla.core.errors import ImportError_, explain
from minixla.core.operation import Names

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
_HLO = "This is HLO's text, which mx.import_hlo reads."
DIALECTS = (
    "Programs may use the dialects stablehlo, chlo and func: programs of other dialects must be "
    "converted to StableHLO first."
)
_NAME = (
    "StableHLO and chlo, as jaxlib has them, have nothing of this name: it is mistyped, or newer."
)
_OWN = r"(?:stablehlo|chlo|func)"
#: What to do, by the beginnings of what MLIR's parser says; its verifier says all else.
_PARSER_SAYS = {
    r"custom op 'HloModule'": _HLO,
    rf"custom op '{_OWN}\.|unregistered operation '{_OWN}\.": _NAME,
    r"custom op '\w+\.|Dialect `|.*\bunregistered\b": DIALECTS,
    r".*expects different type than prior": (
        "A value has one type: correct what is declared where it is made, or where it is used."
    ),
    r"use of undeclared SSA value|operand #\d+ does not dominate": (
        "Values are defined in front of their uses, in the same region or around it."
    ),
    r".*does not reference a valid function": "Define the function in the module.",
    r"(un)?expected|unterminated|invalid|use of|redefinition|undefined|undeclared|reference to|"
    r"operation location alias|custom op|attempting|elements hex|cannot name": _SYNTAX,
}
_LOCATION = re.compile(r'"([^"]*)":(\d+):(\d+)')
_SHOWN = 100
_LONGEST_OPERATION = 1 << 16
# What the line begins with that follows an operation.
_NEXT = re.compile(r'\s*(?:[%}^#!"@]|//|\w+\.\w|(?:return|call|module)\b|\Z)')
_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|->|[][(){}<>:\n]')


def callees_first(
    callees: Mapping[str, Iterable[str]], recursive: Callable[[str], Exception]
) -> list[str]:
    """The functions, each after those that it calls; raises `recursive(name)` for a circle."""
    try:
        order = [*TopologicalSorter(callees).static_order()]
    except CycleError as error:
        raise recursive(error.args[1][0]) from None
    return [name for name in order if name in callees]


def first_failing(text: str, fails: Callable[[str], bool]) -> tuple[int, bool]:
    """Where the first line stands up to which a text fails, and whether it is the whole text."""
    lines = text.splitlines(keepends=True)
    count = bisect_left(
        range(len(lines)), True, lo=1, key=lambda count: fails("".join(lines[:count]))
    )
    *before, last = lines[:count]
    return len("".join(before)) + len(last) - len(last.lstrip()), count == len(lines)


def check_characters(text: str, refused: Callable[[int, str], ImportError_]) -> None:
    """Raises what `refused` makes of the first character that no program has."""
    if "\0" in text:
        raise refused(text.index("\0"), "a null character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(error.start, "half of a surrogate pair") from None


def advice_for(problem: str) -> str:
    """What to do about a complaint of MLIR's: it differs for parser, verifier and dialects."""
    found = (advice for start, advice in _PARSER_SAYS.items() if re.match(start, problem))
    return next(found, _RULE)


def refused_at(
    text: str, at: int, problem: str, advice: str = _SYNTAX, given: Names = (), subject: str = ""
) -> ImportError_:
    """The error for a place in a text."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f'"-":{line}:{column}'
    return located(place, problem, given, advice, text, subject)


def located(
    location: Any, problem: str, given: Names, advice: str, source: str = "", subject: str = ""
) -> ImportError_:
    """An error that names a place of MLIR's; of `source` it shows the line and the types."""
    where, shown = "", []
    match = _LOCATION.search(str(location))
    if match is not None:
        file = "" if match[1] == "-" else f"{match[1]}, "
        where = f"{file}line {match[2]}, column {match[3]}: "
        if source and not file:
            shown = _shown(source, int(match[2]), int(match[3]))
    problem = f"{where}{problem.strip()[:500].rstrip('.')}"
    return explain(ImportError_, subject or SUBJECT, problem, [*shown, *given], advice)


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
    shown = [each for each in (part, *beyond) if each]
    # As every terminal takes them.
    return [x.encode(errors="backslashreplace").decode().replace("\0", "\\0") for x in shown]


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
        elif found == "\n" and not depth and _NEXT.match(text, match.end()):
            types = text[colon : match.start()] if colon >= 0 else ""
            return " ".join(types.partition(" loc(")[0].split())
    return ""
