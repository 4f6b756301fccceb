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
from tests.minixla.tools.right_programs import PROGRAMS

HERE = Path(__file__).parent
#: The rows that `make test` runs: one of each group.
QUICK_FAULTS = [
    "reference: sin in a scan",
    "StableHLO: max as min",
    "XLA: floor as ceil",
    "derivative: a step of descent",
    "batching: sum",
    "user: custom_jvp under vmap",
]
QUICK_PROGRAMS = ["benchmark: Mandelbrot set", "example: denoising", "delicate: double where"]


def line_at(source: str | None) -> str:
    """Return the line of a test file that a finding names; empty if it names none."""
    found = re.match(r"([\w./]+\.py):(\d+)", source or "")
    if found is None:
        return ""
    return linecache.getline(str(HERE / Path(found[1]).name), int(found[2]))


def report_of(fault: Fault) -> CrossCheckReport:
    """Check the program while the fault is planted."""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        return mx.cross_check(fault.program, *fault.arguments, **fault.options)


def is_named(report: CrossCheckReport, fault: Fault) -> bool:
    """Test whether the first finding has the operation and the line of the fault."""
    if not report.findings:
        return False
    first = report.findings[0]
    line = line_at(first.source)
    names_line = fault.line in line if fault.line else not line
    return fault.operation in (None, first.operation) and names_line


def passes(name: str) -> bool:
    """Test whether a right program passes."""
    program = PROGRAMS[name]
    return mx.cross_check(program.function, *program.arguments, **program.options).ok


@pytest.mark.parametrize("name", QUICK_FAULTS)
def test_a_planted_fault_is_named(name):
    report = report_of(FAULTS[name])
    assert not report.ok and is_named(report, FAULTS[name]), report


@pytest.mark.parametrize("name", QUICK_PROGRAMS)
def test_a_right_program_passes(name):
    assert passes(name)


@pytest.mark.full
def test_a_hundred_faults_fail_and_are_named():
    assert len(FAULTS) >= 100
    reports = {name: report_of(fault) for name, fault in FAULTS.items()}
    assert [name for name, report in reports.items() if report.ok] == []
    unnamed = [name for name, report in reports.items() if not is_named(report, FAULTS[name])]
    # At least 95 of 100 must be named. Today all of them are.
    assert unnamed == []


@pytest.mark.full
def test_a_hundred_right_programs_pass():
    assert len(PROGRAMS) >= 100
    assert [name for name in PROGRAMS if not passes(name)] == []


@pytest.mark.full
def test_without_the_faults_the_programs_pass():
    # A program that fails by itself would show nothing about its fault.
    planted = {
        fault.program: fault for fault in FAULTS.values() if "user" not in fault.program.__module__
    }
    failing = [
        function.__name__
        for function, fault in planted.items()
        if not mx.cross_check(function, *fault.arguments, gradients=False).ok
    ]
    assert failing == []
