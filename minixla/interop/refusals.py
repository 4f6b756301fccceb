"""Errors of import_stablehlo: the place in the program, its text, and what to do."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter

from minixla.engine import text_positions

SUBJECT = "import_stablehlo"
ADVICE = "Pass a StableHLO module as MLIR text, bytecode or a portable artifact."
#: Advice for a text that is not a program.
SYNTAX = (
    "This is not MLIR text, or not all of it: correct this place, or print the program again "
    "(lowered.as_text(), module.operation.get_asm())."
)
_RULE = (
    "The program breaks a rule of the operation: correct its operands, attributes or declared "
    "types; StableHLO's specification lists the rules by operation."
)
_HLO = "This is HLO's text, which mx.import_hlo reads."
DIALECTS = (
    "Programs may use the dialects stablehlo, chlo, sdy, func and mhlo: convert operations of "
    "other dialects to StableHLO first."
)
_NAME = (
    "StableHLO and chlo, as in jaxlib, have no operation of this name: it is mistyped, or newer."
)
_OWN = r"(?:stablehlo|chlo|func)"
#: Advice by the beginnings of messages of MLIR's parser; all others are the verifier's.
_PARSER_SAYS = {
    r'.*!"?quant\b': (
        "Convert the program to floats and integers first, for example with StableHLO's pass "
        "stablehlo-legalize-quant-to-math."
    ),
    r"custom op 'HloModule'": _HLO,
    rf"custom op '{_OWN}\.|unregistered operation '{_OWN}\.": _NAME,
    r"custom op '\w+\.|Dialect `|.*\bunregistered\b": DIALECTS,
    r".*expects different type than prior": (
        "A value has one type: correct its declaration where it is made, or where it is used."
    ),
    r"use of undeclared SSA value|operand #\d+ does not dominate": (
        "Values are defined before their uses, in the same region or around it."
    ),
    r"failed to legalize operation 'mhlo\.": (
        "StableHLO does not have this operation: XLA's passes create it. Pass the program before "
        "those passes, or its HLO text to mx.import_hlo."
    ),
    r".*does not reference a valid function": "Define the function in the module.",
    r"(un)?expected|unterminated|invalid|use of|redefinition|undefined|undeclared|reference to|"
    r"operation location alias|custom op|attempting|elements hex|cannot name": SYNTAX,
}
_QUANTIZED = re.compile(r"""!"?quant"?[.<]"?(\w+<.*?>)(?=["`>,]|$)""")
#: See `minixla.engine.text_positions`.
located = partial(text_positions.located, SUBJECT)
refused_at = partial(text_positions.refused_at, SUBJECT)


def callees_first(
    callees: Mapping[str, Iterable[str]], recursive: Callable[[str], Exception]
) -> list[str]:
    """Return the functions, callees before callers; raise `recursive(name)` for a cycle."""
    try:
        order = [*TopologicalSorter(callees).static_order()]
    except CycleError as error:
        raise recursive(error.args[1][0]) from None
    return [name for name in order if name in callees]


def first_failing(text: str, fails: Callable[[str], bool]) -> tuple[int, bool]:
    """Return the start of the first line up to which a text fails, and if it is the last."""
    lines = text.splitlines(keepends=True)
    count = bisect_left(
        range(len(lines)), True, lo=1, key=lambda count: fails("".join(lines[:count]))
    )
    *before, last = lines[:count]
    return len("".join(before)) + len(last) - len(last.lstrip()), count == len(lines)


def in_words(problem: str) -> str:
    """Return MLIR's complaint, in our words for types that graphs do not have."""
    match = _QUANTIZED.search(problem)
    if match is None:
        return problem
    return f"the quantized type !quant.{match[1]} is not supported: XLA's operations do not take it"


def advice_for(problem: str) -> str:
    """Return advice for a complaint of MLIR, of its parser, verifier or dialects."""
    candidates = (advice for start, advice in _PARSER_SAYS.items() if re.match(start, problem))
    return next(candidates, _RULE)
