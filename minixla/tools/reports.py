"""Reports as text, and as HTML in notebooks: tables, and what a cross-check found."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from minixla.core.graph import Graph, Instruction

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

    def text(self) -> str:
        """Columns one beside the other; those of numbers to the right, empty ones left out."""
        columns = []
        for column in zip(self.header, *self.rows, strict=True):
            if any(column[1:]):
                numbers = all(set(x) <= _NUMERIC or x in ("inf", "nan") for x in column[1:])
                align, width = str.rjust if numbers else str.ljust, max(map(len, column))
                columns.append([align(cell, width) for cell in column])
        return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))

    def html(self) -> str:
        """The table in HTML."""
        text = ""
        for number, row in enumerate([self.header, *self.rows], -1):
            style = ' style="font-weight:bold;color:#b00020"' if number in self.marked else ""
            kind = "th" if number < 0 else "td"
            cells = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)
            text += f"<tr{style}>{cells}</tr>"
        return f"<table>{text}</table>"


class Report(ABC):
    """What is shown as text or HTML: a title, tables, and notes below them."""

    @abstractmethod
    def _shown(self) -> tuple[str, list[Table], list[str]]: ...

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        return plain(vars(self))

    def __str__(self) -> str:
        title, tables, notes = self._shown()
        return "\n".join([title, "\n\n".join(table.text() for table in tables), *notes])

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

    def at(self, step: Instruction, graph: Graph, program: str) -> "Finding":
        """It with its place: an instruction of a graph, a program of a kind."""
        operands = ", ".join(str(value.shape) for value in step.operands)
        shapes = f"({operands}) -> {', '.join(map(str, step.shapes))}"
        source = None if step.source is None else str(step.source)
        number, name = graph.instructions.index(step), step.op.builder_name
        place = {"instruction": number, "operation": name, "shapes": shapes, "source": source}
        return self._replace(program=program, **place)

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

    @property
    def ok(self) -> bool:
        """Whether all who could be asked agree, and no value has lost half of its digits."""
        return not self._bad()

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
        return {**super().as_dict(), "ok": self.ok}
