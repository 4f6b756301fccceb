"""A small program of each row of the tables of random programs, the same in every run."""

from __future__ import annotations

import functools

from hypothesis import HealthCheck, Phase, given, settings

from tests.programs.domains import ANY
from tests.programs.draft import Program, programs
from tests.programs.inexact import INEXACT, USUAL
from tests.programs.table import TABLE

ROWS = {**TABLE, **{f"inexact {name}": row for name, row in INEXACT.items()}}


@functools.cache
def example(name: str, kind: str, most: int = 2) -> Program | None:
    """A program of at most some steps of a row, of one element type where its operation has it."""
    found: list[Program] = []
    domain = USUAL if name.startswith("inexact") else ANY

    @settings(
        max_examples=4,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs([ROWS[name]], most, (kind,), domain))
    def keep(program: Program) -> None:
        if program.outputs and sum(array.size for array in program.inputs):
            found.append(program)

    keep()
    return found[-1] if found else None
