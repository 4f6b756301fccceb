"""Derivatives of a program in double against difference quotients, and whose rule is wrong.

Quotients are taken on both sides: where they differ, the function has a corner or a step there, and
no derivative is expected to equal either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.derived import jvp_graph, vjp_graphs
from minixla.core.errors import DerivativeError
from minixla.core.graph import Graph, Instruction
from minixla.tools.check_report import Finding
from minixla.tools.comparison import relative_error, shown_element
from minixla.tools.graph_parts import alone, inlined, is_array, is_call, is_inexact, showing
from minixla.tools.inner_programs import inner_runs
from minixla.tools.localization import describe_step, wrong_alone
from minixla.tools.opinions import Opinions
from minixla.tools.rounding import Measured, in_double
from minixla.tools.ulp import wide
from minixla.transforms.custom_calls import STOP_GRADIENT, CustomDerivativeCall

__all__ = ["Agreement", "Quotients", "pairing", "wrong_derivative"]

_STEP = 1e-6
_TOLERANCE = 1e-5


class Agreement(NamedTuple):
    """How a derivative compares with difference quotients.

    Attributes:
        relative: the largest error over the largest element.
        excess: the largest error over what is allowed there.
        worst: the index of that element.
    """

    relative: float
    excess: float
    worst: tuple[int, ...]


class Quotients:
    """Difference quotients of a program along a direction.

    Attributes:
        middle: for each output, the quotient over both sides, in double.
        allowed: how far a derivative may be from it.
    """

    def __init__(
        self,
        graph: Graph,
        operands: Sequence[Any],
        directions: Sequence[np.ndarray | None],
        here: Sequence[np.ndarray] | None = None,
    ) -> None:
        """Evaluates the program at three points.

        Args:
            graph: the program; its outputs are floats or complex numbers.
            operands: where.
            directions: for each operand; None leaves it as it is.
            here: the results there in double, if they are known.
        """
        here = in_double(graph, operands) if here is None else here
        above, below = (in_double(graph, _moved(operands, directions, s)) for s in (1, -1))
        self.middle: list[np.ndarray] = []
        self.allowed: list[np.ndarray] = []
        for value, high, low in zip(here, above, below, strict=True):
            with np.errstate(all="ignore"):
                after, before = (high - value) / _STEP, (value - low) / _STEP
                quotient = np.asarray((after + before) / 2)
                size = float(np.abs(quotient).max()) if quotient.size else 0.0
                rounding = 64 * 2.0**-52 * np.abs(value) / _STEP
                corner = 2 * np.abs(after - before)
            self.middle.append(quotient)
            self.allowed.append(_TOLERANCE * (size + 1e-6) + rounding + corner)

    def agreement(self, index: int, derivative: np.ndarray) -> Agreement:
        """How the derivative of an output compares."""
        quotient, allowed = self.middle[index], self.allowed[index]
        if not quotient.size:
            return Agreement(0.0, 0.0, ())
        with np.errstate(all="ignore"):
            error = np.abs(derivative - quotient)
            excess = np.where(error == 0, 0.0, error / allowed)
        # Where the function itself is not finite there is nothing to compare.
        known = np.isfinite(quotient) & np.isfinite(allowed)
        excess = np.where(known, np.where(np.isnan(excess), np.inf, excess), 0.0)
        where = np.unravel_index(np.argmax(excess), excess.shape)
        largest = np.maximum(np.abs(derivative), np.abs(quotient))
        relative = relative_error(np.where(known, error, 0.0), np.where(known, largest, 0.0))
        return Agreement(relative, float(excess[where]), tuple(map(int, where)))


def _moved(operands: Sequence[Any], directions: Sequence[Any], sign: int) -> list[Any]:
    return [
        each if direction is None else wide(each) + sign * _STEP * wide(direction)
        for each, direction in zip(operands, directions, strict=True)
    ]


def pairing(
    quotients: Quotients, cotangents: Sequence[np.ndarray], pulled: np.ndarray, direction: Any
) -> Agreement:
    """What a pullback gives for one operand, against quotients along `direction` of it alone.

    Re sum(cotangents * quotients) = Re sum(pulled * direction).
    """
    with np.errstate(all="ignore"):
        theirs = [np.real(c * q) for c, q in zip(cotangents, quotients.middle, strict=True)]
        allowed = [np.abs(c) * a for c, a in zip(cotangents, quotients.allowed, strict=True)]
        ours = np.real(wide(pulled) * wide(direction))
        wanted, got = sum(map(np.sum, theirs)), np.sum(ours)
        error = abs(float(got - wanted))
        limit = float(sum(map(np.sum, allowed)))
        size = float(sum(np.sum(np.abs(each)) for each in theirs)) or 1.0
    if not np.isfinite(limit) or not np.isfinite(float(wanted)):
        return Agreement(0.0, 0.0, ())
    excess = np.inf if np.isnan(error) else error / max(limit, _TOLERANCE * 1e-6)
    return Agreement(error / size, float(excess), ())


def wrong_derivative(
    graph: Graph, operands: Sequence[np.ndarray], opinions: Opinions
) -> list[Finding]:
    """The instructions whose derivative rules differ from difference quotients.

    Quotients are of what the reference computes: where its rule is wrong, the finding says so.

    Args:
        graph: the function that was differentiated; calls with the user's own derivative are kept.
        operands: where.
        opinions: the evaluators.
    """
    graph = inlined(graph.silent(), _is_plain_call).pruned()
    measured = Measured(graph, operands)
    findings = []
    for number, step in enumerate(graph.instructions):
        given = [measured.reference[id(value)] for value in step.operands]
        found = _wrong_rule(step, given, number)
        if found is not None:
            inside = _wrong_inside(step, given, opinions)
            findings.extend(inside or [_wrong_reference(step, given, number, opinions) or found])
    return findings


def _wrong_reference(
    step: Instruction, operands: list[np.ndarray], number: int, opinions: Opinions
) -> Finding | None:
    if _declared_by(step) is not None:
        return None
    found = wrong_alone("result", step, operands, number, opinions)
    return found if found is not None and "reference rule" in found.suspects else None


def _wrong_inside(step: Instruction, operands: Sequence[Any], opinions: Opinions) -> list[Finding]:
    """What is wrong in the first program that an instruction runs in which something is."""
    for graph, given in inner_runs(step, operands) or ():
        found = wrong_derivative(graph, given, opinions)
        if found:
            return found
    return []


def _wrong_rule(step: Instruction, operands: Sequence[np.ndarray], number: int) -> Finding | None:
    graph, inputs = alone(step)
    known = dict(zip(map(id, step.operands), operands, strict=True))
    given = [known[id(value)] for value in inputs]
    active = tuple([is_inexact(value.shape) for value in graph.inputs])
    outputs = [value for value in graph.outputs if is_inexact(value.shape) and is_array(value)]
    if not any(active) or not outputs or not all(map(is_array, graph.inputs)):
        return None
    graph = showing(graph, outputs)
    generator = np.random.default_rng(1)
    directions = [
        _random(generator, value.shape) if flag else None
        for value, flag in zip(graph.inputs, active, strict=True)
    ]
    quotients = Quotients(graph, given, directions)
    return _wrong_jvp(step, number, graph, given, active, directions, quotients) or _wrong_vjp(
        step, number, graph, given, active, directions, generator
    )


def _wrong_jvp(
    step: Instruction,
    number: int,
    graph: Graph,
    given: list[np.ndarray],
    active: tuple[bool, ...],
    directions: list[Any],
    quotients: Quotients,
) -> Finding | None:
    try:
        derived = jvp_graph(graph, active)
    except DerivativeError:
        return None  # there is none forwards
    tangents = [each for each in directions if each is not None]
    results = in_double(derived.graph, [*given, *tangents])
    found = iter(results[len(graph.outputs) :])
    for index, flag in enumerate(derived.active_outputs):
        middle = quotients.middle[index]
        tangent = next(found) if flag else np.zeros_like(middle)
        agreement = quotients.agreement(index, tangent)
        if agreement.excess > 1:
            values = {
                "rule": shown_element(tangent, agreement.worst),
                "differences": shown_element(middle, agreement.worst),
            }
            return _finding(step, number, "forward", agreement, values)
    return None


def _wrong_vjp(
    step: Instruction,
    number: int,
    graph: Graph,
    given: list[np.ndarray],
    active: tuple[bool, ...],
    directions: list[Any],
    generator: np.random.Generator,
) -> Finding | None:
    try:
        halves = vjp_graphs(graph, active)
    except DerivativeError:
        return None
    cotangents = [_random(generator, value.shape) for value in graph.outputs]
    residuals = in_double(halves.forward, given)[len(graph.outputs) :]
    pairs = zip(cotangents, halves.active_outputs, strict=True)
    pulled = iter(in_double(halves.backward, [*residuals, *[c for c, flag in pairs if flag]]))
    for index, flag in enumerate(halves.active_inputs):
        if not active[index]:
            continue
        alone_there = [each if i == index else None for i, each in enumerate(directions)]
        quotients = Quotients(graph, given, alone_there)
        gradient = next(pulled) if flag else np.zeros(given[index].shape)
        agreement = pairing(quotients, cotangents, gradient, directions[index])
        if agreement.excess > 1:
            return _finding(step, number, "reverse", agreement, {})
    return None


def _finding(
    step: Instruction, number: int, mode: str, agreement: Agreement, values: dict[str, str]
) -> Finding:
    name = step.op.builder_name
    text = (
        f"the {mode} derivative of {name} differs from finite differences by "
        f"{agreement.relative:.1e} of its size"
    )
    suspect = _declared_by(step) or "derivative rule"
    text += {
        "derivative rule": "",
        "custom rule": ": the function's own rule, or one that it calls, says so",
        "stop_gradient": ", as stop_gradient asks",
    }[suspect]
    where = agreement.worst if values else None
    return describe_step("derivative", "result", step, number, (suspect,), text, where, values)


def _declared_by(step: Instruction) -> str | None:
    """Who asks for another derivative, there or in a program that runs there."""
    found = None
    pending = [step]
    while pending:
        each = pending.pop()
        if isinstance(each.op, CustomDerivativeCall):
            return "custom rule"
        if each.op is STOP_GRADIENT:
            found = "stop_gradient"
        pending.extend([inner for graph in each.computations for inner in graph.instructions])
    return found


def _is_plain_call(step: Instruction) -> bool:
    return is_call(step) and not isinstance(step.op, CustomDerivativeCall)


def _random(generator: np.random.Generator, shape: Any) -> np.ndarray:
    parts = generator.uniform(0.5, 1, (2, *shape.dimensions))
    parts *= generator.choice([-1, 1], parts.shape)
    return np.asarray(parts[0] + 1j * parts[1] if shape.element_type.is_complex else parts[0])
