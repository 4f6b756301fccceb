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
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape, TupleValue
from minixla.core.tracing import default_trace
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla.tools.comparison import Comparison, compared, real_part_info, ulp_size, wide
from minixla.tools.costs import operations_per_element
from minixla.tools.graph_parts import is_inexact, showing, type_of
from minixla_ops.programs.reference_evaluation import reference_graph

#: The factor of the bound, by the bits of a real number. Narrow types are computed in wider ones
#: and rounded once; the elementary functions of wide ones are a few ulp off.
_FACTORS = {16: 8.0, 32: 64.0, 64: 64.0}
_SMALL_FACTOR = 4.0
_SAMPLES = 6

Values = dict[Value, Any]


def precision_of(kind: ElementType) -> float:
    """The distance from 1 to the next number of a float or complex type."""
    return float(real_part_info(kind.dtype).eps)


def in_double(graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
    """The results of a program computed in double, whatever its types."""
    values = _values_in_double(graph, operands)
    return [values[value].data for value in graph.outputs]


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
        exact = _values_in_double(graph, operands)
        made = [value for step in graph.instructions for value in step.results]
        arrays = [each for each in (*graph.inputs, *made) if isinstance(each.shape, Shape)]
        self.truth: Values = {value: exact[value].data for value in arrays}
        self.spread = {
            value: np.zeros(self.truth[value].shape) for value in arrays if is_inexact(value.shape)
        }
        self._rounded = self._what_rounds()
        self._counts = {step: operations_per_element(step) for step in graph.instructions}
        for seed in range(_SAMPLES if self._rounded else 0):
            sample = self._disturbed(np.random.default_rng(seed))
            for value, largest in self.spread.items():
                with np.errstate(all="ignore"):
                    moved = np.abs(sample[value].data - self.truth[value])
                np.maximum(largest, moved, out=largest, where=~np.isnan(moved))

    def _what_rounds(self) -> dict[Value, np.ndarray]:
        """Marks the elements that an instruction rounds: others must not be disturbed.

        The members of a maximum, of a gather or of a comparison are equal to other values, bit by
        bit, in every evaluator.
        """
        trace = ReferenceTrace(default_trace(), "float64")
        found = {}
        for step in self.graph.instructions:
            inexact = [is_inexact(value.shape) for value in step.results]
            if not any(inexact):
                continue
            read = [_tracer(trace, self.reference[x], x.shape) for x in step.operands]
            pairs = zip(step.results, _outcome(trace, step, read), strict=True)
            for value, exact in compress(pairs, inexact):
                given = self.reference[value]
                with np.errstate(all="ignore"):
                    if type_of(value).real.bits == 64:
                        mask = _seems_rounded(step, given, self.reference)
                    else:
                        is_nan = np.isnan(given) & np.isnan(exact.data)
                        mask = (wide(given) != exact.data) & ~is_nan
                if mask.any():
                    found[value] = mask
        return found

    def _disturbed(self, generator: np.random.Generator) -> Values:
        """The values in double where what is rounded is moved at random, by about as much."""

        def moved(data: np.ndarray, value: Value, size: float) -> np.ndarray:
            unit = size * precision_of(type_of(value))
            return data * (1 + generator.uniform(-1, 1, data.shape) * unit)

        def operand(step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
            # As a sum reads it: products with it are rounded, each on its own.
            is_rounded = any(each in self._rounded for each in step.results)
            is_sum = is_rounded and self._counts[step] > 2
            return moved(data, value, 1.0) if is_sum and is_inexact(value.shape) else data

        def result(step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
            mask = self._rounded.get(value)
            if mask is None:
                return data
            size = max(1.0, self._counts[step]) ** 0.5
            return np.where(mask, moved(data, value, size), data)

        return _values_in_double(self.graph, self.operands, operand, result)

    def bound(self, value: Value) -> np.ndarray:
        """How far an element of a float or complex value may be from `truth`."""
        kind = type_of(value)
        factor = _FACTORS.get(kind.real.bits, _SMALL_FACTOR)
        ulp = ulp_size(self.truth[value], kind.dtype)
        smallest = float(real_part_info(kind.dtype).smallest_normal)
        return factor * (ulp + self.spread[value]) + smallest

    def compared(self, value: Value, actual: np.ndarray) -> Comparison:
        """Compares what an evaluator has for a value with the value in double."""
        bound = self.bound(value) if value in self.spread else None
        return compared(actual, self.truth[value], bound)


def declared_values(graph: Graph, operands: Sequence[Any]) -> Values:
    """Every value of a program by its id, as the reference rules give it."""
    made = [value for step in graph.instructions for value in step.results]
    everything = [*graph.inputs, *made]
    found = reference_graph(showing(graph, everything), operands)
    return dict(zip(everything, found, strict=True))


_Change = Callable[[Instruction, Value, np.ndarray], np.ndarray]


def _values_in_double(
    graph: Graph,
    operands: Sequence[Any],
    operand: _Change = lambda step, value, data: data,
    result: _Change = lambda step, value, data: data,
) -> Values:
    """Each value as a tracer that holds it, changed where it is read and where it is made."""
    trace = ReferenceTrace(default_trace(), "float64")

    def changed(change: _Change, step: Instruction, value: Value, tracer: Any) -> Any:
        if not isinstance(value.shape, Shape):
            return tracer
        data = change(step, value, tracer.data)
        return tracer if data is tracer.data else ReferenceTracer(trace, data, value.shape)

    given = [_tracer(trace, x, v.shape) for x, v in zip(operands, graph.inputs, strict=True)]
    values = dict(zip(graph.inputs, given, strict=True))
    for step in graph.instructions:
        read = [changed(operand, step, each, values[each]) for each in step.operands]
        for value, each in zip(step.results, _outcome(trace, step, read), strict=True):
            values[value] = changed(result, step, value, each)
    return values


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
    operands = [values[value] for value in step.operands if is_inexact(value.shape)]
    known = np.concatenate([np.ravel(np.asarray(each)) for each in operands] or [np.zeros(0)])
    is_known = np.isin(np.abs(given), np.abs(known))
    if operations_per_element(step) > 1 and not np.all(np.round(known) == known):
        return ~is_known
    return ~(is_known | np.isfinite(given) & (np.round(given) == given))
