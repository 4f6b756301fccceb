"""Search for random programs on which evaluators differ: `tests/test_random_programs.py`.

Hypothesis draws and shrinks these. A case is a run of that file with a new seed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILES = ("tests/test_random_programs.py", "tests/test_random_errors.py")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class RandomPrograms:
    """The programs that hypothesis draws for one seed."""

    seed: int
    file: str

    def run(self) -> str | None:
        """The end of the report of a run that failed."""
        options = ["-q", "--full", "-p", "no:cacheprovider", f"--hypothesis-seed={self.seed}"]
        options += ["--hypothesis-profile=soak"]
        command = [sys.executable, "-m", "pytest", *options, self.file]
        run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
        if run.returncode == 0:
            return None
        return "\n".join((run.stdout + run.stderr).splitlines()[-60:])

    def shrunk(self) -> str:
        """The command, since hypothesis has shrunk the program."""
        options = f"--full --hypothesis-profile=soak --hypothesis-seed={self.seed}"
        return f"pytest {options} {self.file}"


def cases(seed: int) -> Iterator[RandomPrograms]:
    """Runs with other seeds than those of other searches."""
    number = 1_000_000 * (seed + 1)
    while True:
        for file in _FILES:
            yield RandomPrograms(number, file)
        number += 1
