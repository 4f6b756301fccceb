"""Overlays that color the nodes of a program's picture: costs, shardings, NaN, errors.

Costs of programs that run within another one are those of one run.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.tables import shown_number
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.tools import comparison, graph_parts
from minixla.tools.costs import byte_count, instruction_cost
from minixla.tools.graph_parts import inner_runs, is_array, is_call
from minixla.tools.oracle_values import Opinion, Opinions
from minixla.tools.program_files import Part
from minixla.tools.reports import KINDS, CrossCheckReport
from minixla.tools.rounding import declared_values, in_double


@dataclass(frozen=True)
class Overlay:
    """A color for each node with a known value.

    Attributes:
        name: its title.
        values: a number or a word for each node, by its name.
        colors: the color of each word; for numbers, the colors up to a bound, in order, or empty
            for colors from white to red.
    """

    name: str
    values: dict[str, float | str]
    colors: Mapping[str, str] | Sequence[tuple[float, str]] = ()

    @cached_property
    def _largest(self) -> float:
        return max(map(float, self.values.values()), default=0.0) or 1.0

    def shown(self, value: float | str) -> str:
        """Return a value as viewers write it."""
        if isinstance(value, str):
            return value
        return shown_number(value) if value < _LARGEST else "inf"

    def color(self, value: float | str) -> str:
        """Return the color of a value in CSS form."""
        if isinstance(self.colors, Mapping):
            return self.colors[str(value)]
        if self.colors:
            return next(color for bound, color in self.colors if float(value) <= bound)
        level = round(255 - 175 * float(value) / self._largest)
        return f"#ff{level:02x}{level:02x}"


_GREEN, _YELLOW, _ORANGE, _RED = "#c8e6c9", "#fff3b0", "#ffcc80", "#ef9a9a"
_LAYOUTS = ("#bbdefb", "#c8e6c9", "#ffe0b2", "#e1bee7", "#b2dfdb", "#f8bbd0", "#dcedc8", "#d7ccc8")
_WHOLE = "#eeeeee"
#: By severity: if several runs of a program differ, the worst counts.
_SPECIAL = {
    "infinity": _YELLOW,
    "infinity is made here": "#ffd54f",
    "NaN": _ORANGE,
    "NaN is made here": "#e57373",
}
#: The kinds of a `Finding`, the worst first.
_FINDINGS = {"rule": _RED, "derivative": "#ce93d8"}
_FINDINGS |= dict.fromkeys(
    ("invalid", "zero times infinity", "division by zero", "overflow", "cast out of range"),
    "#e57373",
)
_FINDINGS |= {"underflow": _ORANGE, "cancellation": _ORANGE, "decision": _YELLOW}
_FINDINGS |= {"compiler": _WHOLE}
#: JSON has no infinity, so this replaces it.
_LARGEST = sys.float_info.max
_ULPS = ((0.5, _GREEN), (8.0, "#e6ee9c"), (64.0, _YELLOW), (4096.0, _ORANGE), (_LARGEST, _RED))


def cost_overlays(parts: Sequence[Part]) -> list[Overlay]:
    """Return the arithmetic of each instruction, and the bytes that it reads and writes."""
    steps = [pair for part in parts for pair in _named_steps(part)]
    costs = {name: instruction_cost(step) for name, step in steps}
    flops = {name: cost.flops + cost.transcendentals for name, cost in costs.items()}
    moved = {name: cost.bytes for name, cost in costs.items()}
    pairs = {"arithmetic operations": flops, "bytes read and written": moved}.items()
    return [
        Overlay(name, {k: float(v) for k, v in numbers.items() if v}) for name, numbers in pairs
    ]


def layout_overlays(parts: Sequence[Part]) -> list[Overlay]:
    """Return the sharding of values, and the bytes on each device; nothing without a mesh."""
    layouts: dict[str, float | str] = {}
    held: dict[str, float | str] = {}
    for part in parts:
        notes = part.graph.annotations.values if part.graph.annotations else {}
        values = {part.input_name(n): [value] for n, value in enumerate(part.graph.inputs)}
        values |= {name: list(step.results) for name, step in _named_steps(part)}
        for name, made in values.items():
            placed = [value for value in made if value in notes]
            if placed:
                layouts[name] = ", ".join(notes[value].shown for value in placed)
                held[name] = float(sum(_local_bytes(value, notes.get(value)) for value in made))
    words = dict.fromkeys(map(str, layouts.values()))
    colors = {word: _LAYOUTS[n % len(_LAYOUTS)] for n, word in enumerate(words)}
    overlays = [Overlay("layout over devices", layouts, colors), Overlay("bytes on a device", held)]
    return overlays if layouts else []


def _local_bytes(value: Value, sharding: TensorSharding | None) -> int:
    return byte_count([value.shape if sharding is None else sharding.local_shape(value.shape)])


def nan_overlay(parts: Sequence[Part], operands: Sequence[np.ndarray]) -> Overlay:
    """Return where NaN and infinities are, and where they begin, by the reference."""
    marks: dict[str, float | str] = {}
    ranks = {word: rank for rank, word in enumerate(_SPECIAL)}

    def look(part: Part, values: Mapping[Value, Any], arguments: Sequence[Any]) -> None:
        for name, step in _named_steps(part):
            made, read = ([values[x] for x in some] for some in (step.results, step.operands))
            word = _special(made, read)
            if word and ranks[word] >= ranks.get(str(marks.get(name)), -1):
                marks[name] = word

    _follow(parts, operands, look)
    return Overlay("NaN and infinities", marks, _SPECIAL)


def _special(made: Sequence[Any], read: Sequence[Any]) -> str:
    for word, is_special in (("NaN", np.isnan), ("infinity", np.isinf)):
        if any(_has(is_special, result) for result in made):
            return word if any(_has(is_special, x) for x in read) else f"{word} is made here"
    return ""


def _has(is_special: Callable[[Any], Any], value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_has(is_special, element) for element in value)
    is_number = isinstance(value, np.ndarray) and element_type(value.dtype).is_inexact
    return is_number and bool(is_special(comparison.wide(value)).any())


def error_overlays(
    parts: Sequence[Part], operands: Sequence[np.ndarray], opinions: Opinions
) -> tuple[list[Overlay], list[str]]:
    """Return the errors that `cross_check` measures, at every instruction, for each evaluator.

    An error accumulates from the program's inputs on, in units of the last place against double. A
    program that runs within another one has the inputs that the reference gives it there.

    Args:
        parts: the program.
        operands: its arguments.
        opinions: the evaluators.

    Returns:
        The overlays, and the reason for each that is missing.
    """
    errors: dict[str, dict[str, float | str]] = {}
    refusals: dict[str, str] = {}

    def look(part: Part, values: Mapping[Value, Any], arguments: Sequence[Any]) -> None:
        steps = list(_named_steps(part))
        traced = [value for _, step in steps for value in step.results if is_array(value)]
        graph = graph_parts.showing(part.graph, traced)
        answers: dict[str, Opinion] = {"reference": [values[value] for value in traced]}
        given_by = answers | opinions.everywhere(graph, arguments, part.path or "errors")
        truth = dict(zip(traced, in_double(graph, arguments), strict=True))
        for evaluator, results in given_by.items():
            if isinstance(results, str):
                refusals.setdefault(evaluator, results)
                continue
            results_of = dict(zip(traced, results, strict=True))
            mine = errors.setdefault(evaluator, {})
            for name, step in steps:
                apart = [_ulps(results_of[v], truth[v]) for v in step.results if v in results_of]
                if apart:
                    mine[name] = max(*apart, float(mine.get(name, 0.0)))

    _follow(parts, operands, look)
    made = [Overlay(f"error of {name} in ulp", error, _ULPS) for name, error in errors.items()]
    return made, [f"no errors of {name}: {why}" for name, why in refusals.items()]


def finding_overlays(
    parts: Sequence[Part], report: CrossCheckReport
) -> tuple[list[Overlay], list[str]]:
    """Return what a cross-check found: errors of results, where they begin, and what is wrong.

    Args:
        parts: the program that was checked.
        report: the report of the check.

    Returns:
        An overlay of errors, one of kinds of findings, and the findings without a node.
    """
    names = {part.name_of(n) for part in parts for n in range(len(part.graph.instructions))}
    errors: dict[str, float] = {}
    kinds: dict[str, float | str] = {}
    elsewhere: list[str] = []

    def note(name: str, ulp: float | None) -> None:
        if ulp is not None:
            errors[name] = max(min(ulp, _LARGEST), errors.get(name, 0.0))

    for name, rows in zip(_output_names(parts[0]), report.rows_of_outputs, strict=True):
        for row in rows:
            note(name, row.ulp)
    for finding in report.places:
        if finding.node in names:
            note(finding.node, finding.ulp)
            kinds_there = [finding.kind, *filter(None, [kinds.get(finding.node)])]
            kinds[finding.node] = min(map(str, kinds_there), key=[*_FINDINGS].index)
    for finding in report.findings:
        if finding.node not in names:
            elsewhere.append(f"found in the {KINDS[finding.program]}: {finding}")
    overlay = Overlay("error that cross_check found in ulp", {**errors}, _ULPS)
    return [overlay, Overlay("findings of cross_check", kinds, _FINDINGS)], elsewhere


def _output_names(part: Part) -> list[str]:
    """Return the names of the nodes that compute a program's outputs."""
    made = {part.graph.inputs[n]: part.input_name(n) for n in range(len(part.graph.inputs))}
    made |= {value: name for name, step in _named_steps(part) for value in step.results}
    return [made[value] for value in part.graph.outputs]


def _ulps(actual: np.ndarray, truth: np.ndarray) -> float:
    return min(comparison.compared(actual, truth, np.ones(truth.shape)).ulp, _LARGEST)


def _named_steps(part: Part) -> list[tuple[str, Instruction]]:
    return [(part.name_of(n), step) for n, step in enumerate(part.graph.instructions)]


_Look = Callable[[Part, Mapping[Value, Any], Sequence[Any]], None]


def _follow(parts: Sequence[Part], operands: Sequence[Any], look: _Look) -> None:
    """Call `look` with the reference's values for each run of each part."""
    by_path = {part.path: part for part in parts}
    pending: list[tuple[Part, Sequence[Any]]] = [(parts[0], operands)]
    for part, arguments in pending:  # the list grows
        values = declared_values(part.graph, arguments)
        look(part, values, arguments)
        for name, step in _named_steps(part):
            if step.op.is_plain:
                continue
            inner: list[Graph] = list(step.op.computations)
            read = [values[operand] for operand in step.operands]
            runs = [(inner[0], read)] if is_call(step) else inner_runs(step, read) or ()
            for graph, some in runs:
                places = [n for n, program in enumerate(inner) if program is graph]
                if places and (place := by_path.get(f"{name}.{places[0]}.")):
                    pending.append((place, some))
