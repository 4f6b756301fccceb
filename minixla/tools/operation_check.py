"""check_op: every kernel and rule of an operation against its reference.

Each case is a cross-check with more evaluators: the ways in which programs are run, and the kernels
of other platforms. Small arrays, other types, other attributes and special values are made of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import minixla as mx
from minixla.core import attributes as kinds
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import (
    AttributeValueError,
    DerivativeError,
    GradientCheckError,
    MinixlaError,
    explain,
)
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import evaluate_graph
from minixla.extension.kernels import PythonKernel
from minixla.extension.kinds import EnumerationKind, TypeKind
from minixla.extension.registered import RegisteredOperation
from minixla.tools.comparison import real_part_info
from minixla.tools.cross_check import cross_check
from minixla.tools.evaluators import REFERENCE
from minixla.tools.reports import CrossCheckReport, Finding, Report, Row, Table, shown_number
from minixla.tools.terminal import shown_progress

_SECOND, _FAILED = "second derivatives", "fails"
_BAD = ("parts", "inaccurate", _FAILED)
#: Where a case is varied in element types, those that are tried.
_TYPES = ("f16", "bf16", "f32", "f64", "s8", "s32", "u8", "pred", "c64")


class Check(NamedTuple):
    """What one check of one case gave.

    Attributes:
        case: which case, and how it was varied.
        check: an evaluator, or `second derivatives`, `reference`.
        ulp: the largest error of all values, in units of the last place.
        verdict: "ok", "parts", "inaccurate", "fails" or "not evaluated".
        note: why.
    """

    case: str
    check: str
    ulp: float | None
    verdict: str
    note: str = ""


@dataclass(repr=False, eq=False)
class OperationReport(Report):
    """The outcome of `check_op`; printed, it is a table.

    Attributes:
        name: of the operation.
        checks: a Check for each case and evaluator.
        findings: a Finding for each place where evaluators part.
    """

    name: str
    checks: list[Check]
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether all who could be asked agree with the reference."""
        return not any(check.verdict in _BAD for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        return {**super().as_dict(), "ok": self.ok}

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        """Checks that went well are one line for each evaluator."""
        lines: dict[Any, list[Check]] = {}
        for check in self.checks:
            is_bad = check.verdict in _BAD
            key = (check.check, check.case) if is_bad else (check.check, check.verdict, check.note)
            lines.setdefault((not is_bad, *key), []).append(check)
        cells = []
        for same in lines.values():
            first, worst = same[0], max((x.ulp for x in same if x.ulp is not None), default=None)
            case = first.case if len(same) == 1 else f"{len(same)} cases"
            cells.append([first.check, case, shown_number(worst), first.verdict, first.note])
        bad = [number for number, cell in enumerate(cells) if cell[3] in _BAD]
        count = sum(check.verdict in _BAD for check in self.checks)
        outcome = f"{count} of {len(self.checks)} checks fail" if count else "ok"
        table = Table(("check", "of", "ulp", "verdict", "note"), cells, bad)
        return f"check_op of {self.name}: {outcome}", [table], list(map(str, self.findings))


@api_boundary
def check_op(
    op: Any,
    cases: Iterable[Any],
    *,
    order: int = 2,
    variants: bool = True,
    progress: Callable[[str], None] | None = None,
) -> OperationReport:
    """Checks every kernel and rule of an operation against its reference.

        report = mx.check_op(op, [(x,), ((x,), {"preserve_index": 2})])
        assert report.ok, report

    What is checked: the shape rule against the arrays that the reference gives; the kernel of the
    platform, and those of other platforms that are functions of traced values; eager and jitted
    calls, calls inside JAX, inside `scan`, under `pmap` and `vmap` (of all operands, of each alone,
    at each place of the batch); the text in StableHLO, read again; first derivatives in both modes
    in all these ways and against finite differences; second derivatives against differences.

    Args:
        op: what `register_op` or `custom_op` gave, a class of operation, or a builder.
        cases: tuples of arguments, or pairs of such a tuple and a dictionary of attributes.
        order: up to which order derivatives are checked: 0, 1 or 2.
        variants: whether each case is also tried with sizes 0 and 1, special values (NaN,
            infinities, -0, extremes), other element types and other values of attributes, as far
            as the operation takes them.
        progress: called with the name of each step; default: they are shown on terminals.

    Returns:
        An OperationReport: `ok`, `checks`, `findings`; printed, it is a table.

    Raises:
        AttributeValueError: a case is no tuple of arguments, or there is none.
    """
    call, name = _function_of(op)
    given = list(map(_case, cases))
    if not given:
        advice = "Give tuples of arguments: check_op(op, [(x,)])."
        raise explain(AttributeValueError, "check_op", "there is no case", (), advice)
    report = OperationReport(name, [], [])
    with contextlib.nullcontext(progress) if progress else shown_progress("check_op") as say:
        for number, (arguments, attributes) in enumerate(given):
            label = f"case {number}"
            say(label)
            check = partial(_checked, report, op, call)
            check(label, arguments, attributes, order)
            for what, changed, options in _variants(op, arguments, attributes) if variants else ():
                say(f"{label}, {what}")
                check(f"{label}, {what}", changed, options, 0, is_variant=True)
    return report


def _function_of(op: Any) -> tuple[Callable[..., Any], str]:
    """What applies an operation, and its name."""
    if isinstance(op, type) and issubclass(op, Operation):
        return (lambda *args, **attributes: op(**attributes)(*args)), op.builder_name
    call = getattr(op, "wrapper", op)
    if not callable(call):
        advice = "Give what mx.register_op gave, a class of operation or its function."
        raise explain(AttributeValueError, "check_op", f"{op!r} is no operation", (), advice)
    return call, getattr(call, "__name__", str(op))


def _case(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[1], Mapping)
    arguments, attributes = given if is_pair else (given, {})
    if not isinstance(arguments, (tuple, list)):
        problem = f"a case is no tuple of arguments: {type(arguments).__name__}"
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
    """Enters what the checks of one case give."""

    def function(*args: Any) -> Any:
        return call(*args, **attributes)

    def enter(check: str, verdict: str, note: str = "", ulp: float | None = None) -> None:
        report.checks.append(Check(case, check, ulp, verdict, note))

    function.__name__ = report.name
    try:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            mx.reference(function)(*arguments)
    except MinixlaError as error:
        if not is_variant or _is_fault(error):
            enter(REFERENCE, _FAILED, _first_line(error))
        return
    except Exception as error:  # whatever the author's function raises
        enter(REFERENCE, _FAILED, f"{type(error).__name__}: {_first_line(error)}")
        return
    more = dict(_kernels(op)) if is_variant else {**_WAYS, **dict(_kernels(op))}
    silent: Callable[[str], None] = lambda _: None  # noqa: E731
    try:
        with np.errstate(all="ignore"):
            found = cross_check(
                function, *arguments, gradients=order > 0, evaluators=more, progress=silent
            )
    except Exception as error:  # a kernel's or rule's, which is what is looked for
        enter("cross_check", _FAILED, f"{type(error).__name__}: {_first_line(error)}")
        return
    report.findings += found.findings
    for evaluator, rows in _by_evaluator(found).items():
        enter(evaluator, *_verdict(evaluator, rows), _worst(rows))
    if order > 1 and not is_variant:
        try:
            with jax.enable_x64(True):
                mx.check_grads(function, arguments, order=order)
            enter(_SECOND, "ok")
        except GradientCheckError as error:
            enter(_SECOND, "parts", _first_line(error))
        except DerivativeError as error:
            enter(_SECOND, "not evaluated", _first_line(error))
        except MinixlaError as error:
            enter(_SECOND, _FAILED, _first_line(error))


def _is_fault(error: MinixlaError) -> bool:
    """Whether an error says that parts of the operation do not fit, and not the arguments."""
    return "than is declared" in str(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _by_evaluator(found: CrossCheckReport) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in found.rows:
        rows.setdefault(row.evaluator, []).append(row)
    return rows


def _worst(rows: Sequence[Row]) -> float | None:
    return max((row.ulp for row in rows if row.ulp is not None), default=None)


def _verdict(evaluator: str, rows: Sequence[Row]) -> tuple[str, str]:
    """The worst verdict of some values, and why."""
    bad = [row for row in rows if row.verdict in _BAD]
    if bad:
        return bad[0].verdict, f"{bad[0].value}: {bad[0].note}".rstrip(": ")
    left = [row for row in rows if row.verdict == "not evaluated"]
    if not left:
        return "ok", ""
    # StableHLO's interpreter does not know everything; the others must run what is there.
    reasons = ["there is no kernel for", "has no derivative"]
    # A kernel of another platform may call code that is only there.
    reasons += ["XLA has no code for the target"] * evaluator.startswith("kernel ")
    is_lacking = evaluator in ("interpreter", "all", "finite differences") or any(
        reason in row.note for row in left for reason in reasons
    )
    return ("not evaluated" if is_lacking else _FAILED), f"{left[0].value}: {left[0].note}"


# The ways in which programs are run.


def _arrays(results: Any) -> list[np.ndarray]:
    return list(map(np.asarray, results))


def _way(run: Callable[[Callable[..., Any], list[Any]], Any]) -> Callable[..., list[np.ndarray]]:
    """An evaluator that runs a function of arrays, which gives a list, in some way."""

    def evaluate(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        with jax.enable_x64(True):
            try:
                given = list(map(jax.numpy.asarray, operands))
                return _arrays(run(lambda *xs: list(evaluate_graph(graph, xs)), given))
            except RuntimeError as error:
                raise NotImplementedError(str(error)) from error

    return evaluate


def _scanned(function: Callable[..., Any], operands: list[Any]) -> Any:
    steps = [np.stack([each, each]) for each in operands]
    results = mx.scan(lambda _, xs: ((), function(*xs)), (), steps, length=2)[1]
    return [each[1] for each in results]


def _mapped(function: Callable[..., Any], operands: list[Any]) -> Any:
    one = [each[None] for each in operands]
    return [each[0] for each in mx.pmap(function, axis_size=1)(*one)] if one else function()


def _batched(which: int, function: Callable[..., Any], operands: list[Any]) -> Any:
    """The member at a place of a batch of three; the others are of the same arrays, rolled."""
    if not operands:
        return function()
    others = [np.roll(each, 1) if each.dtype.kind in "fc" else each for each in operands]
    members = [others, others, others]
    members[which] = operands
    stacked = [np.stack(each) for each in zip(*members, strict=True)]
    return [each[which] for each in mx.jit(mx.vmap(function))(*stacked)]


def _batched_alone(function: Callable[..., Any], operands: list[Any]) -> Any:
    """The function over batches of one operand after the other; where two part, the wrong one."""
    found = function(*operands)
    for number in range(len(operands)):
        axes = [0 if index == number else None for index in range(len(operands))]
        given = [np.stack([x, x]) if at == 0 else x for x, at in zip(operands, axes, strict=True)]
        again = [each[1] for each in mx.jit(mx.vmap(function, axes))(*given)]
        pairs = list(zip(again, found, strict=True))
        if not all(
            np.array_equal(*map(np.asarray, pair), equal_nan=_has_nan(pair)) for pair in pairs
        ):
            return again
    return found


def _has_nan(pair: Sequence[Any]) -> bool:
    return all(np.asarray(each).dtype.kind in "fc" for each in pair)


def _read_again(graph: Graph, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    function = mx.import_stablehlo(graph.stablehlo())
    results = _way(lambda _, given: jax.tree.leaves(mx.jit(function)(*given)))
    return results(graph, operands)


_WAYS: dict[str, Callable[..., Any]] = {
    "eager": _way(lambda function, given: function(*given)),
    "inside JAX": _way(lambda function, given: jax.jit(function)(*given)),
    "scan": _way(_scanned),
    "pmap": _way(_mapped),
    "vmap, first": _way(partial(_batched, 0)),
    "vmap, last": _way(partial(_batched, 2)),
    "vmap, each operand": _way(_batched_alone),
    "StableHLO, read again": _read_again,
}


def _kernels(op: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Evaluators for each kernel that may run here: those of traced values, and compiled ones."""
    if not isinstance(op, RegisteredOperation):
        return
    table = op.kernels
    for number, kernel in enumerate(table.listed):
        is_traced = isinstance(kernel, PythonKernel) and kernel.platform != REFERENCE
        if is_traced or (kernel.platform == jax.default_backend() and not is_traced):

            def run(function: Callable[..., Any], given: list[Any], kernel: Any = kernel) -> Any:
                table.forced = kernel
                try:
                    return mx.jit(lambda *xs: function(*xs))(*given)
                finally:
                    table.forced = None

            yield f"kernel {number} ({kernel.platform})", _way(run)


# Other arguments made of a case's.


def _variants(
    op: Any, arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """What a variant is called, its arguments and attributes."""

    def changed(change: Callable[[np.ndarray], Any]) -> tuple[Any, ...]:
        return jax.tree.map(lambda x: change(np.asarray(x)), arguments)

    for size in (0, 1):
        yield f"sizes {size}", changed(lambda x, n=size: x[(slice(n),) * x.ndim]), attributes
    yield "special values", changed(_special), attributes
    definition = getattr(op, "definition", None)
    if definition is None:
        return
    types = [definition.attributes[name].kind for name in definition.inferred]
    if any(isinstance(getattr(kind, "member", kind), TypeKind) for kind in types):
        for name in _TYPES:
            dtype = ELEMENT_TYPES[name].dtype
            yield f"of {name}", changed(lambda x, d=dtype: x.astype(d)), attributes
    for name, declared in definition.attributes.items():
        if name not in definition.inferred:
            default = None if declared.default is kinds.REQUIRED else declared.default
            for value in _other_values(declared.kind, attributes.get(name, default)):
                yield f"{name} = {value!r}", arguments, {**attributes, name: value}


def _special(array: np.ndarray) -> np.ndarray:
    """An array of the same shape and type that holds special values."""
    if array.dtype.kind == "b":
        return ~array
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values: Any = [limits.min, limits.max, 0, 1]
    else:
        limits = real_part_info(array.dtype)
        values = [np.nan, np.inf, -np.inf, -0.0, float(limits.max), float(limits.tiny), 1.0]
    return np.resize(np.array(values).astype(array.dtype), array.shape)


def _other_values(kind: Any, value: Any) -> list[Any]:
    if isinstance(kind, EnumerationKind):
        return [each for each in kind.names if each != value]
    if isinstance(kind, kinds.Boolean):
        return [not value]
    if isinstance(kind, kinds.Integer) and value is not None:
        return [value + 1]
    if isinstance(kind, kinds.Float) and value is not None:
        return [value + 0.5]
    return []
