"""JAX's own tests that fail with minixla's transformations in place of JAX's, and the reasons.

`jax_suite_known.txt` lists the tests. `python -m tests.jax_suite FOLDER` compares the list with the
logs of a run: FOLDER/NAME.log and FOLDER/NAME.control.log for each file of JAX's tests, as pytest
writes them with -rA.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

#: Why a test fails although minixla computes what JAX computes.
REASONS = {
    "message": "the test compares the type or the text of an error",
    "jaxpr": "the test reads jaxprs, which hold minixla's programs as one primitive",
    "count": "the test counts traces, compilations, calls or cache entries",
    "internal": "the test calls private functions of JAX",
    "more": "the test expects an error, but minixla has a result",
    "rounding": "results differ from JAX's by more than the test's tolerance, by rounding only",
    "limit": "a known limit of minixla: see docs/interop.md",
}
KNOWN = Path(__file__).with_name("jax_suite_known.txt")


class Entry(NamedTuple):
    """A line of the list.

    Attributes:
        file: the name of a file of JAX's tests.
        reason: a key of `REASONS`.
        pattern: a class and test, in which * matches any characters.
        explanation: details.
    """

    file: str
    reason: str
    pattern: str
    explanation: str

    def matches(self, file: str, test: str) -> bool:
        """Return whether the entry lists a test."""
        return file == self.file and fnmatchcase(test, self.pattern)


class Tally(NamedTuple):
    """The tests of one file, among those that pass with JAX's transformations.

    Attributes:
        passed: the number of tests that pass with minixla's transformations.
        total: the number of tests.
        unknown: the tests that fail and are not listed.
        fixed: the patterns of the list that no failure matches.
        reasons: how many failures each reason explains.
    """

    passed: int
    total: int
    unknown: list[str]
    fixed: list[str]
    reasons: Counter[str]


def entries(text: str | None = None) -> list[Entry]:
    """Read the list: a file's name, then indented lines of reason, pattern and explanation."""
    found, file = [], ""
    for number, line in enumerate((text or KNOWN.read_text()).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            file = line.strip()
            continue
        reason, pattern, *rest = line.split(None, 2)
        if not file or reason not in REASONS:
            raise ValueError(f"line {number}: unknown reason or no file: {line.strip()}")
        found.append(Entry(file, reason, pattern, "".join(rest)))
    return found


def outcomes(log: str) -> dict[str, str]:
    """Return the outcome of each test in pytest's summary: PASSED, FAILED, ERROR."""
    lines = re.findall(r"^(PASSED|FAILED|ERROR) tests/\w+\.py::(.+?)(?: - .*)?$", log, re.MULTILINE)
    return {name.replace("::", "."): outcome for outcome, name in lines}


def tally(file: str, control: str, log: str, known: Iterable[Entry]) -> Tally:
    """Compare two logs of a file of tests with the list."""
    found, own = outcomes(log), [each for each in known if each.file == file]
    wanted = [name for name, outcome in outcomes(control).items() if outcome == "PASSED"]
    failed = [name for name in wanted if found.get(name) != "PASSED"]
    matches = {name: [each for each in own if each.matches(file, name)] for name in failed}
    used = {each for listed in matches.values() for each in listed}
    return Tally(
        len(wanted) - len(failed),
        len(wanted),
        [name for name in failed if not matches[name]],
        [each.pattern for each in own if each not in used],
        Counter(listed[0].reason for listed in matches.values() if listed),
    )


def main(folder: Path) -> int:
    """Print a table; return 1 if a failure is not listed."""
    known, unknown, sums = entries(), 0, Counter[str]()
    for path in sorted(folder.glob("*.control.log")):
        file = path.name.removesuffix(".control.log")
        log = path.with_name(f"{file}.log")
        if not log.exists():
            continue
        logs = (each.read_text(errors="replace") for each in (path, log))
        found = tally(file, *logs, known)
        reasons = ", ".join(f"{reason} {count}" for reason, count in found.reasons.most_common())
        print(f"{file}: {found.passed} of {found.total}; {reasons or 'no known failures'}")
        for name in found.unknown:
            print(f"  not listed: {name}")
        for pattern in found.fixed:
            print(f"  passes now: {pattern}")
        unknown += len(found.unknown)
        sums.update(passed=found.passed, total=found.total)
    print(f"sum: {sums['passed']} of {sums['total']}, {sums['passed'] / max(sums['total'], 1):.2%}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
