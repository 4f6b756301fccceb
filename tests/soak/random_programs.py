"""Search for random programs on which evaluators differ, by `tests/test_random_programs.py`.

Hypothesis draws and shrinks these. A case is a run of that file with a new seed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILES = ("tests/test_random_programs.py", "tests/test_random_errors.py")
_ERROR = re.compile(r"[ |]*E  +(\S*Error|\S*Exception|actual|expected)")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class RandomPrograms:
    """The programs that Hypothesis draws for one seed."""

    seed: int
    file: str

    def run(self) -> str | None:
        """Return the end of the report of a run that failed."""
        options = ["-q", "--full", "-p", "no:cacheprovider", f"--hypothesis-seed={self.seed}"]
        options += ["--hypothesis-profile=soak"]
        command = [sys.executable, "-m", "pytest", *options, self.file]
        run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
        if run.returncode == 0:
            return None
        lines = (run.stdout + run.stderr).splitlines()
        # The report of a large program is long, and names the error first.
        errors = [line for line in lines[:-60] if _ERROR.match(line)]
        return "\n".join([*errors[:20], *lines[-60:]])

    def shrunk(self) -> str:
        """Return the command; Hypothesis has shrunk the program."""
        options = f"--full --hypothesis-profile=soak --hypothesis-seed={self.seed}"
        return f"pytest {options} {self.file}"


def cases(seed: int) -> Iterator[RandomPrograms]:
    """Yield runs with seeds that differ between searches."""
    number = 1_000_000 * (seed + 1)
    while True:
        for file in _FILES:
            yield RandomPrograms(number, file)
        number += 1
