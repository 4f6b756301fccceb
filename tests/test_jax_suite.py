"""The list of JAX's tests that fail, and its reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import jax_suite
from tests.jax_suite import Entry, entries, main, outcomes, tally

CONTROL = """
PASSED tests/a_test.py::First::test_one
PASSED tests/a_test.py::First::test_two [case=3]
PASSED tests/a_test.py::First::test_three
FAILED tests/a_test.py::First::test_four - ValueError: fails in JAX, too
"""
LOG = """
PASSED tests/a_test.py::First::test_one
FAILED tests/a_test.py::First::test_two [case=3] - AssertionError: text
FAILED tests/a_test.py::First::test_three - TypeError
FAILED tests/a_test.py::First::test_four - ValueError
"""
LIST = """
# a comment
a_test
    jaxpr    First.test_two*    reads a jaxpr
    count    First.test_six
"""


def test_the_list_is_sorted_and_has_reasons() -> None:
    known = entries()
    assert len({(each.file, each.pattern) for each in known}) == len(known)
    assert all(each.explanation for each in known)
    files = list(dict.fromkeys(each.file for each in known))
    assert files == sorted(files)


def test_entries() -> None:
    assert entries(LIST) == [
        Entry("a_test", "jaxpr", "First.test_two*", "reads a jaxpr"),
        Entry("a_test", "count", "First.test_six", ""),
    ]
    with pytest.raises(ValueError, match="line 2: unknown reason"):
        entries("a_test\n    because  First.test_two")


def test_tally() -> None:
    assert outcomes(LOG)["First.test_two [case=3]"] == "FAILED"
    found = tally("a_test", CONTROL, LOG, entries(LIST))
    assert (found.passed, found.total) == (1, 3)
    assert found.unknown == ["First.test_three"]
    assert found.fixed == ["First.test_six"]
    assert found.reasons == {"jaxpr": 1}


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jax_suite, "KNOWN", tmp_path / "known.txt")
    (tmp_path / "known.txt").write_text(LIST)
    (tmp_path / "a_test.control.log").write_text(CONTROL)
    (tmp_path / "a_test.log").write_text(LOG)
    assert main(tmp_path) == 1
    output = capsys.readouterr().out
    assert "a_test: 1 of 3; jaxpr 1" in output
    assert "not listed: First.test_three" in output
    assert "passes now: First.test_six" in output
    assert "sum: 1 of 3, 33.33%" in output
    (tmp_path / "known.txt").write_text(LIST + "    limit    First.test_three\n")
    assert main(tmp_path) == 0
