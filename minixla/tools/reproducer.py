"""Reproducers: scripts that show an error of XLA with the smallest program found.

The script is self-contained: its last part is the text of `reproducer_script`.
"""

from __future__ import annotations

import os
import platform as machine
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from minixla.core.element_types import element_type
from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.graph import Graph
from minixla.interop import import_stablehlo
from minixla.interop.progress import shown_progress
from minixla.sharding.explicit import without_layouts
from minixla.tools import reproducer_script
from minixla.tools.bounded_evaluation import Budget
from minixla.tools.program_edits import Program, instruction_count
from minixla.tools.reduction import reduced
from minixla.tools.worker import find_main, next_context
from minixla.tools.xla_differences import Difference, Settings, difference, interpreter_note
from minixla.version import __version__

_SUBJECT = "reproducer"
_BEGIN, _END = "# BEGIN DATA\n", "# END DATA\n"
# The minimum number of iterations that loops of smaller programs may run.
_FEW_ITERATIONS = 100
# The number of runs of a program whose results differ from run to run.
_RUNS = 4
# The number of elements that a comment shows.
_MOST_SHOWN = 16
# Operations that are not counted as instructions.
_NOT_COUNTED = ("stablehlo.constant", "stablehlo.return", "func.return", "func.call")
_DOCSTRING = '''"""XLA is wrong on this program; run it with `python FILE`.

It needs jax and numpy only. It runs PROGRAM, the StableHLO text that XLA received, on XLA and on
StableHLO's interpreter, each in a separate process. It prints the expected results, the results
when the file was written, and the results now.

Exit status: 1 while XLA's results differ from EXPECTED, 0 once they agree.
"""
'''


@dataclass(frozen=True)
class Reproducer:
    """A program on which XLA is wrong, and the file that shows it.

    Attributes:
        path: the file.
        graph: the smallest program found.
        operands: its arguments.
        kind: `value`, `not finite`, `bits`, `died`, `hangs`, or `error: CODE`.
        explanation: the difference in a few words.
        instructions: the number of StableHLO operations in the program, with those of loops and
            branches, without constants and reducers.
        seconds: the time that the reduction took.
    """

    path: Path
    graph: Graph
    operands: tuple[np.ndarray, ...]
    kind: str
    explanation: str
    instructions: int
    seconds: float

    def __str__(self) -> str:
        count = f"{self.instructions} instruction{'' if self.instructions == 1 else 's'}"
        return f"{self.path}: {self.explanation}; {count}, found in {self.seconds:.1f} seconds"


def write_reproducer(
    path: str | Path,
    name: str,
    programs: Mapping[str, tuple[Graph, Sequence[np.ndarray]]],
    settings: Settings,
    seconds: float = 60.0,
) -> Reproducer:
    """Reduce the first program on which XLA is wrong, and write a script that shows it.

    Args:
        path: the file that is written; an existing one is replaced.
        name: the name of the program in the script.
        programs: graphs with their operands, by description.
        settings: how to compile and compare them.
        seconds: the time after which reduction stops at the smallest program so far.

    Returns:
        The reproducer for the program in the file.

    Raises:
        TransformError: XLA is right on all of them.
        OSError: the file cannot be written.
    """
    begin = time.monotonic()
    with shown_progress(_SUBJECT) as say:
        say("looking for a difference")
        whole, first = _first_difference(programs, settings)
        say("reducing")
        budget = Budget(settings.iterations)
        budget.values(*whole)
        settings = settings._replace(iterations=max(_FEW_ITERATIONS, 2 * budget.used))
        program = _smallest(whole, first.kind, settings, seconds)
    runs = (difference(program, settings, first.kind) for _ in range(4 * _RUNS))
    found = next(filter(None, runs), None)
    if found is None:
        program, found = whole, first
    Path(path).write_text(script(name, program, found, settings), encoding="ascii")
    count = text_instruction_count(found.text)
    took = time.monotonic() - begin
    return Reproducer(Path(path), *program, found.kind, str(found), count, took)


def _first_difference(
    programs: Mapping[str, tuple[Graph, Sequence[np.ndarray]]], settings: Settings
) -> tuple[Program, Difference]:
    for graph, operands in programs.values():
        program = Program(without_layouts(graph), tuple(map(np.asarray, operands)))
        if program.graph.meshes:  # it computes on several devices
            continue
        found = difference(program, settings._replace(seconds=60.0))
        if found is not None:
            return program, found
    problem = "XLA is right when it compiles the StableHLO text for one device, or StableHLO's "
    problem += "interpreter agrees with it and not with the reference"
    details = [f"programs tried: {', '.join(programs) or 'none'}"]
    advice = (
        "A reproducer shows an error of XLA. The report's findings name other possible causes: "
    )
    advice += "a reference rule, a StableHLO form, or a kernel of compiled code."
    raise explain(TransformError, _SUBJECT, problem, details, advice)


def _smallest(program: Program, kind: str, settings: Settings, seconds: float) -> Program:
    """Return the smallest program found with a difference of a kind."""
    end = time.monotonic() + seconds
    # XLA may read uninitialized memory; then results differ from run to run.
    is_steady = all(difference(program, settings, kind) for _ in range(_RUNS))

    def holds(candidate: Program) -> bool:
        runs = range(1 if is_steady else _RUNS)
        return any(difference(candidate, settings, kind) for _ in runs)

    def size(candidate: Program) -> int:
        return text_instruction_count(settings.text(candidate))

    smallest = reduced(program, holds, seconds)
    if size(smallest) <= instruction_count(smallest.graph):
        return smallest
    try:
        # Composed operations hide their parts.
        expanded = Program(import_stablehlo(settings.text(smallest)).graph, smallest.operands)
        if not holds(expanded):
            return smallest
        expanded = reduced(expanded, holds, max(0.0, end - time.monotonic()))
        return min(smallest, expanded, key=size)
    except (MinixlaError, ValueError):
        return smallest


def text_instruction_count(text: str) -> int:
    """Count the operations of a module, also inside loops and branches.

    Constants and the operations of reducers do not count.
    """

    def count(region: Any) -> int:
        total = 0
        for block in region.blocks:
            for operation in block.operations:
                name = operation.operation.name
                total += name not in _NOT_COUNTED
                if name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
                    total += sum(map(count, operation.regions))
        return total

    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        find_main(module)
        functions = [x for x in module.body.operations if x.operation.name == "func.func"]
        return sum(count(region) for function in functions for region in function.regions)


def script(name: str, program: Program, found: Difference, settings: Settings) -> str:
    """Return the text of a script that shows a difference."""
    template = Path(reproducer_script.__file__).read_text(encoding="utf-8")
    before, _, rest = template.partition(_BEGIN)
    after = rest.partition(_END)[2]
    imports = before.partition('"""\n')[2]
    outcome = found.outcome
    data = [
        f"NAME = {name!a}",
        f"DIFFERENCE = {str(found)!a}",
        f"FOUND = {_found_text(found)!a}",
        f"PLATFORM = {settings.platform!a}",
        f"FLAGS = {os.environ.get('XLA_FLAGS', '')!a}",
        f"INTERPRETER = {interpreter_note(program.graph)!a}",
        f"VERSIONS = {_versions()}",
        _program_text(found.text),
        _list("INPUTS", program.operands),
        _list("EXPECTED", found.expected),
        "# The largest error of each element; -1: the bits are equal.",
        _list("ALLOWED", found.allowed),
        _list("ACTUAL", outcome.results),
    ]
    return "\n".join([_DOCSTRING + imports + "\n".join(data), after])


def _found_text(found: Difference) -> str:
    """Return the error or death of XLA, if it has no results."""
    return found.outcome.message[:2000] if found.outcome.ending else ""


def _versions() -> str:
    names = ("jax", "jaxlib", "numpy", "ml_dtypes")
    versions = {name: metadata.version(name) for name in names}
    versions |= {"minixla": __version__, "python": sys.version.split()[0]}
    return ascii(versions | {"machine": f"{machine.system()} {machine.machine()}"})


def _program_text(text: str) -> str:
    lines = [f"    {line!a}" for line in text.splitlines(keepends=True)]
    return "\n".join(["PROGRAM = (", *lines, ")"])


def _list(name: str, arrays: Sequence[np.ndarray]) -> str:
    lines = [f"{name} = ["]
    for array in map(np.asarray, arrays):
        kind = element_type(array.dtype)
        flat = [str(number) for number in array.ravel()[:_MOST_SHOWN].tolist()]
        more = ", ..." if array.size > _MOST_SHOWN else ""
        lines.append(f"    # {ascii(', '.join(flat) + more)[1:-1]}")
        bits = np.ascontiguousarray(array).tobytes().hex()
        lines.append(f"    ({kind.stablehlo!a}, {array.shape!r}, {bits!a}),")
    return "\n".join([*lines, "]"])
