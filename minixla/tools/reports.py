"""Reports as text, and as HTML in notebooks: tables, and what a cross-check found."""

import math
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from minixla.core.graph import Graph, Instruction
from minixla.tools.graph_parts import node_name

_NUMERIC = set("0123456789.+-e,")


def plain(value: Any) -> Any:
    """The value as JSON holds it: infinities and NaN as strings, complex numbers as pairs."""
    if hasattr(value, "_asdict"):  # a NamedTuple
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_odd else value


def shown_number(value: float | None) -> str:
    """Three digits; whole numbers as they are; nothing for None."""
    if value is None:
        return ""
    if abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


class Table(NamedTuple):
    """Rows of cells below their header; marked ones, by number, stand out in HTML."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Collection[int] = ()

    def text(self, width: int | None = None) -> str:
        """Columns one beside the other; those of numbers to the right, empty ones left out.

        Args:
            width: of the lines. Words of wide columns go to more lines, and the last columns below
                the others, beside the first one; default: as wide as they are.
        """
        columns = [each for each in zip(self.header, *self.rows, strict=True) if any(each[1:])]
        widths = [max(map(len, each)) for each in columns]
        blocks = [range(len(columns))]
        if width is not None:
            least = [_least_width(each) for each in columns]
            blocks = _blocks(least, width)
            for block in blocks:
                _narrow(widths, least, block, width)
        return "\n\n".join(
            [
                "\n".join(_lines([columns[n] for n in block], [widths[n] for n in block]))
                for block in blocks
            ]
        )

    def html(self) -> str:
        """The table in HTML."""
        text = ""
        for number, row in enumerate([self.header, *self.rows], -1):
            style = ' style="font-weight:bold;color:#b00020"' if number in self.marked else ""
            kind = "th" if number < 0 else "td"
            cells = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)
            text += f"<tr{style}>{cells}</tr>"
        return f"<table>{text}</table>"


# Columns of text are not made narrower than this, but for words that are shorter.
_LEAST = 12
_GAP = 2


def _is_numeric(column: Sequence[str]) -> bool:
    return all(set(cell) <= _NUMERIC or cell in ("inf", "nan") for cell in column[1:])


def _least_width(column: Sequence[str]) -> int:
    """How narrow a column can be: numbers and short words are not broken."""
    if _is_numeric(column):
        return max(map(len, column))
    words = [word for cell in column for word in cell.split()]
    return max([min(len(word), _LEAST) for word in words] + [len(column[0])])


def _blocks(least: Sequence[int], width: int) -> list[Sequence[int]]:
    """The columns, by number, that stand beside each other; the first begins all blocks."""
    blocks: list[list[int]] = [[]]
    for number, size in enumerate(least):
        taken = sum([least[each] + _GAP for each in blocks[-1]])
        if len(blocks[-1]) > (len(blocks) > 1) and taken + size > width:
            blocks.append([0])
        blocks[-1].append(number)
    return [*blocks]


def _narrow(widths: list[int], least: Sequence[int], block: Sequence[int], width: int) -> None:
    """Takes from the widest columns until those of a block fit."""
    excess = sum([widths[each] + _GAP for each in block]) - _GAP - width
    while excess > 0:
        able = [each for each in block if widths[each] > least[each]]
        if not able:
            return
        widths[max(able, key=widths.__getitem__)] -= 1
        excess -= 1


def _lines(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The lines of a table, cells broken where they are wider than their column."""
    aligned = [str.rjust if _is_numeric(each) else str.ljust for each in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        parts = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in zip_longest(*parts, fillvalue=""):
            placed = zip(aligned, line, widths, strict=True)
            lines.append((" " * _GAP).join([align(text, n) for align, text, n in placed]).rstrip())
    return lines


def _broken(cell: str, width: int) -> list[str]:
    """A cell in lines; what stands before its first word, its depth, begins all of them."""
    if len(cell) <= width:
        return [cell]
    indent = cell[: len(cell) - len(cell.lstrip())][: width // 2]
    return textwrap.wrap(cell.strip(), width, initial_indent=indent, subsequent_indent=indent)


def terminal_width() -> int | None:
    """How wide printed tables may be; None where standard output is no terminal."""
    is_terminal = getattr(sys.stdout, "isatty", lambda: False)()
    return shutil.get_terminal_size().columns if is_terminal else None


class Report(ABC):
    """What is shown as text or HTML: a title, tables, and notes below them."""

    @abstractmethod
    def _shown(self) -> tuple[str, list[Table], list[str]]: ...

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        more = {name: getattr(self, name) for name in ("ok", "verdict") if hasattr(self, name)}
        return plain(vars(self) | more)

    def __str__(self) -> str:
        title, tables, notes = self._shown()
        width = terminal_width()
        return "\n".join([title, "\n\n".join([table.text(width) for table in tables]), *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, tables, notes = self._shown()
        below = [f"<pre>{escape(note)}</pre>" for note in notes]
        parts = "".join([*[table.html() for table in tables], *below])
        return f"<div><b>{escape(title)}</b>{parts}</div>"


#: The kinds of programs of a check: a function, and its derivatives along directions.
KINDS = {"result": "function", "jvp": "forward derivative", "vjp": "reverse derivative"}


class Row(NamedTuple):
    """One evaluator's opinion of one value."""

    value: str  # what it is: `result['loss']`, `gradient of args[0]['w']`
    shape: str
    evaluator: str  # whose opinion; "all" where nobody has one
    #: The largest error of an element, in units of the last place of its declared type, against the
    #: program in double; for integers and booleans the largest difference.
    ulp: float | None = None
    relative: float | None = None  # the largest error in units of the largest element
    share: float | None = None  # that of an element in units of what rounding explains there
    bound: float | None = None  # what it explains at that element, in ulp
    #: "ok", "parts" (the error is larger than rounding explains), "inaccurate" (it is explained,
    #: but half of the digits are lost) or "not evaluated".
    verdict: str = "not evaluated"
    note: str = ""  # why


class Finding(NamedTuple):
    """Where evaluators part, or digits are lost."""

    #: "rule" (on the same operands an evaluator gives something else), "cancellation" (each
    #: instruction is right, but here small errors become large), "decision" (rounding decides a
    #: comparison or a rounding to integers differently), "derivative" (a rule differs from finite
    #: differences), "whole" (only the program as a whole parts).
    kind: str
    program: str = "result"  # or "jvp" or "vjp"
    instruction: int | None = None  # its number in the program, counted from 0
    operation: str | None = None  # its builder's name
    shapes: str = ""  # of operands and results
    #: What is wrong: evaluators, "reference rule", "StableHLO form", "derivative rule".
    suspects: tuple[str, ...] = ()
    element: tuple[int, ...] | None = None  # the index of the worst
    values: dict[str, str] = {}  # what each evaluator has there
    source: str | None = None  # the user's line
    explanation: str = ""  # all of it in a few sentences
    ulp: float | None = None  # the largest error there in units of the last place, where known
    #: The instruction's name in pictures of the checked program; "" where the derivatives' is meant
    #: or no instruction.
    node: str = ""

    def at(self, step: Instruction, graph: Graph, program: str) -> "Finding":
        """It with its place: an instruction of a graph, a program of a kind."""
        operands = ", ".join(str(value.shape) for value in step.operands)
        shapes = f"({operands}) -> {', '.join(map(str, step.shapes))}"
        source = None if step.source is None else str(step.source)
        number, name = graph.instructions.index(step), step.op.builder_name
        place = {"instruction": number, "operation": name, "shapes": shapes, "source": source}
        place["node"] = node_name(step, graph) if program == "result" else ""
        return self._replace(program=program, **place)

    def within(self, step: Instruction, graph: Graph, inner: Graph) -> "Finding":
        """It, found in a program that an instruction of a graph runs."""
        if not self.node:
            return self
        around = node_name(step, graph)
        index = [n for n, each in enumerate(step.op.computations) if each is inner]
        # What an operation is composed of is no program that pictures open.
        return self._replace(node=f"{around}.{index[0]}.{self.node}" if index else around)

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.explanation}"]
        if self.operation is not None:
            lines.append(f"  {self.operation} {self.shapes} (instruction {self.instruction})")
        if self.values:
            where = "" if self.element is None else f"element {list(self.element)}: "
            texts = [f"{name} {text}" for name, text in self.values.items()]
            lines.append(f"  {where}{', '.join(texts)}")
        if self.source is not None:
            lines.append(f"  called at {self.source}")
        return "\n".join(lines)


_COLUMNS = ("value", "shape", "evaluator", "ulp", "relative", "of bound", "verdict", "note")


@dataclass(repr=False, eq=False)
class CrossCheckReport(Report):
    """The outcome of `cross_check`; printed, it is a table."""

    name: str  # of the function
    rows: list[Row]  # one for each value and evaluator
    findings: list[Finding]  # one for each place where evaluators part or digits are lost
    graph: Graph  # the program that was checked
    operands: list[np.ndarray]  # its arguments
    places: list[Finding]  # the findings, those of one error not taken together

    @property
    def ok(self) -> bool:
        """Whether all who could be asked agree, and no value has lost half of its digits."""
        return not self._bad()

    @property
    def rows_of_outputs(self) -> list[list[Row]]:
        """Those of each output of the checked program, which stand before all others."""
        names = list(dict.fromkeys(row.value for row in self.rows))[: len(self.graph.outputs)]
        return [[row for row in self.rows if row.value == name] for name in names]

    def _bad(self) -> list[int]:
        verdicts = enumerate(row.verdict for row in self.rows)
        return [number for number, each in verdicts if each in ("parts", "inaccurate")]

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        numbers = [[*map(shown_number, row[3:6])] for row in self.rows]
        cells = [[*x[:3], *n, x.verdict, x.note] for x, n in zip(self.rows, numbers, strict=True)]
        bad, asked = self._bad(), sum(row.verdict != "not evaluated" for row in self.rows)
        outcome = f"{len(bad)} of {asked} comparisons fail" if bad else "ok"
        table = Table(_COLUMNS, cells, bad)
        return f"cross_check of {self.name}: {outcome}", [table], list(map(str, self.findings))

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        told = {"name": self.name, "rows": self.rows, "findings": self.findings}
        return plain(told | {"ok": self.ok})
