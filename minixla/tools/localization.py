"""The first instruction where evaluators part, and the one where small errors become large.

Evaluators are compared instruction by instruction on the *same operands*, those that the reference
has there: an error in what comes before does not count. Only instructions whose results are too far
off when the whole program runs are tried; loops and branches are followed inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value
from minixla.tools.check_report import Finding
from minixla.tools.comparison import relative_error
from minixla.tools.evaluators import REFERENCE, Evaluator, NotEvaluated
from minixla.tools.graph_parts import alone_at, composition_of, inlined, is_array, showing
from minixla.tools.inner_programs import inner_runs
from minixla.tools.opinions import Judgement, Opinions, compared_at
from minixla.tools.rounding import Measured, declared_values, precision_of
from minixla.tools.ulp import absolute_error
from minixla_ops.programs.compositions import Composed
from minixla_ops.programs.reference_evaluation import reference_graph

_MOST_TRIED = 200


class Search:
    """The values of a program in every evaluator, for finding where they part.

    Attributes:
        kind: of the program, as findings call it.
        measured: the program in the reference and in double.
        opinions: the evaluators.
        values: for each other evaluator that could be asked, every array of the program by its id.
    """

    def __init__(self, kind: str, measured: Measured, opinions: Opinions) -> None:
        """Evaluates.

        Args:
            kind: of the program.
            measured: its values.
            opinions: the evaluators that are asked.
        """
        self.kind = kind
        self.measured = measured
        self.opinions = opinions
        self.values: dict[str, dict[int, np.ndarray]] = {REFERENCE: measured.reference}
        graph = measured.graph
        self.shown = [v for step in graph.instructions for v in step.results if is_array(v)]
        for evaluator in opinions.evaluators:
            if evaluator.name != REFERENCE:
                self._ask(evaluator, showing(graph, self.shown))

    def _ask(self, evaluator: Evaluator, graph: Graph) -> None:
        try:
            results = self.opinions.ask(evaluator, graph, self.measured.operands)
        except NotEvaluated:
            return
        self.values[evaluator.name] = dict(zip(map(id, self.shown), results, strict=True))

    def off(self, name: str) -> list[Instruction]:
        """The instructions whose results are too far from the truth in an evaluator, in order."""
        values = self.values.get(name)
        steps = self.measured.graph.instructions
        return [step for step in steps if values is not None and self._is_off(step, values)]

    def _is_off(self, step: Instruction, values: dict[int, np.ndarray]) -> bool:
        return any(
            compared_at(self.measured, value, values[id(value)]).excess > 1
            for value in step.results
            if is_array(value)
        )

    def jump(self, output: Value, name: str) -> Finding | None:
        """Where the relative error of what an output is computed from grows most."""
        values = self.values.get(name, self.measured.reference)
        needed = showing(self.measured.graph, [output]).pruned().instructions
        best: tuple[float, Instruction, float, float] | None = None
        for step in needed:
            before, after = self._errors(step, values)
            growth = after / max(before, 1e-17)
            if after and (best is None or growth > best[0]):
                best = growth, step, before, after
        if best is None:
            return None
        _, step, before, after = best
        text = (
            f"each instruction is right on the operands that it gets, but in {step.op.builder_name}"
            f" a relative error of {before:.1e} in its operands becomes {after:.1e}"
        )
        return self._finding("cancellation", step, text)

    def _errors(self, step: Instruction, values: dict[int, np.ndarray]) -> tuple[float, float]:
        """The largest relative errors of an instruction's operands and of its results."""
        kinds = [each for each in step.results if self._error_at(each, values) is not None]
        if not kinds:
            return 0.0, 0.0
        precision = max(precision_of(_element_type(each)) for each in kinds)
        before = [self._error_at(each, values) or 0.0 for each in step.operands]
        after = [self._error_at(each, values) or 0.0 for each in kinds]
        return max([precision, *before]), max(after)

    def _error_at(self, value: Value, values: dict[int, np.ndarray]) -> float | None:
        """The relative error of a value; by disturbance, where double is all that there is."""
        measured = self.measured
        spread = measured.spread.get(id(value))
        if spread is None or id(value) not in values:
            return None
        truth = measured.truth[id(value)]
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
                return self._finding("decision", step, text)
        return None

    def _finding(self, kind: str, step: Instruction, text: str) -> Finding:
        number = self.measured.graph.instructions.index(step)
        return describe_step(kind, self.kind, step, number, (), text)


def _element_type(value: Value) -> ElementType:
    shape: Any = value.shape
    return shape.element_type


def describe_step(
    kind: str,
    program: str,
    step: Instruction,
    number: int,
    suspects: tuple[str, ...],
    text: str,
    element: tuple[int, ...] | None = None,
    values: dict[str, str] | None = None,
) -> Finding:
    """A finding about an instruction."""
    source = step.source
    line = None if source is None else str(source)
    operands = ", ".join(str(value.shape) for value in step.operands)
    results = ", ".join(map(str, step.shapes))
    name = step.op.builder_name
    shapes = f"({operands}) -> {results}"
    return Finding(kind, program, number, name, shapes, suspects, element, values or {}, line, text)


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
        found = _known_there(kind, step, operands, number, opinions)
        if found is not None:
            return found
    return None


def _known_there(
    kind: str, step: Instruction, operands: list[Any], number: int, opinions: Opinions
) -> Finding | None:
    program = alone_at(step, operands)
    judgement = None if program is None else opinions.known(*program)
    if judgement is not None:
        return _described(kind, step, number, judgement)
    for graph, given in inner_runs(step, operands) or ():
        graph = inlined(graph).pruned()
        found = known_error(kind, graph, declared_values(graph, given), opinions)
        if found is not None:
            return found
    return None


def wrong_step(search: Search) -> Finding | None:
    """The first instruction that an evaluator gets wrong on the same operands as the others."""
    off = {id(step) for name in search.values for step in search.off(name)}
    tried = 0
    for number, step in enumerate(search.measured.graph.instructions):
        if id(step) in off and tried < _MOST_TRIED:
            tried += 1
            operands = [search.measured.reference[id(value)] for value in step.operands]
            found = _wrong_there(search, step, operands, number)
            if found is not None:
                return found
    return None


def _wrong_there(
    search: Search, step: Instruction, operands: list[np.ndarray], number: int
) -> Finding | None:
    runs = inner_runs(step, operands)
    if runs is None:
        return wrong_alone(search.kind, step, operands, number, search.opinions)
    for graph, given in runs:
        measured = Measured(inlined(graph).pruned(), given)
        found = wrong_step(Search(search.kind, measured, search.opinions))
        if found is not None:
            return found
    if isinstance(step.op, Composed) and not _is_as_composed(search, step, operands):
        return wrong_alone(search.kind, step, operands, number, search.opinions)
    return None


def _is_as_composed(search: Search, step: Instruction, operands: list[np.ndarray]) -> bool:
    """Whether the reference rule gives what the program that the operation stands for gives."""
    pairs = zip(step.results, reference_graph(composition_of(step), operands), strict=True)
    return all(
        np.array_equal(np.asarray(each), search.measured.reference[id(value)], equal_nan=True)
        for value, each in pairs
    )


def wrong_alone(
    kind: str,
    step: Instruction,
    operands: Sequence[np.ndarray],
    number: int,
    opinions: Opinions,
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
    if program is None:
        return None
    judgement = opinions.judged(*program, step)
    return None if judgement is None else _described(kind, step, number, judgement)


def _described(kind: str, step: Instruction, number: int, judgement: Judgement) -> Finding:
    suspects, where, values, text = judgement
    return describe_step("rule", kind, step, number, suspects, text, where, values)
