"""The derivatives of a checked function, in double, against difference quotients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minixla.core.graph import Graph
from minixla.tools.check_report import Finding, Row
from minixla.tools.checked_programs import CheckedFunction, CheckedProgram
from minixla.tools.derivative_parts import Agreement, Quotients, pairing, wrong_derivative
from minixla.tools.graph_parts import inlined, showing
from minixla.tools.opinions import Opinions
from minixla.tools.rounding import in_double

__all__ = ["DIFFERENCES", "check_derivatives"]

#: What reports call the evaluator.
DIFFERENCES = "finite differences"


def check_derivatives(
    function: CheckedFunction, opinions: Opinions, say: Callable[[str], None]
) -> tuple[list[Row], list[Finding]]:
    """Compares the derivatives that there are with difference quotients.

    Args:
        function: the function.
        opinions: the evaluators, who tell a wrong derivative from a wrong function.
        say: called with the name of each step.

    Returns:
        A row for each derivative, and a finding for each rule that is wrong.
    """
    graph = _answering(function)
    directions = _directions(function)
    # All quotients start from the same values.
    quotients_along = partial(
        Quotients, graph, function.operands, here=in_double(graph, function.operands)
    )
    rows = []
    forward, reverse = function.program("jvp"), function.program("vjp")
    if isinstance(forward, CheckedProgram):
        quotients = quotients_along(directions)
        tangents = in_double(forward.graph, forward.operands)
        for index, (name, tangent) in enumerate(zip(forward.names, tangents, strict=True)):
            agreement = quotients.agreement(index, tangent)
            rows.append(_row(name, graph.outputs[index].shape, agreement))
    if isinstance(reverse, CheckedProgram):
        gradients = in_double(reverse.graph, reverse.operands)
        pulled = iter(zip(reverse.names, gradients, strict=True))
        for index, direction in enumerate(directions):
            if direction is not None:
                name, gradient = next(pulled)
                say(f"finite differences: {name}")
                only = [each if i == index else None for i, each in enumerate(directions)]
                own = quotients_along(only)
                agreement = pairing(own, function.cotangents, gradient, direction)
                rows.append(_row(name, graph.inputs[index].shape, agreement))
    if all(row.verdict == "ok" for row in rows):
        return rows, []
    say("looking for wrong derivative rules")
    return _explained(function, rows, opinions)


def _explained(
    function: CheckedFunction, rows: list[Row], opinions: Opinions
) -> tuple[list[Row], list[Finding]]:
    """The rows, after a search for the rules that are wrong, and those."""
    graph = inlined(function.graph, lambda step: False)
    found = wrong_derivative(graph, function.operands, opinions)
    wrong = [finding for finding in found if finding.suspects != ("stop_gradient",)]
    if wrong or not found:
        return rows, wrong
    note = "stop_gradient makes it another function's derivative"
    meant = [row if row.verdict == "ok" else row._replace(verdict="ok", note=note) for row in rows]
    return meant, found


def _answering(function: CheckedFunction) -> Graph:
    outputs = zip(function.graph.outputs, function.answering, strict=True)
    kept = showing(function.graph, [value for value, flag in outputs if flag])
    return inlined(kept.silent()).pruned()


def _directions(function: CheckedFunction) -> list[np.ndarray | None]:
    found = iter(function.tangents)
    return [next(found) if flag else None for flag in function.moving]


def _row(name: str, shape: Any, agreement: Agreement) -> Row:
    verdict = "parts" if agreement.excess > 1 else "ok"
    shares = agreement.relative, agreement.excess
    return Row(name, str(shape), DIFFERENCES, None, *shares, None, verdict)
