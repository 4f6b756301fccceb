"""HLO text: the positions of computations and instructions, and errors that show them."""

import itertools
import re
from bisect import bisect_right
from functools import cache, cached_property
from typing import Any

from minixla.core.errors import ImportError_
from minixla.core.operation import Names
from minixla.engine.readers import Sent
from minixla.engine.text_positions import refused_at
from minixla.interop.refusals import callees_first

SUBJECT = "import_hlo"
ADVICE = (
    "Pass HLO text as XLA prints it (compiled.as_text(), lowered.as_text('hlo'), --xla_dump_to), "
    "whole and unchanged, or a serialized HloModuleProto or HloProto as bytes."
)
_NAME = r"(?<![\w.\-])%?([\w.\-]++)"
# Strings and comments are skipped. A name before a blank and = is an instruction's.
_MARK = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|/\*.*?(?:\*/|\Z)|//[^\n]*'
    rf"|^[ \t]*+(?:ENTRY\s++)?{_NAME}[ \t]*+[({{]|(?<=\}})[ \t]*+(?:ENTRY[ \t]++)?{_NAME}[ \t]*+\{{"
    rf"|(?:ROOT[ \t]++)?{_NAME}[ \t]++=\s",
    re.ASCII | re.DOTALL | re.MULTILINE,
)
_OPCODE = re.compile(r"\s([a-z][\w\-]*)\(", re.ASCII)
_OPERAND = re.compile(r"(?<![\w.\-])([\w.\-]++)\s*+\),", re.ASCII)
_INDEX = re.compile(r"\bindex=0*(\d{1,19})\b", re.ASCII)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_CALLEE = re.compile(
    r"\b(?:body|branch_computations|called_computations|calls|condition|false_computation|scatter"
    r"|select|to_apply|true_computation)=\s*(\{[^{}]*\}|%?[\w.\-]+)"
)
# The maximum distance of an opcode from the beginning of its instruction.
_LONGEST = 1 << 16


def _callees_in(text: str) -> list[str]:
    return re.findall(r"[\w.\-]+", " ".join(_CALLEE.findall(text)))


class HloText:
    """The text of a program."""

    def __init__(self, text: str, program: Sent | None = None) -> None:
        self.text = text
        #: The program, if this is the text of a serialized module.
        self.program = program
        #: Additional data of the program after reading; see `hlo_protos.translated`.
        self.tables: dict[str, Any] = {}

    @cached_property
    def computations(self) -> dict[str, tuple[int, list[tuple[int, str]]]]:
        """For each computation its position, and the positions and names of its instructions."""
        found: dict[str, tuple[int, list[tuple[int, str]]]] = {}
        lines: list[tuple[int, str]] = []
        for match in _MARK.finditer(self.text):
            head, name = match[1] or match[2], match[3]
            if head is not None:
                lines = []
                found.setdefault(head, (match.start(), lines))
            elif name is not None:
                lines.append((match.start(), name))
        return found

    @cached_property
    def _lines(self) -> list[int]:
        """The positions of lines."""
        return [0, *[match.end() for match in re.finditer("\n", self.text)]]

    def line(self, position: int) -> int:
        """Return the number, from 1, of the line at a position."""
        return bisect_right(self._lines, position)

    def position(self, line: int, column: int) -> int:
        """Return the position of a line and a column, or the end of a shorter text."""
        start = self._lines[line - 1] if line <= len(self._lines) else len(self.text)
        return min(start + max(column - 1, 0), len(self.text))

    @cached_property
    def _positions(self) -> list[int]:
        """The positions of the instructions that are numbered in the tables."""
        owners, names = self.tables["owners"], self.tables["names"]
        positions: list[int] = []
        for index, computation in enumerate(self.tables["computations"]):
            start, lines = self.computations.get(computation, (0, []))
            names_here = names[len(positions) : bisect_right(owners, index)]
            if len(lines) != len(names_here) or self.program is not None:
                # Some are written as operands of others; XLA numbers repeated names.
                places = {name: at for at, name in reversed(lines)}
                lines = [
                    (places.get(x) or places.get(x.rpartition(".")[0], start), x)
                    for x in names_here
                ]
            positions += [at for at, _ in lines]
        return positions

    def position_of(self, index: int) -> int:
        """Return the position of an instruction."""
        return self._positions[index] if 0 <= index < len(self._positions) else 0

    def callees(self, index: int) -> list[str]:
        """Return the computations of the module that the text of an instruction names."""
        position = self.position_of(index)
        marks = (match.start() for match in _MARK.finditer(self.text, position) if match[3])
        next(marks, None)  # its own
        names = _callees_in(self.text[position : next(marks, None)].partition("\n}")[0])
        return [name for name in names if name in self.computations]

    def opcode(self, position: int) -> str:
        """Return the opcode of the instruction at a position; "" outside of instructions."""
        marks = [
            mark for head, lines in self.computations.values() for mark in ((head, ""), *lines)
        ]
        start, name = max([mark for mark in marks if mark[0] <= position], default=(0, ""))
        match = _OPCODE.search(self.text, start, start + _LONGEST)
        is_inside = match and name and "\n}" not in self.text[start:position]
        return match[1] if match and is_inside else ""

    def check_members(self) -> None:
        """Reject indices beyond a tuple, for which XLA's parser reads other memory."""
        if "get-tuple-element(" not in self.text:
            return
        for head, lines in self.computations.values():
            ends = [*[at for at, _ in lines[1:]], self._after(head)]
            spans = {name: (at, end) for (at, name), end in zip(lines, ends, strict=False)}
            members = cache(self._members)
            for at, end in zip([at for at, _ in lines], ends, strict=False):
                opcode = _OPCODE.search(self.text, at, min(at + _LONGEST, end))
                if opcode is None or opcode[1] != "get-tuple-element":
                    continue
                operand = _OPERAND.search(self.text, opcode.end(), end)
                index = operand and _INDEX.search(self.text, operand.end(), end)
                if operand and index and operand[1] in spans:
                    count = members(*spans[operand[1]])
                    if count is not None and int(index[1]) >= count:
                        problem = f"get-tuple-element: index {index[1]} in a tuple of {count}"
                        raise self.refused(at, problem, (), "Indices of members begin at 0.")

    def _after(self, head: int) -> int:
        """Return the end of the computation that begins at a position."""
        at = bisect_right(self._heads, head)
        return self._heads[at] if at < len(self._heads) else len(self.text)

    @cached_property
    def _heads(self) -> list[int]:
        """The positions at which computations begin."""
        return sorted([head for head, _ in self.computations.values()])

    def _members(self, position: int, end: int) -> int | None:
        """Return the length of an instruction's tuple; None if the result is not a tuple."""
        start = self.text.index("=", position) + 1
        shape = _COMMENT.sub("", self.text[start:end]).lstrip()
        depth = commas = 0
        for at, mark in enumerate(shape):
            depth += (mark in "([{") - (mark in ")]}")
            commas += mark == "," and depth == 1
            if depth == 0:
                return commas + bool(shape[1:at].strip()) if at else None
        return None

    def refused(
        self, position: int, problem: str, details: Names = (), advice: str = ADVICE
    ) -> ImportError_:
        """Return the error for a position in the text."""
        return refused_at(SUBJECT, self.text, position, problem, advice, details)

    def refused_at(self, index: int, problem: str, details: Names, advice: str) -> ImportError_:
        """Return the error for an instruction."""
        title = self.tables["opcodes"][index] if index >= 0 else "program"
        problem = f"{title}: {problem.rstrip('.')}"
        return self.refused(self.position_of(index), problem, details, advice)

    def callees_first(self) -> tuple[str, list[int]]:
        """Return the text with computations before their callers, and each line's old number."""
        starts = [at for at, _ in self.computations.values()]
        spans = itertools.pairwise([*starts, len(self.text)])
        parts = [self.text[start:end] for start, end in spans]
        bodies = dict(zip(self.computations, parts, strict=True))

        def recursive(name: str) -> ImportError_:
            advice = "XLA's programs do not recurse: use while."
            place = self.computations[name][0]
            return self.refused(place, f"computation {name} calls itself", (), advice)

        callees = {name: _callees_in(body) for name, body in bodies.items()}
        order = callees_first(callees, recursive)
        parts = [self.text[: starts[0] if starts else None]]
        lines = list(range(1, parts[0].count("\n") + 1))
        for name in order:
            body = bodies[name] if bodies[name].endswith("\n") else f"{bodies[name]}\n"
            first = self.line(self.computations[name][0])
            lines += range(first, first + body.count("\n"))
            parts.append(body)
        return "".join(parts), lines
