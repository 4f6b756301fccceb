"""How far correct evaluators of a program may be apart: its values in double, and their spread.

The bound for an element is, in double,

    factor * (ulp + spread) + the smallest normal number,

where `ulp` is the distance of two neighbours of the declared type there, and `spread` how far the
element moves when every instruction that rounds is disturbed at random, by one unit of its type's
precision times the square root of its number of operations for an element (Monte Carlo arithmetic,
D. S. Parker 1997). So what a program does to rounding errors is measured on the program, by the
reference, and not guessed. The factor leaves room for elementary functions of few ulp and for sums
in another order. The last term: XLA:CPU takes numbers below it for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape
from minixla.core.tracing import default_trace
from minixla.core.tuples import TupleValue
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla.tools.costs import operations_per_element
from minixla.tools.graph_parts import is_inexact
from minixla.tools.ulp import real_part_info, ulp_size, wide

#: The factor of the bound, by the bits of a real number. Narrow types are computed in wider ones
#: and rounded once; the elementary functions of wide ones are a few ulp off.
_FACTORS = {16: 8.0, 32: 64.0, 64: 64.0}
_SMALL_FACTOR = 4.0
_SAMPLES = 6

Values = dict[int, Any]


def precision_of(kind: ElementType) -> float:
    """The distance from 1 to the next number of a float or complex type."""
    return float(real_part_info(kind.dtype).eps)


def in_double(graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
    """The results of a program computed in double, whatever its types."""
    values = _values_in_double(graph, operands)
    return [values[id(value)].data for value in graph.outputs]


class Measured:
    """A program at given operands: its values, and how far rounding moves them.

    Attributes:
        graph: the program, without calls.
        operands: its inputs, arrays of the declared types.
        reference: each value as the reference rules give it.
        truth: each array in double where it is a float or complex, as it is otherwise.
        spread: for floats and complex numbers, see the module.
    """

    def __init__(self, graph: Graph, operands: Sequence[np.ndarray]) -> None:
        self.graph = graph
        self.operands = operands
        self.reference = declared_values(graph, operands)
        self._rounded: dict[int, np.ndarray] = {}
        self._find_what_rounds()
        exact = _values_in_double(graph, operands)
        self.truth = {
            id(value): exact[id(value)].data for value in _arrays(graph) if id(value) in exact
        }
        self.spread = self._measure()

    def _find_what_rounds(self) -> None:
        """Marks the elements that an instruction rounds: others must not be disturbed.

        The members of a maximum, of a gather or of a comparison are equal to other values, bit by
        bit, in every evaluator.
        """
        trace = ReferenceTrace(default_trace(), "float64")
        for step in self.graph.instructions:
            for value, exact in self._inexact_results(trace, step):
                given = self.reference[id(value)]
                kind: Any = value.shape
                if kind.element_type.real.bits == 64:
                    mask = _seems_rounded(step, given, self.reference)
                else:
                    with np.errstate(all="ignore"):
                        mask = (wide(given) != exact) & ~(np.isnan(given) & np.isnan(exact))
                if mask.any():
                    self._rounded[id(value)] = mask

    def _inexact_results(
        self, trace: ReferenceTrace, step: Instruction
    ) -> list[tuple[Value, np.ndarray]]:
        if not any(is_inexact(value.shape) for value in step.results):
            return []
        operands = [
            _tracer(trace, self.reference[id(value)], value.shape) for value in step.operands
        ]
        outcome = _outcome(trace, step, operands)
        pairs = zip(step.results, outcome, strict=True)
        return [(value, each.data) for value, each in pairs if is_inexact(value.shape)]

    def _measure(self) -> dict[int, np.ndarray]:
        shown = [value for value in _arrays(self.graph) if is_inexact(value.shape)]
        spread = {id(v): np.zeros(self.truth[id(v)].shape) for v in shown if id(v) in self.truth}
        if not self._rounded:
            return spread
        counts = {id(step): operations_per_element(step) for step in self.graph.instructions}
        for seed in range(_SAMPLES):
            disturb = _Disturbance(np.random.default_rng(seed), self._rounded, counts)
            sample = _values_in_double(self.graph, self.operands, disturb)
            for key, largest in spread.items():
                with np.errstate(all="ignore"):
                    moved = np.abs(sample[key].data - self.truth[key])
                is_number = ~np.isnan(moved)
                np.maximum(largest, moved, out=largest, where=is_number)
        return spread

    def bound(self, value: Value) -> np.ndarray:
        """How far an element of a float or complex value may be from `truth`."""
        shape: Any = value.shape
        kind = shape.element_type
        factor = _FACTORS.get(kind.real.bits, _SMALL_FACTOR)
        ulp = ulp_size(self.truth[id(value)], kind.dtype)
        smallest = float(real_part_info(kind.dtype).smallest_normal)
        return factor * (ulp + self.spread[id(value)]) + smallest


class _Disturbance:
    """Moves what has been rounded by about a rounding error, at random."""

    def __init__(
        self,
        generator: np.random.Generator,
        rounded: dict[int, np.ndarray],
        counts: dict[int, float],
    ) -> None:
        """Sets it up.

        Args:
            generator: of the disturbances.
            rounded: which elements of which values are rounded.
            counts: how many operations each instruction needs for an element.
        """
        self.generator = generator
        self.rounded = rounded
        self.counts = counts

    def operand(self, step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
        """An operand as a sum reads it: products with it are rounded, each on its own."""
        is_sum = self.counts[id(step)] > 2 and any(
            id(each) in self.rounded for each in step.results
        )
        if not is_sum or not is_inexact(value.shape):
            return data
        return self._moved(data, value, 1.0)

    def result(self, step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
        """A result as it may be rounded."""
        mask = self.rounded.get(id(value))
        if mask is None:
            return data
        moved = self._moved(data, value, max(1.0, self.counts[id(step)]) ** 0.5)
        return np.where(mask, moved, data)

    def _moved(self, data: np.ndarray, value: Value, size: float) -> np.ndarray:
        shape: Any = value.shape
        steps = self.generator.uniform(-1, 1, data.shape) * size * precision_of(shape.element_type)
        return data * (1 + steps)


def _arrays(graph: Graph) -> list[Value]:
    """All values of a program that are arrays."""
    made = [value for step in graph.instructions for value in step.results]
    return [v for v in [*graph.inputs, *made] if isinstance(v.shape, Shape)]


def declared_values(graph: Graph, operands: Sequence[Any]) -> Values:
    """Every value of a program by its id, as the reference rules give it."""
    values: Values = dict(zip(map(id, graph.inputs), operands, strict=True))
    for step in graph.instructions:
        given = [values[id(value)] for value in step.operands]
        outcome = step.op.reference(*given)
        results = (outcome,) if step.single else outcome
        for value, each in zip(step.results, results, strict=True):
            values[id(value)] = np.asarray(each) if isinstance(value.shape, Shape) else each
    return values


def _values_in_double(
    graph: Graph, operands: Sequence[Any], disturbance: _Disturbance | None = None
) -> Values:
    """Each value as a tracer that holds it."""
    trace = ReferenceTrace(default_trace(), "float64")
    given = [_tracer(trace, x, v.shape) for x, v in zip(operands, graph.inputs, strict=True)]
    values: Values = dict(zip(map(id, graph.inputs), given, strict=True))
    for step in graph.instructions:
        read = [values[id(value)] for value in step.operands]
        if disturbance is not None:
            read = [
                _changed(each, disturbance.operand, step, value)
                for each, value in zip(read, step.operands, strict=True)
            ]
        results = _outcome(trace, step, read)
        for value, each in zip(step.results, results, strict=True):
            if disturbance is not None:
                each = _changed(each, disturbance.result, step, value)
            values[id(value)] = each
    return values


def _changed(
    tracer: Any, change: Callable[..., np.ndarray], step: Instruction, value: Value
) -> Any:
    if not isinstance(value.shape, Shape):
        return tracer
    data = change(step, value, tracer.data)
    return tracer if data is tracer.data else ReferenceTracer(tracer._trace, data, value.shape)


def _tracer(trace: ReferenceTrace, data: Any, shape: Any) -> Any:
    """A value as the trace holds it: floats and complex numbers in double."""
    if isinstance(data, tuple):
        members = zip(data, shape.elements, strict=True)
        return TupleValue([_tracer(trace, *member) for member in members])
    if isinstance(shape, Shape) and shape.element_type.is_inexact:
        data = wide(np.asarray(data))
    return ReferenceTracer(trace, data, shape)


def _outcome(trace: ReferenceTrace, step: Instruction, operands: Sequence[Any]) -> Sequence[Any]:
    with np.errstate(all="ignore"):
        outcome = trace.evaluate(step.op, operands)
    return (outcome,) if step.single else outcome


def _seems_rounded(step: Instruction, given: np.ndarray, values: Values) -> np.ndarray:
    """For types as wide as double: which elements are neither an operand's, nor whole by intent.

    Sums of whole numbers are whole, and so is what rounds an element to an integer.
    """
    operands = [values[id(value)] for value in step.operands if is_inexact(value.shape)]
    known = np.concatenate([np.ravel(np.asarray(each)) for each in operands] or [np.zeros(0)])
    with np.errstate(all="ignore"):
        is_known = np.isin(np.abs(given), np.abs(known))
        if operations_per_element(step) > 1 and not np.all(np.round(known) == known):
            return ~is_known
        return ~(is_known | np.isfinite(given) & (np.round(given) == given))
