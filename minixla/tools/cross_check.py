"""`cross_check`: one program and its derivatives in several evaluators."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from minixla.core.errors import check_arguments
from minixla.core.graph import Graph
from minixla.core.state import state
from minixla.core.tracebacks import api_boundary
from minixla.interop.progress import shown_progress
from minixla.legalize import platform_of
from minixla.tools.checked_function import CheckedFunction
from minixla.tools.checked_program import CheckedProgram
from minixla.tools.derivative_check import (
    check_derivatives,
    is_meant,
    raised_findings,
    wrong_rule,
)
from minixla.tools.evaluators import (
    ALONE,
    DIFFERENCES,
    EVALUATORS,
    ISOLATED,
    JAX,
    Evaluator,
    checked,
)
from minixla.tools.inner_rules import check_rules
from minixla.tools.nonfinite import Forward
from minixla.tools.oracle_values import Opinion, Opinions
from minixla.tools.reports import FAULTS, KINDS, CrossCheckReport, Finding, Row
from minixla.tools.xla_differences import Settings
from minixla.transforms.arguments import checked_function


@api_boundary
def cross_check(
    fun: Callable[..., Any],
    *args: Any,
    against: Callable[..., Any] | None = None,
    gradients: bool = True,
    evaluators: Mapping[str, Callable[..., Any]] | None = None,
    progress: Callable[[str], None] | None = None,
    isolated: bool = False,
) -> CrossCheckReport:
    """Run one program in several evaluators and compare the results.

        report = mx.cross_check(loss, parameters, batch)
        assert report.ok, report

    The evaluators are our NumPy reference, StableHLO's interpreter (if it supports the program) and
    XLA. A program for several devices runs on these and also on one device. All results are
    measured against the reference in double. With `gradients`, forward and reverse derivatives
    along fixed random directions are checked in the same way, and against difference quotients.

    Integers and booleans must be equal; `minixla.tools.rounding` defines how far floats may differ.
    If evaluators disagree, the report names the first instruction that one of them computes wrongly
    from the same operands. If digits are lost, it names the instruction that loses them. A NaN or
    an infinity is never rounding: the report names the operation where it begins, even if all
    agree.

    Args:
        fun: a function of pytrees of arrays, traceable and without side effects.
        *args: its arguments.
        against: a JAX function that should return the same for the same arguments; default: `fun`
            itself if it is written in JAX, that is, if its jaxpr has no minixla primitive.
        gradients: whether to check derivatives, if they exist. A function with a `custom_vjp` has
            no forward derivative; the report states it.
        evaluators: more evaluators by name, functions as for `register_evaluator`, which adds an
            evaluator to every check.
        progress: called with the name of each step; default: steps are shown in notebooks, and if
            standard error is a terminal.
        isolated: whether XLA runs in a separate process. A program that ends this process is then
            a finding.

    Returns:
        A CrossCheckReport: `ok`, `rows`, `findings`; it prints as a table. Its method
        `reproducer` writes a script that shows an error of XLA.

    Raises:
        TransformError: the function has side effects, or returns values that cannot be compared, or
            an evaluator's results do not match the graph.

    Example:
        >>> report = mx.cross_check(lambda x: mx.numpy.exp(x), np.float32([0, 1]))
        >>> report.ok
        True
    """
    for function in (fun, *[option for option in (against, progress) if option is not None]):
        checked_function(function, "cross_check")
    evaluators = {} if evaluators is None else evaluators
    is_dict = isinstance(evaluators, Mapping)
    check_arguments("cross_check", evaluators=(evaluators, is_dict, "a dictionary of functions"))
    more = [checked("cross_check", Evaluator(*evaluator)) for evaluator in evaluators.items()]
    asked = [*EVALUATORS.values(), *more]
    asked = [ISOLATED if isolated and x.name == ISOLATED.name else x for x in asked]
    with contextlib.nullcontext(progress) if progress else shown_progress("cross_check") as say:
        say("tracing")
        function = CheckedFunction(fun, args)
        asked += [ALONE] if function.graph.meshes else []
        is_own = against is None and _is_written_in_jax(fun, args)
        by_jax = fun if is_own else against
        theirs = {} if by_jax is None else function.run_jax(by_jax, gradients, is_own)
        return _check(function, gradients, theirs, Opinions(asked, say))


def _check(
    function: CheckedFunction, gradients: bool, theirs: dict[str, Opinion], opinions: Opinions
) -> CrossCheckReport:
    rows: list[Row] = []
    findings: list[Finding] = []
    programs: dict[str, tuple[Graph, list[np.ndarray]]] = {}
    doubtful: list[str] = []
    gradients = gradients and function.has_derivatives
    forward = Forward(function.graph, function.operands)
    for kind in KINDS if gradients else ["result"]:
        opinions.say(f"the {KINDS[kind]}")
        program, named = function.program(kind), function.named_outputs(kind)
        if isinstance(program, str):
            verdict = "fails" if kind in function.raised else "not run"
            rows += [
                Row(name, str(shape), "all", verdict=verdict, note=program) for name, shape in named
            ]
            findings += raised_findings(function, kind)
            continue
        checked = CheckedProgram(kind, program, opinions, forward)
        rows_of_kind = checked.rows(named, theirs.get(kind))
        programs[kind] = program
        doubtful += [kind] if any(map(_is_doubtful, rows_of_kind)) else []
        rows += rows_of_kind
        findings += checked.findings
        if kind == "result":
            wrong_rows, wrong = _inner_rules(function, opinions)
            rows += wrong_rows
            findings += wrong
        forward.is_faulty |= any(finding.kind in FAULTS for finding in checked.findings)
    if gradients:
        opinions.say(DIFFERENCES)
        compared_rows, wrong = check_derivatives(function, opinions)
        rows += compared_rows
        findings += wrong
    names = [row.value for row in rows if row.evaluator == JAX and row.verdict == "parts"]
    if names and not findings:
        text = f"the JAX function returns other values of {', '.join(names[:4])}; all others agree"
        is_compared = any(row.evaluator == DIFFERENCES for row in rows)
        text += ", finite differences too" if is_compared else ""
        advice = "Compare the two functions: the JAX function may compute something else."
        findings.append(Finding("compiler", suspects=(JAX,), explanation=text, advice=advice))
    graph = function.graph.silent()
    about = graph.name, rows, _distinct(findings), graph, function.operands, findings
    settings = Settings(platform_of(jax.default_backend()), state.disabled_rules)
    return CrossCheckReport(*about, programs, doubtful, settings)


def _is_doubtful(row: Row) -> bool:
    """Test whether XLA may be wrong about a value."""
    is_off = row.verdict in ("parts", "not finite", "fails", "not run")
    return row.evaluator == ISOLATED.name and is_off


def _inner_rules(function: CheckedFunction, opinions: Opinions) -> tuple[list[Row], list[Finding]]:
    """Check the rules that transformations inside the function apply."""
    if not function.records.applications:
        return [], []
    opinions.say("rules of transformations inside the function")
    graph, operands = function.graph, function.operands
    return check_rules(function.records, graph, operands, wrong_rule, is_meant)


def _is_written_in_jax(fun: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Test whether JAX can run a function without our operations."""
    try:
        jaxpr = jax.make_jaxpr(fun)(*args)
    except Exception:  # JAX cannot trace the function
        return False
    steps = list(_steps(jaxpr.jaxpr))
    return bool(steps) and not any(step.primitive.name.startswith("minixla") for step in steps)


def _steps(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr and of its inner jaxprs."""
    for step in jaxpr.eqns:
        yield step
        for inner in jax.tree.leaves([*step.params.values()]):
            if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                yield from _steps(getattr(inner, "jaxpr", inner))


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return each error once, at the first place where it was found."""
    errors: dict[Any, list[Finding]] = {}
    # A fault of the function itself also appears in its derivatives.
    faults = {
        (x.operation, x.source) for x in findings if x.kind in FAULTS and x.program == "result"
    }
    for finding in findings:
        is_again = finding.kind in FAULTS and (finding.operation, finding.source) in faults
        if not is_again or finding.program == "result":
            errors.setdefault(_error(finding), []).append(finding)
    distinct = []
    for first, *others in errors.values():
        if first.kind in FAULTS:  # the derivatives' programs hold the function's instructions
            distinct.append(first)
            continue
        count = "another instruction" if len(others) == 1 else f"{len(others)} more instructions"
        text = f"{first.explanation}; also at {count}"
        distinct.append(first._replace(explanation=text) if others else first)
    return distinct


def _error(finding: Finding) -> tuple[Any, ...]:
    """Return a key that is equal for findings of one error; all programs share a rule."""
    rule = finding.kind, finding.operation, finding.suspects
    if finding.kind in FAULTS:
        return *rule, finding.source
    if not {"reference rule", "StableHLO form", "derivative rule"}.isdisjoint(finding.suspects):
        return rule
    more = {"rule": finding.shapes, "derivative": finding.source}
    return *rule, more.get(finding.kind, (finding.program, finding.instruction))
