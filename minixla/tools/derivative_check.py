"""Comparison of a checked function's derivatives with difference quotients.

Where a derivative differs, in double, each instruction of the function is checked separately in
the same way. At corners, jumps and infinities no derivative is expected to equal its quotients.
"""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction
from minixla.core.linear import spread
from minixla.core.shapes import Shape
from minixla.core.source import innermost_source
from minixla.tools import graph_parts
from minixla.tools.checked_function import CheckedFunction
from minixla.tools.custom_rules import described_rule
from minixla.tools.differences import Leaf, Point, Quotients, Space
from minixla.tools.evaluators import DIFFERENCES
from minixla.tools.graph_parts import inlined, is_array, is_inexact
from minixla.tools.oracle_values import Opinions
from minixla.tools.reports import Finding, Row
from minixla.tools.rounding import declared_values, in_double, near_in_double
from minixla.transforms.custom_calls import CustomDerivativeCall

_STEP, _SMALL_STEP = 1e-6, 1e-9
# A step is at least this share of a number, some units of its last place.
_LEAST = 2.0**-46
# Quotients of a differentiable function grow less from the larger step to the smaller.
_GROWTH = 100.0
_TOLERANCE = 1e-5
_ROUNDINGS = 64


def check_derivatives(function: CheckedFunction, opinions: Opinions) -> tuple[list[Row], Any]:
    """Return a Row for each existing derivative, and Findings for wrong rules."""
    rows = []
    for _, name, shape, agreement in _agreements(function, opinions.say):
        verdict = "parts" if agreement.excess > 1 else "ok"
        if not np.isfinite(agreement.derivative) and verdict == "parts":
            # Its origin is searched for in the derivative's program.
            verdict = "not finite"
        shares = agreement.relative, agreement.excess
        rows.append(Row(name, str(shape), DIFFERENCES, None, *shares, None, verdict))
    if all(row.verdict != "parts" for row in rows):
        return rows, []
    opinions.say("looking for wrong derivative rules")
    findings = _wrong_derivatives(function.graph, function.operands, opinions)
    wrong = [finding for finding in findings if not is_meant(finding)]
    if wrong or not findings:
        return rows, wrong
    note = f"{findings[0].suspects[0]} makes it another function's derivative"
    meant = [row if row.verdict == "ok" else row._replace(verdict="ok", note=note) for row in rows]
    return meant, findings


def is_meant(finding: Finding) -> bool:
    """Test whether an operation declares another function's derivative as its own."""
    is_of_a_rule = not {"derivative rule", "custom rule"}.isdisjoint(finding.suspects)
    return finding.kind == "derivative" and not is_of_a_rule


def raised_findings(function: CheckedFunction, kind: str) -> list[Finding]:
    """Return a Finding for the error that a rule raised while a derivative was traced."""
    error = function.raised.get(kind)
    if error is None:
        return []
    text = f"a rule raised {type(error).__name__}: {error}"
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    found = innermost_source(reversed(frames))
    source = None if found is None else str(found)
    advice = "Fix the error that the rule raises."
    place = {"program": kind, "source": source, "explanation": text, "advice": advice}
    return [Finding("derivative", suspects=("custom rule",), **place)]


def _agreements(function: CheckedFunction, say: Any = lambda step: None) -> Iterator[Any]:
    """Yield the kind, name, shape and comparison of each existing derivative."""
    for agreement in _agreements_at(function, _STEP, say):
        if agreement[3].excess <= 1:
            yield agreement
            continue
        # The function may bend within a step; a wrong derivative is wrong at a smaller step, too.
        again = _agreements_at(function, _SMALL_STEP, say, _STEP)
        yield min(agreement, _same(again, agreement), key=lambda found: found[3].excess)


def _same(agreements: Iterator[Any], wanted: Any) -> Any:
    """Return the agreement of the same derivative."""
    return next(found for found in agreements if found[:2] == wanted[:2])


def _agreements_at(
    function: CheckedFunction, step: float, say: Any, larger: float | None = None
) -> Iterator[Any]:
    point = _point(function, step)
    inputs, outputs = point.inputs, point.outputs
    other = None if larger is None else _point(function, larger)

    def along(tangent: np.ndarray) -> Quotients:
        quotients = point.along(tangent)
        if other is None:
            return quotients
        # At a pole or a jump, quotients grow as the step shrinks, and the derivative does not
        # exist.
        return quotients.without_growth(other.along(tangent), _GROWTH)

    generator = np.random.default_rng(1)
    direction, cotangent = inputs.random(generator), outputs.random(generator)
    forward, reverse = function.program("jvp"), function.program("vjp")
    if not isinstance(forward, str):
        at_point = along(direction)
        arguments = [*function.operands, *inputs.arrays(at_point.tangent)]
        tangents = outputs.vector(in_double(forward[0], arguments))
        for output, part in zip(function.named_outputs("jvp"), outputs.parts, strict=True):
            yield "forward", *output, at_point.forward(tangents, part)
    if not isinstance(reverse, str):

        def pulled(cotangent: np.ndarray) -> np.ndarray:
            arguments = [*function.operands, *outputs.arrays(cotangent)]
            return inputs.vector(in_double(reverse[0], arguments))

        gradients = pulled(cotangent)
        for output, part in zip(function.named_outputs("vjp"), inputs.parts, strict=True):
            say(f"{DIFFERENCES}: {output[0]}")
            zeros = np.zeros_like(direction)
            zeros[part] = direction[part]
            quotients = along(zeros)
            agreement = quotients.reverse(cotangent, gradients)
            smooth = np.where(quotients.are_smooth, cotangent, 0)
            if agreement.excess <= 1 and smooth.any() and not quotients.are_smooth.all():
                # A corner of one result would hide errors in the gradients of all others.
                agreement = quotients.reverse(smooth, pulled(smooth))
            yield "reverse", *output, agreement


def _point(function: CheckedFunction, step: float) -> Point:
    """Return the function in double, of and to floats and complex numbers only."""
    moved = [value for value in function.graph.outputs if is_inexact(value.shape)]
    graph = inlined(graph_parts.showing(function.graph, moved).silent()).pruned()
    inputs, outputs = _space(graph.input_shapes), _space(graph.output_shapes)
    values = inputs.vector(list(compress(function.operands, function.moving)))

    near = near_in_double(graph, function.operands)

    def call(*arguments: np.ndarray) -> list[np.ndarray]:
        return near(spread(function.moving, arguments, function.operands))

    def tolerance(quotients: np.ndarray) -> np.ndarray:
        sizes = [np.abs(quotients[part]) for part in outputs.parts]
        largest = [size.max(initial=0, where=np.isfinite(size)) for size in sizes]
        return _TOLERANCE * (outputs.spread(largest) + 1e-6)

    results = outputs.vector(near(function.operands))
    scale = np.maximum(1, np.abs(values) * (_LEAST / step))
    options = step, scale, tolerance, _ROUNDINGS
    return Point(inputs, outputs, values, results, call, *options, is_smooth=False)


def _space(shapes: Sequence[Any]) -> Space:
    """Return the space of the floats and complex numbers among some shapes, in double."""
    inexact = list(filter(is_inexact, shapes))
    kinds = ["c128" if shape.element_type.is_complex else "f64" for shape in inexact]
    pairs = zip(kinds, inexact, strict=True)
    return Space([Leaf("", Shape(kind, shape.dimensions)) for kind, shape in pairs])


def _wrong_derivatives(graph: Graph, operands: Sequence[Any], opinions: Opinions) -> list[Finding]:
    """Return findings for instructions whose derivatives differ from difference quotients."""

    def is_plain_call(step: Instruction) -> bool:  # without a user's derivative
        return graph_parts.is_call(step) and not isinstance(step.op, CustomDerivativeCall)

    graph = inlined(graph.silent(), is_plain_call).pruned()
    values = declared_values(graph, operands)
    findings = []
    for step in graph.instructions:
        inputs = [values[value] for value in step.operands]
        finding = wrong_rule(step, inputs, graph)
        if finding is None:
            continue
        if _uses_a_wrong_reference(step, inputs, opinions):
            continue  # the quotients and the rule compute with it
        # Search the programs that it runs for the first one that contains an error.
        runs = graph_parts.inner_runs(step, inputs) or ()
        searched = ((run[0], _wrong_derivatives(*run, opinions)) for run in runs)
        inner, inside = next((pair for pair in searched if pair[1]), (graph, []))
        if not inside and _declared_by(step) is None:
            # Quotients are of what the reference computes, so check its rule.
            wrong = opinions.judged(step, inputs)
            if wrong is not None and "reference rule" in wrong.suspects:
                finding = wrong.at(step, graph, "result")
        findings += [inner_finding.within(step, graph, inner) for inner_finding in inside] or [
            finding
        ]
    return findings


def _uses_a_wrong_reference(step: Instruction, operands: Any, opinions: Opinions) -> bool:
    """Test whether the derivative of an instruction uses a wrong reference rule."""
    wrong = opinions.with_wrong_reference()
    program = graph_parts.alone_at(step, operands) if wrong else None
    if program is None:
        return False
    function = CheckedFunction.of_graph(*program)
    derivatives = [function.program(kind) for kind in ("jvp", "vjp")]
    graphs = [derivative[0] for derivative in derivatives if not isinstance(derivative, str)]
    steps = (inner for graph in graphs for inner in graph_parts.every_step(graph))
    return any(inner.op.builder_name in wrong for inner in steps)


def wrong_rule(
    step: Instruction,
    operands: Sequence[np.ndarray],
    graph: Graph,
    active: Sequence[bool] | None = None,
) -> Finding | None:
    """Return a Finding if the derivative of an instruction differs from difference quotients.

    The derivative is with respect to the operands that `active` marks; default: to all.
    """
    program = graph_parts.alone_at(step, operands)
    if program is None or not all(map(is_array, program[0].inputs)):
        return None
    alone, arguments = program
    moving = None if active is None or len(active) != len(arguments) else active
    if step.op.name in _INDEPENDENT and len(arguments) == len(step.operands):
        flags = [True] * len(arguments) if moving is None else moving
        moving = [flag and index in _INDEPENDENT[step.op.name] for index, flag in enumerate(flags)]
        if not any(moving):
            return None
    function = CheckedFunction.of_graph(alone, arguments, moving)
    agreements = _agreements(function) if function.has_derivatives else ()
    wrong = next((agreement for agreement in agreements if agreement[3].excess > 1), None)
    if wrong is None:
        return None
    mode, _, shape, agreement = wrong
    suspect = _declared_by(step) or "derivative rule"
    custom = next(filter(None, map(described_rule, _operations(step))), None)
    text = f"the {mode} derivative of {step.op.builder_name} differs from finite differences "
    reason = _REASONS.get(suspect, f", as {suspect} declares")
    text += f"by {agreement.relative:.1e} of its size{reason}"
    text += f": {custom}" if custom else ""
    where, values = None, {}
    if mode == "forward":
        where = tuple(map(int, np.unravel_index(agreement.element, shape.dimensions)))
        values = {"rule": str(agreement.derivative), "differences": str(agreement.difference)}
    more = {"suspects": (suspect,), "element": where, "values": values, "explanation": text}
    return Finding("derivative", **more).at(step, graph, "result")


#: Operations with operands that depend on each other, as a matrix and its factors do. The
#: derivative is for moving them together, which quotients of the operation cannot do.
_INDEPENDENT = {"LuSolve": (3,), "LyapunovSolve": (3,)}
#: Operations with the derivative of the function that they approximate or stop.
_MEANT = {"StopGradient", "ReducePrecision", "NextAfter"}
_REASONS = {
    "derivative rule": "",
    "custom rule": ": the function's own rule, or one that it calls, says so",
}


def _declared_by(step: Instruction) -> str | None:
    """Return what declares another derivative: the operation, or one in a program that it runs."""
    operations = _operations(step)
    if any(isinstance(operation, CustomDerivativeCall) for operation in operations):
        return "custom rule"
    meant = (operation for operation in operations if operation.name in _MEANT)
    return next((operation.builder_name for operation in meant), None)


def _operations(step: Instruction) -> list[Any]:
    """Return the operation of an instruction, and those of the programs that it runs."""
    inside = (inner for graph in step.op.computations for inner in graph_parts.every_step(graph))
    return [candidate.op for candidate in (step, *inside)]
