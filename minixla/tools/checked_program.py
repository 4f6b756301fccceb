"""A program in all evaluators: how far results differ, and what is wrong."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.graph import Graph, Value
from minixla.tools import nonfinite
from minixla.tools.comparison import Comparison, precision_of, real_part_info, relative_error, wide
from minixla.tools.evaluators import JAX, REFERENCE
from minixla.tools.graph_parts import is_inexact, needed_for, type_of
from minixla.tools.localization import Search, known_error, wrong_step
from minixla.tools.nonfinite import Forward, Program, dependent
from minixla.tools.oracle_values import Death, Opinion, Opinions
from minixla.tools.reports import KINDS, Finding, Row
from minixla.tools.rounding import Measured

_DOUBLE = precision_of(ELEMENT_TYPES["f64"])
# In units of the spread of rounding in double; a smaller value may be zero.
_FEW = 64


class CheckedProgram(Search):
    """One program in all evaluators; `findings` lists where evaluators disagree."""

    def __init__(
        self, kind: str, program: Sequence[Any], opinions: Opinions, forward: Forward
    ) -> None:
        opinions.say(f"the {KINDS[kind]}: {REFERENCE}")
        super().__init__(kind, Measured(*program), opinions)
        self.graph: Graph = program[0]
        self._forward = forward
        self.findings: list[Finding] = []
        self._is_wrong = False

    def rows(self, named: Sequence[tuple[str, Any]], theirs: Opinion | None) -> list[Row]:
        """Return a Row for each named output and evaluator; `theirs` has JAX's results."""
        rows = []
        expected = [self.measured.reference[value] for value in self.graph.outputs]
        operands, what = self.measured.operands, f"the {KINDS[self.kind]}"
        answers = {REFERENCE: expected, **self.opinions.everywhere(self.graph, operands, what)}
        answers |= {} if theirs is None else {JAX: theirs}
        compare = functools.partial(map, self.measured.compared, self.graph.outputs)
        pairs = answers.items()
        comparisons = {name: list(compare(x)) for name, x in pairs if not isinstance(x, str)}
        for evaluator, results in answers.items():
            if not isinstance(results, str):
                self.answers[evaluator] = dict(zip(self.graph.outputs, results, strict=True))
        self.findings += [self._death(name, x) for name, x in pairs if isinstance(x, Death)]
        if any(comparison.excess > 1 for row in comparisons.values() for comparison in row):
            reason = known_error(self.kind, self.graph, self.measured.reference, self.opinions)
            self._is_wrong = self._found(reason or wrong_step(self))
        if not self._is_wrong:
            self._find_beginnings()
        for index, (name, shape) in enumerate(named):
            for evaluator, results in answers.items():
                place = name, str(shape), evaluator
                if isinstance(results, str):
                    verdict = "fails" if isinstance(results, Death) else "not run"
                    rows.append(Row(*place, verdict=verdict, note=results))
                    continue
                comparison = comparisons[evaluator][index]
                numbers = comparison.ulp, comparison.relative, comparison.excess, comparison.bound
                verdict = self._verdict(name, self.graph.outputs[index], evaluator, comparison)
                if verdict[0] == "ok" and self._makes_nan(results[index]):
                    verdict = "NaN", "all agree, and no input is NaN"
                rows.append(Row(*place, *numbers, *verdict))
        return rows

    def _death(self, evaluator: str, reason: str) -> Finding:
        """Return the finding for a program that ends the process of an evaluator."""
        text = f"the program ends the process of {evaluator}: {reason}"
        advice = "Write a reproducer with report.reproducer(path), and report it."
        suspects = (evaluator,)
        return Finding("compiler", self.kind, suspects=suspects, explanation=text, advice=advice)

    def _find_beginnings(self) -> None:
        """Find where NaN and infinities of outputs begin."""
        moving = dependent(self.graph, self.graph.inputs[len(self._forward.graph.inputs) :])
        values = self.measured.reference
        program = Program(self.graph, values, self.kind, moving, self._forward)
        self.findings += nonfinite.findings(program)

    def _makes_nan(self, result: np.ndarray) -> bool:
        """Test whether a result is NaN, and no input is."""
        return _has_nan(result) and not any(map(_has_nan, self.measured.operands))

    def _found(self, finding: Finding | None) -> bool:
        self.findings += filter(None, [finding])
        return finding is not None

    def _verdict(self, name: str, value: Value, evaluator: str, comparison: Comparison) -> Any:
        """Return the verdict on an output of an evaluator, and the reason."""
        is_off = comparison.excess > 1
        loses = self._loses_digits(value, comparison)
        is_accused = any(evaluator in finding.suspects for finding in self.findings)
        if (is_off or loses) and not is_accused:
            asked = [
                candidate for candidate in self.opinions.evaluators if candidate.name == evaluator
            ]
            gaps = (
                candidate.gap(step) for candidate in asked for step in needed_for(value, self.graph)
            )
            for gap in filter(None, gaps):
                return "not run", gap
        if is_off and (self._is_wrong or evaluator == JAX):
            return "parts", ""
        if is_off and self._is_right_in_parts(name, value, evaluator):
            return "parts", "as a whole only"
        if comparison.is_special:
            if not self.findings and not self._forward.is_faulty:
                self._found(self._special_fault(name, value, evaluator))
            return "not finite", "only one of it and the value in double is finite"
        if is_off and self._found(self.fault_without_rounding(name, value, evaluator)):
            return "parts", "as a whole only"
        if is_off and not is_inexact(value.shape):
            self._found(self.decision(evaluator))
            return "parts", "rounding decides it"
        if loses and not self._is_zero_but_for_rounding(value):
            self._found(self.jump(value, evaluator))
            return "inaccurate", "half of the digits are lost"
        if loses:
            return "ok", "zero but for rounding"
        return "ok", "rounding adds up" if is_off else ""

    def _is_right_in_parts(self, name: str, value: Value, evaluator: str) -> bool:
        """Test whether the evaluator is off only if it may omit intermediate values."""
        computed = self.values.get(evaluator, {}).get(value)
        if computed is None or evaluator == REFERENCE:
            return False
        text = f"{evaluator} returns a correct {name} if all intermediate values are requested"
        text += ", and a wrong one otherwise"
        finding = self.whole(value, evaluator, text)
        return self.measured.compared(value, computed).excess <= 1 and self._found(finding)

    def _special_fault(self, name: str, value: Value, evaluator: str) -> Finding:
        """Return the Finding for a NaN or an infinity that only one evaluator computes."""
        text = f"{evaluator} returns a wrong {name}: only one of it and the value in double is "
        text += "finite; each instruction on its own is right"
        found = self.fault_without_rounding(name, value, evaluator)
        return found or self.whole(value, evaluator, text)

    def _loses_digits(self, value: Value, comparison: Comparison) -> bool:
        if not is_inexact(value.shape):
            return False
        kind = type_of(value)
        if kind.real.bits < 64 and comparison.ulp <= 1:
            return False
        precision = self._coarsest(value)
        worst, error = comparison.relative, comparison.error
        if precision == _DOUBLE:
            # If double is the widest type, disturbances show the effect of rounding.
            spread = self.measured.spread[value]
            worst = max(worst, relative_error(spread, self.measured.truth[value]))
            error = max(error, float(spread.max(initial=0.0)))
        # XLA:CPU treats numbers below the smallest normal one as zero.
        tiny = float(real_part_info(kind.dtype).smallest_normal)
        return error > tiny and worst > precision**0.5

    def _coarsest(self, value: Value) -> float:
        """Return the precision of the coarsest type among the values that a value depends on."""
        steps = needed_for(value, self.graph)
        read = [operand for step in steps for operand in (*step.operands, *step.results)]
        return max(precision_of(type_of(x)) for x in [value, *read] if is_inexact(x.shape))

    def _is_zero_but_for_rounding(self, value: Value) -> bool:
        """Test whether even in double a value has only rounding errors, of terms that cancel."""
        truth, spread = self.measured.truth[value], self.measured.spread[value]
        largest = float(np.abs(truth).max(initial=0.0, where=np.isfinite(truth)))
        # The spread that rounding in double would have.
        share = _DOUBLE / self._coarsest(value)
        return largest <= _FEW * share * float(spread.max(initial=0.0))


def _has_nan(array: np.ndarray) -> bool:
    is_number = isinstance(array, np.ndarray) and element_type(array.dtype).is_inexact
    return is_number and bool(np.isnan(wide(array)).any())
