"""Our regular expressions take linear time: unlimited repeats are not nested, and adjacent ones
match different characters.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.regular_expressions import ROOT, fault_of, literal_patterns

_FAULTY = {
    r"(a+)+": "stands in another",
    r"(?:a|b*c)*": "stands in another",
    r"((a+),)*": "stands in another",
    r"(?=(a+)*)b": "stands in another",
    r"(?>(a*)*)": "stands in another",
    r"a*a*": "one after the other",
    r"\s*(<=)?\s*": "one after the other",
    r"(x|a+)(?:b?)(\w*)": "one after the other",
    r"\d+\.?\d*": "one after the other",
    r".*[^a]*": "one after the other",
}
_SOUND = [
    "a*b*",
    r"\s*=\s*",
    r"\d+(?:\.\d*)?",
    r'"(?:[^"\\]|\\.)*+"?',
    r"a{2,5}a{1,9}",
    r"\w++\w*",
]


@pytest.mark.parametrize("pattern, fault", _FAULTY.items(), ids=_FAULTY)
def test_faults_are_found(pattern, fault):
    assert fault in fault_of(pattern)


@pytest.mark.parametrize("pattern", _SOUND)
def test_sound_patterns(pattern):
    assert not fault_of(pattern)


def test_literals():
    patterns = [*literal_patterns()]
    assert len(patterns) > 80
    faults = [(place, fault_of(each)) for place, each in patterns if each is not None]
    assert not [each for each in faults if each[1]]


def test_patterns_that_are_put_together():
    """Modules compile these when they are imported, in a separate process."""
    words = [sys.executable, "-m", "tests.regular_expressions"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    count, *faults = done.stdout.splitlines()
    assert int(count) > 80
    assert not faults
