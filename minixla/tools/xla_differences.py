"""Differences between XLA and the reference: a wrong value, an error, a dead process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph, Value
from minixla.engine.platform_text import PlatformEmitter
from minixla.legalize import Target, disabled
from minixla.sharding.explicit import without_layouts
from minixla.tools.bounded_evaluation import Budget
from minixla.tools.built_in_evaluators import by_interpreter, interpreter_gap
from minixla.tools.comparison import wide
from minixla.tools.graph_parts import every_step, is_inexact
from minixla.tools.program_edits import Program
from minixla.tools.ranges import outside
from minixla.tools.rounding import Measured
from minixla.tools.xla_process import Outcome, run_xla

Arrays = Sequence[np.ndarray]
# XLA lacks the code of a custom call, which may be registered only in this process.
_UNKNOWN_CODE = "NOT_FOUND"


class Settings(NamedTuple):
    """The settings for compiling and comparing programs.

    Attributes:
        platform: the platform that XLA compiles for.
        disabled_rules: the disabled rules of `minixla.legalize`, as (platform, name).
        exact: whether results on which IEEE 754 leaves no choice must be equal bit for bit.
        seconds: the time that XLA may take for one program.
        iterations: the number of iterations that the loops of one program may run.
    """

    platform: str = "cpu"
    disabled_rules: frozenset[tuple[str, str]] = frozenset()
    exact: bool = False
    seconds: float = 10.0
    iterations: int = 1_000_000_000

    def text(self, program: Program) -> str:
        """Return the StableHLO text that XLA receives, without calls of this package's kernels."""
        with ExitStack() as stack:
            for platform, rule in self.disabled_rules:
                stack.enter_context(disabled(platform, rule))
            return PlatformEmitter(Target(self.platform)).module(without_layouts(program.graph))


class Difference(NamedTuple):
    """A difference between XLA and the reference on a program.

    Attributes:
        kind: `value`; `not finite`, if only one of both is; `bits`, if the program leaves no choice
            of rounding and a value differs by no more than rounding might explain; `died`; `hangs`;
            `error: CODE`.
        text: the program that XLA received.
        outcome: XLA's outcome.
        expected: the reference's results.
        allowed: for each result, the errors that count as equal; -1 for equal bits.
    """

    kind: str
    text: str
    outcome: Outcome
    expected: Arrays
    allowed: Arrays

    def __str__(self) -> str:
        texts = {
            "value": "XLA computes a wrong value",
            "not finite": "XLA computes a NaN or an infinity in place of a number, or the reverse",
            "bits": "XLA computes other bits, though the program leaves no choice of rounding",
            "died": "XLA ends the process",
            "hangs": "XLA does not terminate",
        }
        return texts.get(self.kind, f"XLA raises an error ({self.kind.partition(': ')[2]})")


def difference(program: Program, settings: Settings, kind: str = "") -> Difference | None:
    """Return how XLA differs from the reference on a program, or None.

    StableHLO's interpreter must agree with the reference wherever it is not known to be wrong.

    Args:
        program: a program with its operands.
        settings: how to compile and compare it.
        kind: the kind of the difference to look for; default: any.

    Raises:
        MinixlaError: the program is invalid.
        ValueError: its loops run too often.
    """
    values = Budget(settings.iterations).values(*program)
    expected = [np.asarray(values[value]) for value in program.graph.outputs]
    if _casts_out_of_range(program, values):
        return None
    text = settings.text(program)
    outcome = run_xla(text, program.operands, settings.platform, settings.seconds)
    if outcome.ending is not None:
        return _ended(Difference("", text, outcome, expected, list(map(_allowed, expected))), kind)
    if outcome.results and _all_equal(outcome.results, expected):
        return None
    measured = Measured(*program)
    found = _compared(measured, outcome, settings.exact, kind)
    if found is None or kind not in ("", found) or not _is_confirmed(program, measured, found):
        return None
    allowed = [
        _allowed(array) if _is_exact(measured, value, found) else measured.bound(value)
        for value, array in zip(program.graph.outputs, expected, strict=True)
    ]
    return Difference(found, text, outcome, expected, allowed)


def _allowed(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, -1.0)


def _ended(found: Difference, kind: str) -> Difference | None:
    """Return a difference of the right kind for a program without results."""
    outcome = found.outcome
    if outcome.message.startswith(_UNKNOWN_CODE):
        return None
    code = outcome.message.partition(":")[0][:40].strip()
    made = f"error: {code}" if outcome.ending == "error" else str(outcome.ending)
    return found._replace(kind=made) if kind in ("", made) else None


def _compared(measured: Measured, outcome: Outcome, exact: bool, kind: str) -> str | None:
    """Return the kind of the difference of results from those of the reference."""
    outputs = measured.graph.outputs
    pairs = zip(outputs, outcome.results, strict=True)
    comparisons = [] if kind == "bits" else [measured.compared(*pair) for pair in pairs]
    off = [comparison for comparison in comparisons if comparison.excess > 1]
    if off:
        return "not finite" if any(comparison.is_special for comparison in off) else "value"
    if not exact or kind not in ("", "bits"):
        return None
    is_off = _bits_differ(measured, outcome.results)
    return "bits" if is_off else None


def _bits_differ(measured: Measured, results: Arrays) -> bool:
    """Test whether a result differs although the program leaves no choice of rounding."""
    pairs = zip(measured.graph.outputs, results, strict=True)
    off = [value for value, x in pairs if not _is_equal(x, np.asarray(measured.reference[value]))]
    return any(map(measured.is_determined, off))


def _is_exact(measured: Measured, value: Value, kind: str) -> bool:
    """Test whether a value must be equal bit for bit."""
    return not is_inexact(value.shape) or (kind == "bits" and measured.is_determined(value))


def interpreter_note(graph: Graph) -> str:
    """Return why StableHLO's interpreter may be wrong about a program, or ""."""
    gaps = (interpreter_gap(step) for step in every_step(graph))
    return next((gap for gap in gaps if gap is not None), "")


def _is_confirmed(program: Program, measured: Measured, kind: str) -> bool:
    """Test whether the interpreter agrees with the reference, or may be wrong."""
    if interpreter_note(program.graph):
        return True
    try:
        results = by_interpreter(program.graph, program.operands)
    except (MinixlaError, NotImplementedError):
        return True
    if kind == "bits":
        return not _bits_differ(measured, results)
    pairs = zip(program.graph.outputs, results, strict=True)
    return all(measured.compared(*pair).excess <= 1 for pair in pairs)


def _casts_out_of_range(program: Program, values: dict) -> bool:
    """Test whether a cast has a result that depends on the backend."""
    steps = [step for step in program.graph.instructions if len(step.operands) == 1]
    return any(bool(outside(step, values[step.operands[0]]).any()) for step in steps)


def _all_equal(some: Arrays, others: Arrays) -> bool:
    return all(_is_equal(*pair) for pair in zip(some, others, strict=True))


def _is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Test whether arrays are equal, including signs of zeros; all NaN are equal."""
    if not element_type(one.dtype).is_inexact:
        return bool((one == other).all())
    left, right = wide(one), wide(other)
    parts = [(np.real(left), np.real(right)), (np.imag(left), np.imag(right))]
    is_nan = np.isnan(left) & np.isnan(right)
    same = [(a == b) & (np.signbit(a) == np.signbit(b)) for a, b in parts]
    return bool((same[0] & same[1] | is_nan).all())
