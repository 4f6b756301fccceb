"""Reading of HLO text with XLA's parser and translation, in a process that they may kill."""

import re
from typing import Any

from minixla.core.errors import ImportError_, explain
from minixla.engine.readers import Refusal, Sent, sent
from minixla.engine.text_positions import check_characters
from minixla.interop.hlo.operations import STAND_INS
from minixla.interop.hlo.text import ADVICE, SUBJECT, HloText
from minixla.interop.reading import read_module, refusal_of
from minixla.interop.refusals import first_failing

_PLACE = re.compile(r"was parsing (\d+):(\d+): error: (.*)")
_INSTRUCTION = re.compile(r'"i(\d+)[".]')
_ABOUT = re.compile(r"'[\w.]+' op ")
_STATUS = re.compile(r"(?:\w+Error: )?(?:Bad StatusOr access: )?(?:[A-Z_]+: )?")
# The parser's message for a list of operands that it tries to parse in several ways.
_VAGUE = "cannot parse as an instruction name"
_LATE = re.compile(r".*(?:is expected but not seen|expects a list to end|layout constraints)")
_MISSING = "computation does not exist"
#: The parser's messages, our messages, and advice.
_WORDS = {
    r"instruction does not exist: (\S+)": (
        r"value \1 is not defined before it",
        "Operands are defined in the same computation, on a line before.",
    ),
    r"computation does not exist: (\S+)": (
        r"computation \1 does not exist",
        "Define it in the module.",
    ),
    r"expects opcode but sees: (\S+), .*": (
        r"\1 is neither a type nor an opcode",
        "Opcodes are XLA's, such as add, dot, fusion: see python -m minixla ops.",
    ),
    r"expects name": ("a name is expected", ADVICE),
    r"Shape Error: Dimensions overflow. Shape\(\w+\): (\S+?)\.?": (
        r"\1 has more than 2**63 - 1 bytes",
        "Make the dimensions smaller.",
    ),
}
_HEADER = re.compile(r"^([ \t]*(?:ENTRY\s+)?%?[\w.\-]+)[ \t]*\(.*\{[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"\bENTRY\s")
_DEADLY = (
    "No program may do that to XLA: correct it; if it is legal HLO, report it to the OpenXLA "
    "project, and write it in another way until then."
)
_RULE = "The program breaks a rule of the instruction: correct operands, attributes or shapes."


def read(source: HloText) -> tuple[Any, Sent]:
    """Return MLIR's module of a program and its additional data, which the text keeps, too."""
    _check(source)
    try:
        module = _sent(source)
    except Refusal as refusal:
        raise _refused(source, refusal) from None
    source.tables = module.tables
    names = source.tables["computations"]
    if len(names) > 1 and _ENTRY.search(source.text) is None:
        problem = f"none of {len(names)} computations is marked as ENTRY"
        advice = "Mark the computation that runs first: ENTRY %main (...) -> ... {"
        raise source.refused(0, problem, (), advice)
    return read_module(module.module), module


#: Characters that no text contains, but every serialized module.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_SEEN = 4096


def is_serialized(source: bytes) -> bool:
    """Test whether bytes begin like a serialized HloModuleProto or HloProto."""
    return source.startswith(b"\n") and _CONTROLS.search(source, 0, _SEEN) is not None


def opened(source: str | bytes) -> HloText:
    """Return the text of a program; XLA prints that of a serialized module, without constants."""
    if isinstance(source, str):
        return HloText(source)
    if not is_serialized(source):
        try:
            return HloText(source.decode())
        except UnicodeDecodeError as error:
            raise _unreadable(source, str(error)) from None
    try:
        program = sent(source, STAND_INS)
    except Refusal as refusal:
        said = _STATUS.sub("", refusal.problem.strip(), count=1).partition("\n")[0]
        raise _unreadable(source, "XLA's reader dies of them: " * refusal.died + said) from None
    return HloText(program.text, program)


def _unreadable(source: bytes, said: str) -> ImportError_:
    problem = "the bytes are neither HLO text nor a serialized HloModuleProto or HloProto"
    details = [f"{len(source)} bytes that begin with {source[:16]!r}", said[:500]]
    return explain(ImportError_, SUBJECT, problem, details, ADVICE)


def _check(source: HloText) -> None:
    text = source.text
    if not text.lstrip():
        raise source.refused(0, "found the end: a module begins with HloModule name")
    check_characters(text, source.refused)
    source.check_members()


def _sent(source: HloText) -> Sent:
    """Return the reader's result; computations may be in any order."""
    if source.program is not None:
        return source.program
    try:
        return sent(source.text, STAND_INS)
    except Refusal as refusal:
        if _MISSING not in refusal.problem:
            raise
    text, lines = source.callees_first()

    def as_given(place: re.Match[str]) -> str:
        line = lines[min(int(place[1]), len(lines)) - 1]
        return f"was parsing {line}:{place[2]}: error: {place[3]}"

    try:
        return sent(text, STAND_INS)
    except Refusal as refusal:
        refusal.problem = _PLACE.sub(as_given, refusal.problem)
        raise


def _refused(source: HloText, refusal: Refusal) -> ImportError_:
    advice, text = ADVICE, source.text
    place = next((x for x in _PLACE.finditer(refusal.problem) if _VAGUE not in x[3]), None)
    if place is not None:
        position, problem = source.position(int(place[1]), int(place[2])), place[3].rstrip(" .:")
        if _LATE.match(problem):  # the parser has read further
            position = text.rfind("\n", 0, len(text[:position].rstrip())) + 1
    else:
        problem = _STATUS.sub("", refusal.problem.strip(), count=1).partition("\n")[0]
        match = _INSTRUCTION.search(refusal.place)
        if match is not None and refusal.tables:
            source.tables = refusal.tables
            return source.refused_at(int(match[1]), _ABOUT.sub("", problem), (), _RULE)
        position = 0 if refusal.is_slow else _first(source, refusal)
    if refusal.died:
        problem, advice = f"XLA's parser crashes on this: {refusal.problem}", _DEADLY
    for pattern, (words, what_to_do) in _WORDS.items():
        match = re.fullmatch(pattern, problem)
        if match is not None:
            problem, advice = match.expand(words), what_to_do
    if not refusal.died and not text[position:].strip():
        problem, advice = f"found the end: {problem}", ADVICE
    opcode = source.opcode(position)
    return source.refused(position, f"{opcode}: {problem}" if opcode else problem, (), advice)


def _first(source: HloText, refusal: Refusal) -> int:
    """Return the first line without which XLA's error changes, or XLA does not crash.

    Computations are cut off after a line, and closed.
    """

    def fails(text: str) -> bool:
        part = _HEADER.sub(r"\1 {", text)
        refusals = filter(None, (refusal_of(text, STAND_INS) for text in (part, f"{part}\n}}")))
        if refusal.died:
            return any(found_refusal.died for found_refusal in refusals)
        return any(found_refusal.problem == refusal.problem for found_refusal in refusals)

    return first_failing(source.text, fails)[0]
