"""The first instruction where evaluators part, and the one where small errors become large.

Evaluators are compared instruction by instruction on the *same operands*, those that the reference
has there: an error in what comes before does not count. Only instructions whose results are too far
off when the whole program runs are tried; loops and branches are followed inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value
from minixla.tools.check_report import Finding
from minixla.tools.comparison import absolute_error, relative_error
from minixla.tools.evaluators import REFERENCE, NotEvaluated
from minixla.tools.graph_parts import (
    alone_at,
    composition_of,
    inlined,
    inner_runs,
    is_array,
    needed_for,
    showing,
)
from minixla.tools.opinions import Opinions
from minixla.tools.rounding import Measured, declared_values, precision_of
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.reference_evaluation import reference_graph

_MOST_TRIED = 200


class Search:
    """The values of a program in every evaluator, for finding where they part.

    Attributes:
        kind: of the program, as findings call it.
        measured: the program in the reference and in double.
        opinions: the evaluators that are asked.
        values: for each that could be asked, every array of the program by its id.
    """

    def __init__(self, kind: str, measured: Measured, opinions: Opinions) -> None:
        self.kind = kind
        self.measured = measured
        self.opinions = opinions
        self.values: dict[str, dict[int, np.ndarray]] = {REFERENCE: measured.reference}
        made = [value for step in measured.graph.instructions for value in step.results]
        shown = list(filter(is_array, made))
        graph = showing(measured.graph, shown)
        for evaluator in opinions.evaluators:
            if evaluator.name != REFERENCE:
                with contextlib.suppress(NotEvaluated):
                    results = opinions.ask(evaluator, graph, measured.operands)
                    found = dict(zip(map(id, shown), results, strict=True))
                    self.values[evaluator.name] = found

    def off(self, name: str) -> list[Instruction]:
        """The instructions whose results are too far from the truth in an evaluator, in order."""
        values = self.values.get(name)
        if values is None:
            return []
        return [
            step
            for step in self.measured.graph.instructions
            if any(
                self.measured.compared(value, values[id(value)]).excess > 1
                for value in filter(is_array, step.results)
            )
        ]

    def jump(self, output: Value, name: str) -> Finding | None:
        """Where the relative error of what an output is computed from grows most."""
        values = self.values.get(name, self.measured.reference)
        needed = needed_for(output, self.measured.graph)
        grown = [(step, *self._errors(step, values)) for step in needed]
        worst = max(grown, key=lambda each: each[2] / max(each[1], 1e-17), default=None)
        if worst is None or not worst[2]:
            return None
        step, before, after = worst
        text = (
            f"each instruction is right on the operands that it gets, but in {step.op.builder_name}"
            f" a relative error of {before:.1e} in its operands becomes {after:.1e}"
        )
        return self._finding(step, "cancellation", text)

    def _errors(self, step: Instruction, values: dict[int, np.ndarray]) -> tuple[float, float]:
        """The largest relative errors of an instruction's operands and of its results."""
        after = [
            (error, precision_of(_element_type(each)))
            for each in step.results
            if (error := self._error(each, values)) is not None
        ]
        if not after:
            return 0.0, 0.0
        before = [self._error(each, values) or 0.0 for each in step.operands]
        errors, precisions = zip(*after, strict=True)
        return max(*precisions, *before, 0.0), max(errors)

    def _error(self, value: Value, values: dict[int, np.ndarray]) -> float | None:
        """The relative error of a value; by disturbance, where double is all that there is."""
        spread = self.measured.spread.get(id(value))
        if spread is None or id(value) not in values:
            return None
        truth = self.measured.truth[id(value)]
        error = absolute_error(values[id(value)], truth)
        if _element_type(value).real.bits == 64:
            error = np.maximum(error, spread)
        return relative_error(error, truth)

    def decision(self, name: str) -> Finding | None:
        """The first instruction whose integers or booleans an evaluator has otherwise."""
        for step in self.off(name):
            if any(id(v) not in self.measured.spread for v in step.results if is_array(v)):
                text = (
                    f"rounding decides {step.op.builder_name} otherwise in {name}; on the same "
                    "operands all agree"
                )
                return self._finding(step, "decision", text)
        return None

    def _finding(self, step: Instruction, kind: str, text: str) -> Finding:
        number = self.measured.graph.instructions.index(step)
        return Finding.at(step, number, kind, self.kind, explanation=text)


def _element_type(value: Value) -> ElementType:
    shape: Any = value.shape
    return shape.element_type


def known_error(
    kind: str, graph: Graph, values: Mapping[int, Any], opinions: Opinions
) -> Finding | None:
    """An instruction of a program that was found wrong before, on the same operands, if any.

    Args:
        kind: of the program.
        graph: the program, without calls.
        values: its values by their ids, as the reference has them.
        opinions: what is known.
    """
    if not opinions.knows_errors:
        return None
    for number, step in enumerate(graph.instructions):
        operands = [values[id(value)] for value in step.operands]
        program = alone_at(step, operands)
        judgement = None if program is None else opinions.known(*program)
        if judgement is not None:
            return Finding.at(step, number, "rule", kind, **judgement._asdict())
        for inner, given in inner_runs(step, operands) or ():
            inner = inlined(inner).pruned()
            found = known_error(kind, inner, declared_values(inner, given), opinions)
            if found is not None:
                return found
    return None


def wrong_step(search: Search) -> Finding | None:
    """The first instruction that an evaluator gets wrong on the same operands as the others."""
    off = {id(step) for name in search.values for step in search.off(name)}
    steps = enumerate(search.measured.graph.instructions)
    for number, step in islice((each for each in steps if id(each[1]) in off), _MOST_TRIED):
        found = _wrong_there(search, step, number)
        if found is not None:
            return found
    return None


def _wrong_there(search: Search, step: Instruction, number: int) -> Finding | None:
    values = search.measured.reference
    operands = [values[id(value)] for value in step.operands]
    runs = inner_runs(step, operands)
    for graph, given in runs or ():
        measured = Measured(inlined(graph).pruned(), given)
        found = wrong_step(Search(search.kind, measured, search.opinions))
        if found is not None:
            return found
    if runs is not None:
        if not isinstance(step.op, Composed):
            return None
        # Whether the reference rule gives what the program that the operation stands for gives.
        composed = reference_graph(composition_of(step), operands)
        pairs = zip((values[id(value)] for value in step.results), composed, strict=True)
        if all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
            return None
    return wrong_alone(search.kind, step, operands, number, search.opinions)


def wrong_alone(
    kind: str, step: Instruction, operands: Sequence[Any], number: int, opinions: Opinions
) -> Finding | None:
    """The finding that an evaluator gets this instruction wrong, if one does.

    Args:
        kind: of the program that it is in.
        step: the instruction.
        operands: what it is given.
        number: its place in the program.
        opinions: the evaluators.
    """
    program = alone_at(step, operands)
    judgement = None if program is None else opinions.judged(*program, step)
    if judgement is None:
        return None
    return Finding.at(step, number, "rule", kind, **judgement._asdict())
