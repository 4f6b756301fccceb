"""`check_op`: every kernel and rule of an operation against its reference.

Each case is a cross-check with more evaluators: several ways to run programs, and the kernels of
other platforms. Variants of it have small arrays, other types, other attributes and special values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from minixla.core.errors import (
    AttributeValueError,
    DerivativeError,
    GradientCheckError,
    MinixlaError,
    check_arguments,
    explain,
)
from minixla.core.operation import Operation
from minixla.core.tracebacks import api_boundary
from minixla.extension.registered import RegisteredOperation
from minixla.interop.progress import shown_progress
from minixla.sharding.probing import wrong_factors
from minixla.tools.backends import WAYS, by_kernels
from minixla.tools.cross_check import cross_check
from minixla.tools.evaluators import REFERENCE
from minixla.tools.gradient_check import check_grads
from minixla.tools.operation_report import BAD, FAILED, Check, OperationReport
from minixla.tools.operation_variants import variants_of
from minixla.tools.reports import FAULTS, CrossCheckReport, Row
from minixla.transforms import make_graph, reference

_SECOND = "second derivatives"
_SHARDING = "sharding rule"
# A part of the error message for an operation without a kernel for this machine.
_NO_KERNEL = "no kernel is registered for"
# Parts of the error messages for derivatives that an operation lacks. All other errors of
# derivative rules are faults.
_LACKING = ("has no derivative", "no derivative is registered", "but no reverse derivative")
_LACKING += ("the operation has no jvp rule", "the operation has no transpose rule")
_LACKING += ("can't apply forward-mode autodiff",)


@api_boundary
def check_op(
    op: RegisteredOperation | type[Operation] | Callable[..., Any],
    cases: Iterable[Sequence[Any]],
    *,
    order: int = 2,
    variants: bool = True,
    progress: Callable[[str], None] | None = None,
) -> OperationReport:
    """Check every kernel and rule of an operation against its reference.

        report = mx.check_op(op, [(x,), ((x,), {"preserve_index": 2})])
        assert report.ok, report

    The checks cover:

    - the shape rule, against the arrays that the reference returns;
    - the kernel of the platform, and other platforms' kernels that are functions of traced values;
    - eager and jitted calls, and calls inside JAX, inside `scan`, and under `pmap`;
    - `vmap` over all operands, over each operand, and with the values at each batch position;
    - the StableHLO text, read again;
    - first derivatives in both modes, in all these ways and against finite differences;
    - second derivatives against differences; and
    - the sharding rule, if one is stated, against the reference's results for blocks.

    Args:
        op: the result of `register_op` or `custom_op`, a class of operation, or a builder.
        cases: tuples of arguments, or pairs of a tuple and a dictionary of attributes.
        order: the highest order of derivatives to check: 0, 1 or 2.
        variants: whether to also try each case with sizes 0 and 1; special values (NaN, infinities,
            -0, minima, maxima); and other element types and attributes that the operation accepts.
        progress: called with the name of each step; default: steps are shown on terminals.

    Returns:
        An OperationReport: `ok`, `checks`, `findings`; it prints as a table.

    Raises:
        AttributeValueError: a case is not a tuple of arguments, or the list is empty.

    Example:
        >>> @mx.custom_op("example.twice")
        ... def twice(x: mx.Array) -> mx.Array:
        ...     return x + x
        >>> mx.check_op(twice, [(np.float32([1, 2]),)], order=0, variants=False).ok
        True
    """
    call, name = _function_of(op)
    is_function = progress is None or callable(progress)
    check_arguments("check_op", progress=(progress, is_function, "a function of a text, or None"))
    if not isinstance(cases, Iterable) or order not in (0, 1, 2):
        problem, details = "cases or order is invalid", [f"cases: {type(cases).__name__}"]
        advice = "Pass a list of cases, check_op(op, [(x,)]), and an order of 0, 1 or 2."
        raise explain(
            AttributeValueError, "check_op", problem, [*details, f"order: {order!r}"], advice
        )
    cases_given = list(map(_case, cases))
    if not cases_given:
        advice = "Pass tuples of arguments: check_op(op, [(x,)])."
        raise explain(AttributeValueError, "check_op", "the list of cases is empty", (), advice)
    report = OperationReport(name, [], [])
    checks: list[tuple[str, Callable[[], None]]] = []
    check = partial(_checked, report, op, call)
    for number, (arguments, attributes) in enumerate(cases_given):
        label = f"case {number}"
        checks.append((label, partial(check, label, arguments, attributes, order)))
        has_variants = variants and not _has_strings(arguments)
        for what, *changed in variants_of(op, arguments, attributes) if has_variants else ():
            label = f"case {number}, {what}"
            checks.append((label, partial(check, label, *changed, 0, is_variant=True)))
    reporter = shown_progress("check_op", len(checks))
    with contextlib.nullcontext(progress) if progress else reporter as say:
        for label, run in checks:
            say(label)
            run()
    return report


def _function_of(op: Any) -> tuple[Callable[..., Any], str]:
    """Return the function that applies an operation, and its name."""
    if isinstance(op, type) and issubclass(op, Operation):
        return (lambda *args, **attributes: op(**attributes)(*args)), op.builder_name
    call = getattr(op, "wrapper", op)
    if not callable(call):
        advice = "Pass the result of mx.register_op, a class of operation or its function."
        raise explain(AttributeValueError, "check_op", f"{op!r} is not an operation", (), advice)
    return call, getattr(call, "__name__", str(op))


def _case(case: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    is_pair = isinstance(case, (tuple, list)) and len(case) == 2 and isinstance(case[1], Mapping)
    arguments, attributes = case if is_pair else (case, {})
    if not isinstance(arguments, (tuple, list)):
        problem = f"a case is not a tuple of arguments: {type(arguments).__name__}"
        advice = "Write (x, y), or ((x, y), {'attribute': value})."
        raise explain(AttributeValueError, "check_op", problem, (), advice)
    numbers = jax.tree.map(lambda x: x if hasattr(x, "dtype") else np.asarray(x), tuple(arguments))
    return numbers, dict(attributes)


def _checked(
    report: OperationReport,
    op: Any,
    call: Callable[..., Any],
    case: str,
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
    order: int,
    is_variant: bool = False,
) -> None:
    """Add the results of the checks of one case to a report."""

    def function(*args: Any) -> Any:
        return call(*args, **attributes)

    def enter(check: str, verdict: str, note: str = "", ulp: float | None = None) -> None:
        report.checks.append(Check(case, check, ulp, verdict, note))

    function.__name__ = report.name
    if _has_strings(arguments):  # only the reference takes strings, outside of programs
        enter(REFERENCE, *_verdict_of_call(function, arguments))
        return
    try:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            reference(function)(*arguments)
    except MinixlaError as error:
        if not is_variant or _is_fault(error):
            enter(REFERENCE, FAILED, _first_line(error))
        return
    except Exception as error:  # the author's function may raise any error
        enter(REFERENCE, FAILED, f"{type(error).__name__}: {_first_line(error)}")
        return
    more = dict(by_kernels(op)) if is_variant else {**WAYS, **dict(by_kernels(op))}
    try:
        with np.errstate(all="ignore"):
            options: Any = {"gradients": order > 0, "evaluators": more}
            found = cross_check(function, *arguments, **options, progress=lambda _: None)
    except Exception as error:  # an error of a kernel or rule, which the check looks for
        enter("cross_check", FAILED, f"{type(error).__name__}: {_first_line(error)}")
        return
    report.findings += [finding for finding in found.findings if finding.kind not in FAULTS]
    for evaluator, rows in _by_evaluator(found).items():
        worst = max((row.ulp for row in rows if row.ulp is not None), default=None)
        enter(evaluator, *_verdict(evaluator, rows), worst)
    if getattr(op, "sharding_notation", None) and not is_variant:
        enter(_SHARDING, *_sharding_verdict(op, function, arguments))
    if order > 1 and not is_variant:
        try:
            # Without a kernel for this machine only the reference can be differentiated.
            has_kernel = not any(_NO_KERNEL in row.note for row in found.rows)
            with jax.enable_x64(True), np.errstate(all="ignore"):
                evaluate = None if has_kernel else "reference"
                check_grads(function, arguments, order=order, evaluate=evaluate)
            enter(_SECOND, "ok")
        except GradientCheckError as error:
            enter(_SECOND, "parts", _first_line(error))
        except DerivativeError as error:
            is_lacking = any(reason in str(error) for reason in _LACKING)
            enter(_SECOND, "not run" if is_lacking else FAILED, _first_line(error))
        except Exception as error:  # a rule may raise any error
            enter(_SECOND, FAILED, f"{type(error).__name__}: {_first_line(error)}")


def _has_strings(arguments: Sequence[Any]) -> bool:
    return any(leaf.dtype.kind in "OSU" for leaf in jax.tree.leaves(arguments))


def _verdict_of_call(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[str, str]:
    """Return whether a function accepts the arguments, and its error if it does not."""
    try:
        function(*arguments)
    except Exception as error:  # the author's function may raise any error
        return FAILED, f"{type(error).__name__}: {_first_line(error)}"
    return "ok", ""


def _sharding_verdict(
    op: RegisteredOperation, function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[str, str]:
    """Return the verdict on an operation's sharding rule, and what is wrong."""
    for step in make_graph(function)(*arguments).instructions:
        if isinstance(step.op, op.operation):
            shapes = [value.shape for value in step.operands]
            try:
                rule = step.op.sharding_rule(*shapes)
            except MinixlaError as error:
                return FAILED, _first_line(error)
            problems = wrong_factors(step.op, shapes, rule) if rule else []
            if problems:
                return FAILED, "; ".join(problems)
    return "ok", ""


def _is_fault(error: MinixlaError) -> bool:
    """Test whether an error is about parts of the operation that do not match, not arguments."""
    return "than is declared" in str(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _by_evaluator(report: CrossCheckReport) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in report.rows:
        rows.setdefault(row.evaluator, []).append(row)
    return rows


def _verdict(evaluator: str, rows: Sequence[Row]) -> tuple[str, str]:
    """Return the worst verdict on some values, and the reason."""
    bad = [row for row in rows if row.verdict in BAD]
    if bad:
        return bad[0].verdict, f"{bad[0].value}: {bad[0].note}".rstrip(": ")
    left = [row for row in rows if row.verdict == "not run"]
    if not left:
        return "ok", ""
    # StableHLO's interpreter lacks some operations; the others must run everything.
    reasons = [_NO_KERNEL, "has no derivative"]
    # A kernel of another platform may call code that exists only there.
    if evaluator.startswith("kernel "):
        reasons += ["XLA has no code for the target", "has no program for the platform"]
    is_lacking = evaluator in ("interpreter", "all", "finite differences") or any(
        reason in row.note for row in left for reason in reasons
    )
    return ("not run" if is_lacking else FAILED), f"{left[0].value}: {left[0].note}"
