"""Rules that transformations inside a checked function apply: derivative rules and batching rules.

All backends run the program that these rules have made, so that they agree where a rule is wrong.
Each rule is therefore recorded while the function is traced, and checked on the operands that the
operation has in the program: a derivative rule by difference quotients of its operation, a batching
rule by its operation on one batch element at a time.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np

from minixla.core.batching import BatchTracer
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Operation
from minixla.core.reverse import Cotangents, Gradients, Node
from minixla.core.shapes import Shape
from minixla.core.source import Source, find_source
from minixla.core.state import state
from minixla.core.tracer import Tracer, WrappingTracer
from minixla.core.tracing import GraphTracer, bind, shape_of
from minixla.tools.comparison import shown_element, wide
from minixla.tools.graph_parts import every_step, inner_runs, is_array
from minixla.tools.reports import Finding, Row
from minixla.tools.rounding import in_double
from minixla.transforms import make_graph, vmap
from minixla.transforms.watching import NumberWatch
from minixla_ops.programs.runs_programs import CallsProgram, RunsPrograms, SpansDevices

#: The maximum number of rules that are checked.
_MOST_RULES = 200
#: The maximum number of batch elements that are computed one at a time.
_MOST_ELEMENTS = 4
#: The largest error of a batched result in double, in units of its largest element.
_TOLERANCE = 1e-8
#: Backends choose their results.
_RANDOM = {"RngUniform", "RngNormal", "RngBitGenerator", "Undefined"}


class Application(NamedTuple):
    """One application of a rule.

    Attributes:
        operation: the operation whose rule it is.
        operands: the values of the trace in which the rule runs.
        active: whether the derivative is with respect to each operand; None for a batching rule.
        dimensions: the batch dimension of each operand; None for a derivative rule.
        size: the number of batch elements.
        source: the user's line.
    """

    operation: Operation
    operands: tuple[Any, ...]
    active: tuple[bool, ...] | None
    dimensions: tuple[Any, ...] | None
    size: int
    source: Source | None


class Records:
    """The first application of each rule to operands of some shapes."""

    def __init__(self) -> None:
        self.is_open = True
        self.applications: dict[Any, Application] = {}
        self.caches: dict[int, tuple[Any, dict[Any, Any]]] = {}

    def add(self, application: Application) -> None:
        """Keep an application unless the rule was applied to such operands before."""
        shapes = tuple(map(shape_of, application.operands))
        key = application.operation, shapes, application.active, application.dimensions
        if len(self.applications) < _MOST_RULES:
            self.applications.setdefault(key, application)


class Recorder(NumberWatch):
    """A watch that records which rules transformations apply; `token` is its Records."""

    @property
    def records(self) -> Records:
        """The recorded applications."""
        assert isinstance(self.token, Records)
        return self.token

    def differentiates(
        self, operation: Operation, operands: Sequence[Any], active: Sequence[bool]
    ) -> None:
        """Record the derivative rule of an operation."""
        if not self.records.is_open:
            return
        source = state.source or find_source()
        if operation.stage_operands is not None:
            # Values that the function reads besides its arguments have no derivative.
            operation, operands = operation.stage_operands(tuple(operands))
            active = [False] * (len(operands) - len(active)) + list(active)
        place = tuple(operands), tuple(active), None, 0, source
        self.records.add(Application(operation, *place))

    def batches(
        self,
        operation: Operation,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        size: int,
    ) -> None:
        """Record the batching rule of an operation."""
        if self.records.is_open and _has_own_batching(operation):
            source = state.source or find_source()
            place = tuple(operands), None, tuple(dimensions), size, source
            self.records.add(Application(operation, *place))

    def cached(self, cache: Any) -> Any:
        """Return a separate cache for the check, so that no entry outlives it."""
        return self.records.caches.setdefault(id(cache), (cache, {}))[1]

    def pull(self, node: Node, cotangents: Cotangents) -> Gradients:
        """Return the result of a node's pullback, at the line of the function."""
        pullback: Any = node.pullback
        return pullback(cotangents)

    def jvp(self, operation: Operation) -> Any:
        """Return the jvp rule of an operation."""
        return operation.jvp


def _has_own_batching(operation: Operation) -> bool:
    """Test whether a batching rule can be compared with one batch element at a time."""
    if isinstance(operation, (CallsProgram, SpansDevices)):
        return False  # the operations of the program are recorded, or it runs on several devices
    inside = [step.op for graph in operation.computations for step in every_step(graph)]
    needs_trace = [x for x in (operation, *inside) if x.batch_within is not None]
    # Collectives use the axis of the trace.
    return all(isinstance(each, (CallsProgram, RunsPrograms)) for each in needs_trace)


class OperandValues:
    """The values of a program and of the programs that it runs, computed when needed."""

    def __init__(self, graph: Graph, operands: Sequence[Any]) -> None:
        self._values: dict[Value, Any] = {}
        self._enter(graph, operands)

    def _enter(self, graph: Graph, operands: Sequence[Any]) -> None:
        pending, seen = [(graph, list(operands))], set[int]()
        while pending:
            inner, arguments = pending.pop()
            if id(inner) in seen or len(inner.inputs) != len(arguments):
                continue
            seen.add(id(inner))
            self._values |= dict(zip(inner.inputs, arguments, strict=True))
            for step in inner.instructions:
                if step.op.computations and isinstance(step.op, (CallsProgram, RunsPrograms)):
                    read = [self.of(operand) for operand in step.operands]
                    if all(value is not None for value in read):
                        pending += [(run, list(some)) for run, some in _first_runs(step, read)]

    def of(self, value: Value) -> Any:
        """Return the value as an array or a tuple of arrays; None if it is unknown."""
        stack = [value]
        while stack:
            step = stack[-1].instruction
            if stack[-1] in self._values:
                stack.pop()
            elif step is None:  # an input of a program that did not run
                self._values[stack.pop()] = None
            elif missing := [x for x in step.operands if x not in self._values]:
                stack += missing
            else:
                self._values |= dict(zip(step.results, self._evaluated(step), strict=True))
        return self._values[value]

    def _evaluated(self, step: Instruction) -> Sequence[Any]:
        read = [self._values[operand] for operand in step.operands]
        if any(operand is None for operand in read) or step.has_side_effect:
            return [None] * len(step.results)
        with np.errstate(all="ignore"):
            outcome = step.op.reference(*read)
        return (outcome,) if step.single else outcome

    def array_of(self, operand: Any) -> np.ndarray | None:
        """Return the array of a rule's operand, for the first of its batch elements."""
        if isinstance(operand, BatchTracer):
            array, dimension = self.array_of(operand.value), operand.known
            if array is None or dimension is None:
                return array
            is_known = isinstance(dimension, int) and array.shape[dimension] > 0
            return np.take(array, 0, dimension) if is_known else None
        if isinstance(operand, WrappingTracer):
            return self.array_of(operand.value)
        if isinstance(operand, GraphTracer):
            found = self.of(operand._value)
            return found if isinstance(found, np.ndarray) else None
        if isinstance(operand, (Tracer, jax.core.Tracer)):
            return None
        return np.asarray(operand).astype(getattr(shape_of(operand), "dtype", None))


def _first_runs(step: Instruction, operands: Sequence[Any]) -> Iterator[tuple[Graph, Any]]:
    """Yield the programs that an instruction runs and the operands of their first run."""
    if step.op.name == "Scan":
        count = len(operands) - step.op.carries
        at = step.op.length - 1 if step.op.is_reverse else 0
        if step.op.length:
            rows = [np.take(operand, at, step.op.scan_dimension) for operand in operands[:count]]
            yield step.op.to_apply, [*rows, *operands[count:]]
    elif isinstance(step.op, CallsProgram):
        yield step.op.computations[0], operands
    else:
        yield from inner_runs(step, operands, 1) or ()


def check_rules(
    records: Records, graph: Graph, operands: Sequence[Any], wrong_derivative: Any, is_meant: Any
) -> tuple[list[Row], list[Finding]]:
    """Check the recorded rules of a function: a Row and a Finding for each wrong one.

    Args:
        records: what was recorded while the function was traced.
        graph: the function's program.
        operands: its operands.
        wrong_derivative: `wrong_derivative(step, operands, graph, active)` gives a Finding or None.
        is_meant: whether such a Finding is what its operation declares.
    """
    values = OperandValues(graph, operands)
    rows, findings = [], []
    for application in records.applications.values():
        arrays = [values.array_of(operand) for operand in application.operands]
        if any(array is None for array in arrays) or application.operation.name in _RANDOM:
            continue
        # A rule may need more than its operands' values, such as a solver's iterations.
        with contextlib.suppress(Exception):
            step = _alone(application, arrays)
            if step is None:
                continue
            program = Graph(step.operands, [step], step.results)
            if application.active is None:
                finding = _wrong_batching(application, step, program, arrays)
            else:
                finding = wrong_derivative(step, arrays, program, application.active)
            if finding is not None and not is_meant(finding):
                findings.append(finding._replace(instruction=None, node=""))
                rows.append(_row(finding, step))
    return rows, findings


def _alone(application: Application, arrays: Sequence[Any]) -> Instruction | None:
    """Return the operation on operands of these arrays' shapes, for one batch element."""
    shapes = [Shape(array.dtype, array.shape) for array in arrays]
    if application.dimensions is not None:
        pairs = zip(shapes, application.dimensions, strict=True)
        shapes = [s if at is None else s.without_dimension(at) for s, at in pairs]
    inputs = tuple([Value(shape, None, number) for number, shape in enumerate(shapes)])
    results = application.operation.infer(tuple(shapes))
    step = Instruction(application.operation, inputs, results, application.source)
    return step if all(map(is_array, [*inputs, *step.results])) else None


def _row(finding: Finding, step: Instruction) -> Row:
    name = f"{finding.suspects[0]} of {step.op.builder_name}"
    place = name, str(step.shapes[0]), "all"
    return Row(*place, verdict="parts", note="a transformation in the function uses it")


def _wrong_batching(
    application: Application, step: Instruction, program: Graph, arrays: Sequence[Any]
) -> Finding | None:
    """Return the Finding for a wrong batching rule; None if it is right."""
    dimensions, operation = application.dimensions, application.operation
    assert dimensions is not None
    is_wide = any(array.dtype.itemsize >= 8 for array in arrays)
    with jax.enable_x64(True) if is_wide else contextlib.nullcontext():
        batched = make_graph(vmap(lambda *some: bind(operation, *some), in_axes=dimensions))
        together = in_double(batched(*arrays), arrays)
    size = application.size
    for at in np.unique(np.linspace(0, size - 1, min(size, _MOST_ELEMENTS)).astype(int)):
        pairs = zip(arrays, dimensions, strict=True)
        some = [array if d is None else np.take(array, at, d) for array, d in pairs]
        for result, value in zip(together, in_double(program, some), strict=True):
            place = _difference(result[at], value)
            if place is not None:
                shown = [shown_element(x, place) for x in (value, result[at])]
                return _batching_finding(step, program, place, shown)
    return None


def _batching_finding(
    step: Instruction, program: Graph, place: tuple[int, ...], shown: Sequence[str]
) -> Finding:
    text = f"the batching rule of {step.op.builder_name} gives other results than the operation "
    text += "on one batch element at a time"
    values: dict[str, str] = dict(zip(("one at a time", "batched"), shown, strict=True))
    advice = "Compare the batching rule with the operation."
    finding = Finding("rule", suspects=("batching rule",), element=place, values=values)
    return finding._replace(explanation=text, advice=advice).at(step, program, "result")


def _difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[int, ...] | None:
    """Return the index of the first element that is too far off; None if all are close."""
    if ours.shape != theirs.shape:
        return ()
    if ours.size == 0:
        return None
    if ours.dtype.kind not in "fc":
        off = np.asarray(ours != theirs)
    else:
        ours, theirs = wide(ours), wide(theirs)
        largest = np.abs(theirs).max(initial=0.0, where=np.isfinite(theirs))
        with np.errstate(all="ignore"):
            is_same = (ours == theirs) | np.isnan(ours) & np.isnan(theirs)
            off = ~is_same & ~(np.abs(ours - theirs) <= _TOLERANCE * largest)
    if not off.any():
        return None
    return tuple(int(n) for n in np.argwhere(off)[0])
