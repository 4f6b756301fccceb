"""cross_check on a hundred right programs and on a hundred with a planted fault."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

import minixla as mx
from minixla.tools.reports import CrossCheckReport
from tests.minixla.tools.fault_table import FAULTS
from tests.minixla.tools.faults import Fault

HERE = Path(__file__).parent


def line_at(source: str | None) -> str:
    """Return the line of a test file that a finding names; empty if it names none."""
    found = re.match(r"([\w./]+\.py):(\d+)", source or "")
    if found is None:
        return ""
    return linecache.getline(str(HERE / Path(found[1]).name), int(found[2]))


def report_of(fault: Fault) -> CrossCheckReport:
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        return mx.cross_check(fault.program, *fault.arguments, **fault.options)


def is_named(report: CrossCheckReport, fault: Fault) -> bool:
    """Return whether the first finding has the operation and the line of the fault."""
    if not report.findings:
        return False
    first = report.findings[0]
    names_line = fault.line in line_at(first.source) and bool(line_at(first.source) or not fault.line)
    return fault.operation in (None, first.operation) and names_line
