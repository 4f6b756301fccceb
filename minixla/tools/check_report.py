"""What a cross-check found: rows, findings, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minixla.tools.tables import html_page, html_table, plain_number, shown_number, text_table


class Row(NamedTuple):
    """One evaluator's opinion of one value.

    Attributes:
        value: what it is: `result['loss']`, `gradient of args[0]['w']`.
        shape: its shape.
        evaluator: whose opinion; "all" where nobody has one.
        ulp: the largest error of an element, in units of the last place of its declared type,
            against the program in double; for integers and booleans the largest difference.
        relative: the largest error in units of the largest element.
        share: the largest error of an element in units of what rounding explains there.
        bound: what it explains at that element, in ulp.
        verdict: "ok", "parts" (the error is larger than rounding explains), "inaccurate" (it is
            explained, but half of the digits are lost) or "not evaluated".
        note: why.
    """

    value: str
    shape: str
    evaluator: str
    ulp: float | None
    relative: float | None
    share: float | None
    bound: float | None
    verdict: str
    note: str = ""

    @classmethod
    def unasked(cls, value: str, shape: str, evaluator: str, why: str) -> Row:
        """The row of an evaluator that cannot be asked."""
        return cls(value, shape, evaluator, None, None, None, None, "not evaluated", why)


class Finding(NamedTuple):
    """Where evaluators part, or digits are lost.

    Attributes:
        kind: "rule" (on the same operands an evaluator gives something else), "cancellation" (each
            instruction is right, but here small errors become large), "decision" (rounding decides
            a comparison or a rounding to integers differently), "derivative" (a rule differs from
            finite differences), "whole" (only the program as a whole parts).
        program: "result", "jvp" or "vjp".
        instruction: the number of the instruction in the program, counted from 0, or None.
        operation: its builder's name, or None.
        shapes: operands' and results' shapes.
        suspects: what is wrong: evaluators, "reference rule", "StableHLO form", "derivative rule".
        element: the index of the worst element, or None.
        values: what each evaluator has there.
        source: the user's line, or None.
        explanation: all of it in a few sentences.
    """

    kind: str
    program: str
    instruction: int | None
    operation: str | None
    shapes: str
    suspects: tuple[str, ...]
    element: tuple[int, ...] | None
    values: dict[str, str]
    source: str | None
    explanation: str

    @classmethod
    def of_whole(cls, program: str, suspect: str, text: str) -> Finding:
        """That only the program as a whole parts."""
        return cls("whole", program, None, None, "", (suspect,), None, {}, None, text)

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


class CrossCheckReport:
    """The outcome of `cross_check`; printed, it is a table.

    Attributes:
        name: of the function.
        rows: a Row for each value and evaluator.
        findings: a Finding for each place where evaluators part or digits are lost.
    """

    def __init__(self, name: str, rows: Sequence[Row], findings: Sequence[Finding]) -> None:
        self.name = name
        self.rows = list(rows)
        self.findings = list(findings)

    @property
    def ok(self) -> bool:
        """Whether all who could be asked agree, and no value has lost half of its digits."""
        return not any(row.verdict in ("parts", "inaccurate") for row in self.rows)

    def _title(self) -> str:
        verdicts = [row.verdict for row in self.rows]
        bad = verdicts.count("parts") + verdicts.count("inaccurate")
        asked = len(verdicts) - verdicts.count("not evaluated")
        outcome = "ok" if self.ok else f"{bad} of {asked} comparisons fail"
        return f"cross_check of {self.name}: {outcome}"

    def _cells(self) -> list[list[str]]:
        rows = []
        for row in self.rows:
            numbers = map(shown_number, (row.ulp, row.relative, row.share))
            rows.append([row.value, row.shape, row.evaluator, *numbers, row.verdict, row.note])
        return rows

    def __str__(self) -> str:
        parts = [self._title(), text_table(_COLUMNS, self._cells()), *map(str, self.findings)]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        marked = [row.verdict in ("parts", "inaccurate") for row in self.rows]
        table = html_table(_COLUMNS, self._cells(), marked)
        return html_page(self._title(), [table], list(map(str, self.findings)))

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        rows = [{key: plain_number(x) for key, x in row._asdict().items()} for row in self.rows]
        findings = [
            {**each._asdict(), "element": each.element and list(each.element)}
            for each in self.findings
        ]
        return {"name": self.name, "ok": self.ok, "rows": rows, "findings": findings}
