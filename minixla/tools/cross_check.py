"""cross_check: one program through several evaluators, forwards and backwards."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.graph import Graph, Value
from minixla.core.tracebacks import api_boundary
from minixla.tools.checked_function import CheckedFunction
from minixla.tools.comparison import Comparison, precision_of, real_part_info, relative_error
from minixla.tools.derivative_check import check_derivatives
from minixla.tools.evaluators import DIFFERENCES, EVALUATORS, JAX, REFERENCE, Evaluator, checked
from minixla.tools.graph_parts import is_inexact, needed_for, type_of
from minixla.tools.localization import Search, known_error, wrong_step
from minixla.tools.opinions import Opinion, Opinions
from minixla.tools.reports import KINDS, CrossCheckReport, Finding, Row
from minixla.tools.rounding import Measured
from minixla.tools.terminal import shown_progress
from minixla.transforms.arguments import checked_function

_DOUBLE = precision_of(ELEMENT_TYPES["f64"])
# Times the spread of rounding in double: what is smaller may be zero.
_FEW = 64


@api_boundary
def cross_check(
    fun: Callable[..., Any],
    *args: Any,
    against: Callable[..., Any] | None = None,
    gradients: bool = True,
    evaluators: Mapping[str, Callable[..., Any]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> CrossCheckReport:
    """Runs one program through several evaluators and compares what they give.

        report = mx.cross_check(loss, parameters, batch)
        assert report.ok, report

    The evaluators are our NumPy reference, StableHLO's interpreter (where it can be asked) and XLA;
    all are measured against the reference in double. With `gradients`, forward and reverse
    derivatives along fixed random directions are checked in the same way, and against difference
    quotients. Integers and booleans must be equal; for floats `minixla.tools.rounding` says what is
    allowed. Where evaluators part, the report names the first instruction that one of them gets
    wrong on the same operands; where digits are lost, the instruction that loses them.

    Args:
        fun: a function of pytrees of arrays, traceable and without side effects.
        *args: its arguments.
        against: a JAX function of the same arguments that should give the same.
        gradients: whether derivatives are checked, where there are any. A function with a
            `custom_vjp` has none forwards, which the report says.
        evaluators: more evaluators by name, functions as `register_evaluator` takes them, which
            adds one to every check.
        progress: called with the name of each step; default: they are shown where standard error
            is a terminal, and in notebooks.

    Returns:
        A CrossCheckReport: `ok`, `rows`, `findings`; printed, it is a table.

    Raises:
        TransformError: the function has side effects, or gives what cannot be compared; an
            evaluator gives other results than the graph has.
    """
    checked_function(fun, "cross_check")
    more = [checked("cross_check", Evaluator(*each)) for each in (evaluators or {}).items()]
    asked = [*EVALUATORS.values(), *more]
    with contextlib.nullcontext(progress) if progress else shown_progress("cross_check") as say:
        say("tracing")
        function = CheckedFunction(fun, args)
        theirs = {} if against is None else function.run_jax(against, gradients)
        return _check(function, gradients, theirs, Opinions(asked, say))


def _check(
    function: CheckedFunction, gradients: bool, theirs: dict[str, Opinion], opinions: Opinions
) -> CrossCheckReport:
    rows: list[Row] = []
    findings: list[Finding] = []
    gradients = gradients and function.has_derivatives
    for kind in KINDS if gradients else ["result"]:
        opinions.say(f"the {KINDS[kind]}")
        program, named = function.program(kind), function.named_outputs(kind)
        if isinstance(program, str):
            rows += [Row(name, str(shape), "all", note=program) for name, shape in named]
            continue
        checked = _Checked(kind, program, opinions)
        rows += checked.rows(named, theirs.get(kind))
        findings += checked.findings
    if gradients:
        opinions.say(DIFFERENCES)
        compared_rows, wrong = check_derivatives(function, opinions)
        rows += compared_rows
        findings += wrong
    names = [row.value for row in rows if row.evaluator == JAX and row.verdict == "parts"]
    if names and not findings:
        text = f"the JAX function gives other values of {', '.join(names[:4])}; all others agree"
        is_compared = any(row.evaluator == DIFFERENCES for row in rows)
        text += ", finite differences too" if is_compared else ""
        findings.append(Finding("whole", suspects=(JAX,), explanation=text))
    return CrossCheckReport(function.graph.name, rows, _distinct(findings))


class _Checked(Search):
    """One program, evaluated by all; `findings`: where evaluators part."""

    def __init__(self, kind: str, program: Sequence[Any], opinions: Opinions) -> None:
        opinions.say(f"the {KINDS[kind]}: {REFERENCE}")
        super().__init__(kind, Measured(*program), opinions)
        self.graph: Graph = program[0]
        self.findings: list[Finding] = []
        self._is_wrong = False

    def rows(self, named: Sequence[tuple[str, Any]], theirs: Opinion | None) -> list[Row]:
        """A Row for each output, of some name and shape, and evaluator; `theirs` is JAX's."""
        rows = []
        own = [self.measured.reference[value] for value in self.graph.outputs]
        operands, what = self.measured.operands, f"the {KINDS[self.kind]}"
        given = {REFERENCE: own, **self.opinions.everywhere(self.graph, operands, what)}
        given |= {} if theirs is None else {JAX: theirs}
        compare = functools.partial(map, self.measured.compared, self.graph.outputs)
        pairs = given.items()
        comparisons = {name: list(compare(x)) for name, x in pairs if not isinstance(x, str)}
        if any(each.excess > 1 for row in comparisons.values() for each in row):
            known = known_error(self.kind, self.graph, self.measured.reference, self.opinions)
            self._is_wrong = self._found(known or wrong_step(self))
        for index, (name, shape) in enumerate(named):
            for evaluator, results in given.items():
                place = name, str(shape), evaluator
                if isinstance(results, str):
                    rows.append(Row(*place, note=results))
                    continue
                found = comparisons[evaluator][index]
                numbers = found.ulp, found.relative, found.excess, found.bound
                verdict = self._verdict(name, self.graph.outputs[index], evaluator, found)
                rows.append(Row(*place, *numbers, *verdict))
        return rows

    def _found(self, finding: Finding | None) -> bool:
        self.findings += filter(None, [finding])
        return finding is not None

    def _verdict(self, name: str, value: Value, evaluator: str, comparison: Comparison) -> Any:
        """What the report says of an output in an evaluator, and why."""
        is_off = comparison.excess > 1
        loses = self._loses_digits(value, comparison)
        is_accused = any(evaluator in finding.suspects for finding in self.findings)
        if (is_off or loses) and not is_accused:
            asked = [each for each in self.opinions.evaluators if each.name == evaluator]
            gaps = (each.gap(step) for each in asked for step in needed_for(value, self.graph))
            for gap in filter(None, gaps):
                return "not evaluated", gap
        if is_off and (self._is_wrong or evaluator == JAX):
            return "parts", ""
        if is_off and self._is_right_in_parts(name, value, evaluator):
            return "parts", "as a whole only"
        if is_off and value not in self.measured.spread:
            self._found(self.decision(evaluator))
            return "parts", "rounding decides it"
        if loses and not self._is_zero_but_for_rounding(value):
            self._found(self.jump(value, evaluator))
            return "inaccurate", "half of the digits are lost"
        if loses:
            return "ok", "zero but for rounding"
        return "ok", "rounding adds up" if is_off else ""

    def _is_right_in_parts(self, name: str, value: Value, evaluator: str) -> bool:
        """Whether the evaluator is off only while it may leave out intermediate values."""
        found = self.values.get(evaluator, {}).get(value)
        if found is None or evaluator == REFERENCE:
            return False
        text = f"{evaluator} gives {name} right where all intermediate values are asked for"
        text += ", and otherwise not"
        finding = Finding("whole", self.kind, suspects=(evaluator,), explanation=text)
        return self.measured.compared(value, found).excess <= 1 and self._found(finding)

    def _loses_digits(self, value: Value, comparison: Comparison) -> bool:
        if value not in self.measured.spread:
            return False
        kind = type_of(value)
        if kind.real.bits < 64 and comparison.ulp <= 1:
            return False
        precision = self._coarsest(value)
        worst, error = comparison.relative, comparison.error
        if precision == _DOUBLE:
            # Where double is all that there is, disturbances show what rounding does.
            spread = self.measured.spread[value]
            worst = max(worst, relative_error(spread, self.measured.truth[value]))
            error = max(error, float(spread.max(initial=0.0)))
        # XLA:CPU takes numbers below the smallest normal one for zero.
        tiny = float(real_part_info(kind.dtype).smallest_normal)
        return error > tiny and worst > precision**0.5

    def _coarsest(self, value: Value) -> float:
        """The precision of the coarsest type among the values that a value is computed from."""
        steps = needed_for(value, self.graph)
        read = [each for step in steps for each in (*step.operands, *step.results)]
        return max(precision_of(type_of(x)) for x in [value, *read] if is_inexact(x.shape))

    def _is_zero_but_for_rounding(self, value: Value) -> bool:
        """Whether even double has nothing of a value but rounding errors, of terms that cancel."""
        truth, spread = self.measured.truth[value], self.measured.spread[value]
        largest = float(np.abs(truth).max(initial=0.0, where=np.isfinite(truth)))
        # The spread that rounding in double would have.
        share = _DOUBLE / self._coarsest(value)
        return largest <= _FEW * share * float(spread.max(initial=0.0))


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Each error once, at the first place where it was found."""
    errors: dict[Any, list[Finding]] = {}
    for each in findings:
        errors.setdefault(_error(each), []).append(each)
    found = []
    for first, *others in errors.values():
        count = "another instruction" if len(others) == 1 else f"{len(others)} more instructions"
        text = f"{first.explanation}; so too at {count}"
        found.append(first._replace(explanation=text) if others else first)
    return found


def _error(finding: Finding) -> tuple[Any, ...]:
    """Equal for findings of one error: an operation's rule is one for all programs."""
    rule = finding.kind, finding.operation, finding.suspects
    if not {"reference rule", "StableHLO form", "derivative rule"}.isdisjoint(finding.suspects):
        return rule
    more = {"rule": finding.shapes, "derivative": finding.source}
    return *rule, more.get(finding.kind, (finding.program, finding.instruction))
