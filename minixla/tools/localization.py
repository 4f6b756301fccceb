"""Search for the instruction where evaluators disagree, or where small errors grow.

Evaluators are compared instruction by instruction on the *same operands*, those of the reference,
so that errors in earlier instructions do not count. Only instructions whose results are too far off
when the whole program runs are tried. Loops and branches are searched inside.
"""

from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction, Value
from minixla.tools import comparison, graph_parts
from minixla.tools.evaluators import REFERENCE
from minixla.tools.graph_parts import inlined, inner_runs, is_array, type_of
from minixla.tools.oracle_values import Opinions
from minixla.tools.reports import KINDS, Finding
from minixla.tools.rounding import Measured, declared_values
from minixla_ops.programs.lowering import is_lowered
from minixla_ops.programs.reference_evaluation import reference_graph

_MOST_TRIED = 200


class Search:
    """A program of a kind at given operands, in all evaluators."""

    def __init__(self, kind: str, measured: Measured, opinions: Opinions) -> None:
        self.kind, self.measured, self.opinions = kind, measured, opinions
        #: The outputs of each evaluator that computed only the outputs.
        self.answers: dict[str, dict[Value, np.ndarray]] = {}

    @cached_property
    def values(self) -> dict[str, dict[Value, np.ndarray]]:
        """The values of each evaluator that can return all of them."""
        made = graph_parts.all_values(self.measured.graph)
        values_compared = [value for value in made if value.instruction and is_array(value)]
        graph = graph_parts.showing(self.measured.graph, values_compared)
        what = f"the {KINDS[self.kind]}: looking for where evaluators disagree"
        asked = self.opinions.everywhere(graph, self.measured.operands, what).items()
        answered = {name: results for name, results in asked if not isinstance(results, str)}
        values_of = {
            name: dict(zip(values_compared, results, strict=True))
            for name, results in answered.items()
        }
        return {REFERENCE: self.measured.reference, **values_of}

    def off(self, name: str) -> list[Instruction]:
        """Return the instructions whose results in an evaluator are too far off, in order."""
        values = {v: array for v, array in self.values.get(name, {}).items() if is_array(v)}
        off = {v for v, value in values.items() if self.measured.compared(v, value).excess > 1}
        return [step for step in self.measured.graph.instructions if off.intersection(step.results)]

    def jump(self, output: Value, name: str) -> Finding | None:
        """Return where the relative error of the values that an output depends on grows most."""
        values = self.values.get(name, self.measured.reference)
        worst, before, after = None, 1.0, 0.0
        for step in graph_parts.needed_for(output, self.measured.graph):
            inexact = [result for result in step.results if graph_parts.is_inexact(result.shape)]
            least = [
                comparison.precision_of(type_of(result)) for result in inexact if result in values
            ]
            read = max(
                [*least, *[self._error(operand, values) for operand in step.operands], 1e-17]
            )
            # Integers and booleans have no error.
            made = max([self._error(result, values) for result in inexact], default=0.0)
            if made / read > after / before:
                worst, before, after = step, read, made
        lost = self._lost_range(output, worst)
        if lost is not None or worst is None:
            return lost
        text = "each instruction is right on the operands that it gets, but in "
        text += f"{worst.op.builder_name} a relative error of {before:.1e} in its operands becomes "
        text += f"{after:.1e}"
        finding = Finding("cancellation", explanation=text, ulp=self._ulp(worst, name))
        return self._with_values(finding, worst, name).at(worst, self.measured.graph, self.kind)

    def _with_values(
        self, finding: Finding, step: Instruction, name: str, values: Any = None
    ) -> Finding:
        """Add the values in double and in an evaluator of a step's worst result to a finding."""
        values = self.values.get(name, self.measured.reference) if values is None else values
        arrays = [result for result in step.results if is_array(result) and result in values]
        compared = {result: self.measured.compared(result, values[result]) for result in arrays}
        if not compared:
            return finding
        worst = max(arrays, key=lambda result: compared[result].excess)
        where = compared[worst].worst
        shown = {"in double": self.measured.truth[worst], name: values[worst]}
        shown = {who: comparison.shown_element(array, where) for who, array in shown.items()}
        return finding._replace(element=where or None, values=shown)

    def whole(self, output: Value, name: str, text: str) -> Finding:
        """Return a finding that only the whole program is wrong, at an output's instruction."""
        finding = Finding("compiler", self.kind, suspects=(name,), explanation=text)
        step = output.instruction
        if step is None:
            return finding
        finding = self._with_values(finding, step, name, self.answers.get(name))
        return finding.at(step, self.measured.graph, self.kind)

    def _lost_range(self, output: Value, worst: Instruction | None) -> Finding | None:
        """Return the overflow or underflow that makes a finite output wrong, if there is one."""
        values, truth = self.measured.reference, self.measured.truth
        for step in graph_parts.needed_for(output, self.measured.graph):
            for result in filter(lambda x: graph_parts.is_inexact(x.shape), step.results):
                ours, exact = values[result], truth[result]
                overflows = ~np.isfinite(comparison.wide(ours)) & np.isfinite(exact)
                if overflows.any():
                    return self._range_finding("overflow", step, result, overflows)
                if step is worst:
                    tiny = float(comparison.real_part_info(ours.dtype).smallest_normal)
                    lost = (ours == 0) & (exact != 0) & (np.abs(exact) < tiny)
                    if lost.any():
                        return self._range_finding("underflow", step, result, lost)
        return None

    def _range_finding(self, kind: str, step: Instruction, result: Value, where: Any) -> Finding:
        index = tuple(int(n) for n in np.argwhere(where)[0])
        ours, exact = (x[result][index] for x in (self.measured.reference, self.measured.truth))
        text = f"{step.op.builder_name} gives {ours} for finite operands: {exact:.3g}, the value "
        text += f"in double, does not fit {result.shape}; later instructions make a wrong number "
        text += "of it"
        shown = {"in double": str(exact), REFERENCE: str(ours)}
        finding = Finding(kind, element=index or None, values=shown, explanation=text)
        return finding.at(step, self.measured.graph, self.kind)

    def _error(self, value: Value, values: dict[Value, np.ndarray]) -> float:
        """Return the relative error of a value, by disturbance if double is the widest type."""
        if not graph_parts.is_inexact(value.shape) or value not in values:
            return 0.0
        truth = self.measured.truth[value]
        error = comparison.absolute_error(values[value], truth)
        if type_of(value).real.bits == 64:
            error = np.maximum(error, self.measured.spread[value])
        return comparison.relative_error(error, truth)

    def _ulp(self, step: Instruction, name: str) -> float:
        """Return the largest error of an instruction's results in an evaluator, in ulp."""
        values = self.values.get(name, self.measured.reference)
        arrays = [result for result in step.results if is_array(result) and result in values]
        return max((self.measured.compared(v, values[v]).ulp for v in arrays), default=0.0)

    def fault_without_rounding(self, label: str, output: Value, name: str) -> Finding | None:
        """Locate a wrong result that no rounding explains, for one of the outputs."""
        free = "no value it depends on is rounded"
        needed = set(graph_parts.needed_for(output, self.measured.graph))
        rounded = self.measured.depends_on_rounding
        for step in self.off(name):
            if step in needed and rounded.isdisjoint(step.results):
                text = f"{name} returns a wrong result of {step.op.builder_name} in this program,"
                text += f" but the right one for this instruction on its own; {free}"
                finding = Finding("compiler", suspects=(name,), explanation=text)
                finding = self._with_values(finding, step, name)._replace(ulp=self._ulp(step, name))
                return finding.at(step, self.measured.graph, self.kind)
        if output in rounded:
            return None
        text = f"{name} returns a wrong {label}; each instruction on its own is right, and {free}"
        return self.whole(output, name, text)

    def decision(self, name: str) -> Finding | None:
        """Return the first instruction whose integers or booleans differ in an evaluator."""
        for step in self.off(name):
            if any(not graph_parts.is_inexact(v.shape) for v in step.results if is_array(v)):
                text = f"rounding changes the result of {step.op.builder_name} in {name}"
                text += "; on the same operands all agree"
                finding = Finding("decision", explanation=text, ulp=self._ulp(step, name))
                return self._with_values(finding, step, name).at(
                    step, self.measured.graph, self.kind
                )
        return None


def known_error(kind: str, graph: Graph, values: Any, opinions: Opinions) -> Finding | None:
    """Return an instruction that was found wrong before, on the same operands in `values`."""
    if not any(opinions.judgements.values()):
        return None
    for step in graph.instructions:
        operands = [values[value] for value in step.operands]
        verdict = opinions.judged(step, operands, is_new=False)
        if verdict is not None:
            return verdict.at(step, graph, kind)
        for inner, arguments in inner_runs(step, operands) or ():
            flat = inlined(inner).pruned()
            verdict = known_error(kind, flat, declared_values(flat, arguments), opinions)
            if verdict is not None:
                return verdict.within(step, graph, inner)
    return None


def wrong_step(search: Search) -> Finding | None:
    """Return the first instruction that an evaluator gets wrong on the same operands as others."""
    off = {step for name in search.values for step in search.off(name)}
    steps = (
        instruction for instruction in search.measured.graph.instructions if instruction in off
    )
    tried = (_wrong_there(search, instruction) for instruction in islice(steps, _MOST_TRIED))
    return next(filter(None, tried), None)


def _wrong_there(search: Search, step: Instruction) -> Finding | None:
    values = search.measured.reference
    operands = [values[value] for value in step.operands]
    runs = inner_runs(step, operands)
    for graph, arguments in runs or ():
        measured = Measured(inlined(graph).pruned(), arguments)
        inner = wrong_step(Search(search.kind, measured, search.opinions))
        if inner is not None:
            return inner.within(step, search.measured.graph, graph)
    if runs is not None:
        if not is_lowered(step.op):
            return None
        # Compare the reference rule with the program that composes the operation.
        composed = reference_graph(graph_parts.composition_of(step), operands)
        pairs = zip((values[value] for value in step.results), composed, strict=True)
        if all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
            return None
    inner = search.opinions.judged(step, operands)
    return None if inner is None else inner.at(step, search.measured.graph, search.kind)
