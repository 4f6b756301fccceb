"""The report of `check_op`, with a line for each case and evaluator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from minixla.core.tables import Report, Table, shown_number
from minixla.tools import reports
from minixla.tools.reports import Finding

FAILED = "fails"
#: A NaN on which all agree is not a failure: arguments may be outside the domain.
BAD = tuple(verdict for verdict in reports.BAD if verdict != "NaN")


class Check(NamedTuple):
    """The result of one check of one case.

    Attributes:
        case: the case, and its variation.
        check: an evaluator, or `second derivatives`, `sharding rule`, `reference`.
        ulp: the largest error of all values, in units of the last place.
        verdict: "ok", "parts", "inaccurate", "fails" or "not run".
        note: the reason.
    """

    case: str
    check: str
    ulp: float | None
    verdict: str
    note: str = ""


@dataclass(repr=False, eq=False)
class OperationReport(Report):
    """The outcome of `check_op`; it prints as a table.

    Attributes:
        name: the name of the operation.
        checks: a Check for each case and evaluator.
        findings: a Finding for each place where evaluators disagree.
    """

    name: str
    checks: list[Check]
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """True if all evaluators that could run agree with the reference."""
        return not any(check.verdict in BAD for check in self.checks)

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        """Show passed checks as one line for each evaluator."""
        lines: dict[Any, list[Check]] = {}
        for check in self.checks:
            is_bad = check.verdict in BAD
            key = (check.check, check.case) if is_bad else (check.check, check.verdict, check.note)
            lines.setdefault((not is_bad, *key), []).append(check)
        cells = []
        for same in lines.values():
            first, worst = same[0], max((x.ulp for x in same if x.ulp is not None), default=None)
            case = first.case if len(same) == 1 else f"{len(same)} cases"
            cells.append([first.check, case, shown_number(worst), first.verdict, first.note])
        bad = [number for number, cell in enumerate(cells) if cell[3] in BAD]
        count = sum(check.verdict in BAD for check in self.checks)
        outcome = f"{count} of {len(self.checks)} checks fail" if count else "ok"
        table = Table(("check", "of", "ulp", "verdict", "note"), cells, bad)
        return f"check_op of {self.name}: {outcome}", [table], list(map(str, self.findings))
