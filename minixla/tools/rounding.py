"""How far correct evaluators of a program may differ: its values in double, and their spread.

The bound for an element is, in double,

    factor * (ulp + spread) + the smallest normal number.

`ulp` is the distance of two neighbors of the declared type there. `spread` is how far the element
moves when every instruction that rounds is disturbed at random. A disturbance is one unit of the
type's precision times the square root of the number of operations for an element (Monte Carlo
arithmetic, D. S. Parker 1997). There are as many samples as explain an error, and at most six. So
the effect of a program on rounding errors is measured by the reference, not guessed. The factor
allows for elementary functions of few ulp and for sums in another order. The last term is there
because XLA:CPU treats smaller numbers as zero.
"""

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape, TupleValue
from minixla.core.tracing import default_trace
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla.tools import comparison
from minixla.tools.comparison import precision_of, wide
from minixla.tools.costs import operations_per_element
from minixla.tools.graph_parts import (
    all_values,
    every_step,
    inlined,
    inner_runs,
    is_inexact,
    needed_for,
    showing,
    type_of,
)
from minixla_ops.programs.reference_evaluation import reference_graph

#: The factor of the bound, by the bits of a real number. Narrow types are computed in wider ones
#: and rounded once; elementary functions of wide types are a few ulp off.
_FACTORS = {16: 8.0, 32: 64.0, 64: 64.0}
_SMALL_FACTOR = 4.0
_SAMPLES = 6

#: Operations that every evaluator rounds correctly: the result is exact if its type can hold it.
_EXACT = {
    "Abs",
    "Add",
    "Ceil",
    "Constant",
    "ConvGeneralDilated",
    "ConvertElementType",
    "DotGeneral",
    "Floor",
}
_EXACT |= {"Imag", "Iota", "Mul", "Neg", "Real", "Reduce", "ReducePrecision"}
_EXACT |= {
    "ReduceWindow",
    "RoundNearestAfz",
    "RoundNearestEven",
    "Scatter",
    "SelectAndScatter",
    "Sign",
    "Sub",
}

#: Operations whose rounding IEEE 754 defines.
_DEFINED = {"Add", "Sub", "Mul", "Div", "Sqrt", "ConvertElementType", "ReducePrecision"}
_DEFINED |= {"RoundNearestAfz", "RoundNearestEven"}

Values = dict[Value, Any]


def in_double(graph: Graph, operands: Sequence[Any]) -> list[np.ndarray]:
    """Return the results of a program computed in double, regardless of its types."""
    values = _values_in_double(graph, operands)
    return [values[value].data for value in graph.outputs]


def near_in_double(graph: Graph, operands: Sequence[Any]) -> Callable[..., list[np.ndarray]]:
    """Return a faster `in_double` for operands that are mostly the same as these."""
    trace = ReferenceTrace(default_trace(), "float64")
    in_double = _values_in_double(graph, operands, trace=trace)

    def results(near: Sequence[Any]) -> list[np.ndarray]:
        values = _values_in_double(graph, near, trace=trace, known=in_double)
        return [values[value].data for value in graph.outputs]

    return results


class Measured:
    """A program without calls at given operands: its values, and how far rounding moves them."""

    def __init__(self, graph: Graph, operands: Sequence[np.ndarray]) -> None:
        self.graph, self.operands = graph, operands
        #: Each value by the reference rules; then each array, in double if it is float or complex;
        #: then the statistics that the module describes.
        self.reference = declared_values(graph, operands)
        exact = _values_in_double(graph, operands)
        arrays = [value for value in all_values(graph) if isinstance(value.shape, Shape)]
        self.truth: Values = {value: exact[value].data for value in arrays}
        self._counts = {step: operations_per_element(step) for step in graph.instructions}
        # How far rounding moves each float and complex number, in the samples so far.
        inexact = [value for value in arrays if is_inexact(value.shape)]
        self._spread = {value: np.zeros(self.truth[value].shape) for value in inexact}
        self._samples = 0

    @property
    def spread(self) -> dict[Value, np.ndarray]:
        """The distance that rounding moves each float and complex number, in all samples."""
        while self._has_widened():
            pass
        return self._spread

    def _has_widened(self) -> bool:
        """Take another sample, if the limit is not reached, and return whether it was taken."""
        if self._samples == _SAMPLES or not self._rounded:
            return False
        sample = self._disturbed(np.random.default_rng(self._samples))
        self._samples += 1
        with np.errstate(all="ignore"):
            for value, largest in self._spread.items():
                moved = np.abs(sample[value].data - self.truth[value])
                # An infinity explains no error.
                np.fmax(largest, np.where(np.isfinite(moved), moved, 0.0), out=largest)
        return True

    @functools.cached_property
    def _rounded(self) -> dict[Value, np.ndarray]:
        """Masks of the elements that an instruction rounds; others must not be disturbed."""
        # Elements of a maximum, a gather or a comparison are equal to other values, bit for bit, in
        # every evaluator.
        trace = ReferenceTrace(default_trace(), "float64")
        rounded = {}
        steps = [step for step in self.graph.instructions if any(map(is_inexact, step.shapes))]
        for step in steps:
            read = [_tracer(trace, self.reference[x], x.shape) for x in step.operands]
            pairs = zip(step.results, _outcome(trace, step, read), strict=True)
            for value, exact in compress(pairs, map(is_inexact, step.shapes)):
                given = self.reference[value]
                with np.errstate(all="ignore"):
                    if type_of(value).real.bits == 64:
                        mask = _seems_rounded(step, given, self.reference)
                    else:
                        is_nan = np.isnan(given) & np.isnan(exact.data)
                        mask = (wide(given) != exact.data) & ~is_nan
                if mask.any():
                    rounded[value] = mask
        return rounded

    @functools.cached_property
    def depends_on_rounding(self) -> set[Value]:
        """The values that depend on an instruction that rounds.

        All evaluators must agree on the other values bit for bit: integers, booleans, and floats
        that are only moved, selected or computed without rounding errors.
        """
        dependent: set[Value] = set()
        for step in self.graph.instructions:
            if dependent.intersection(step.operands) or self._rounds(step):
                dependent.update(step.results)
        return dependent

    def is_determined(self, value: Value) -> bool:
        """Test whether a value's instructions round nothing, or as IEEE 754 defines it.

        All backends that follow StableHLO's specification then agree on it bit for bit.
        """
        return not any(
            (step.op.name not in _DEFINED or self._counts[step] > 1) and self._rounds(step)
            for step in needed_for(value, self.graph)
        )

    def _rounds(self, step: Instruction) -> bool:
        """Test whether evaluators may round the results of an instruction differently."""
        operands = [self.reference[value] for value in step.operands]
        runs = inner_runs(step, operands)
        if runs is not None:
            inner = (Measured(inlined(graph).pruned(), arguments) for graph, arguments in runs)
            return any(measured.depends_on_rounding for measured in inner)
        inexact = [value for value in step.results if is_inexact(value.shape)]
        if not inexact:  # its computation, which orders or selects, may round
            inner_steps = (
                inner_step for graph in step.op.computations for inner_step in every_step(graph)
            )
            return any(is_inexact(shape) for step in inner_steps for shape in step.shapes)
        if not self._rounded.keys().isdisjoint(inexact):
            return True
        if step.op.name in _EXACT:
            return False
        # The value of an elementary function may happen to be exact.
        return any(not _is_known(self.reference[value], operands) for value in inexact)

    def _disturbed(self, generator: np.random.Generator) -> Values:
        """Return the values in double with a random disturbance of about the size of rounding."""

        def moved(data: np.ndarray, value: Value, size: float) -> np.ndarray:
            unit = size * precision_of(type_of(value))
            return data * (1 + generator.uniform(-1, 1, data.shape) * unit)

        def operand(step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
            # Disturb the operand of a sum, because each product with it is rounded separately.
            is_rounded = any(result in self._rounded for result in step.results)
            is_sum = is_rounded and self._counts[step] > 2
            return moved(data, value, 1.0) if is_sum and is_inexact(value.shape) else data

        def result(step: Instruction, value: Value, data: np.ndarray) -> np.ndarray:
            if value not in self._rounded:
                return data
            size = max(1.0, self._counts[step]) ** 0.5
            return np.where(self._rounded[value], moved(data, value, size), data)

        return _values_in_double(self.graph, self.operands, operand, result)

    def bound(self, value: Value) -> np.ndarray:
        """Return the largest allowed error for each element of a float or complex value."""
        kind = type_of(value)
        factor = _FACTORS.get(kind.real.bits, _SMALL_FACTOR)
        smallest = float(comparison.real_part_info(kind.dtype).smallest_normal)
        ulp = comparison.ulp_size(self.truth[value], kind.dtype)
        return factor * (ulp + self._spread[value]) + smallest

    def compared(self, value: Value, actual: np.ndarray) -> comparison.Comparison:
        """Compare an evaluator's result for a value with the value in double."""
        truth = self.truth[value]
        if not is_inexact(value.shape):
            return comparison.compared(actual, truth)
        while True:
            difference = comparison.compared(actual, truth, self.bound(value))
            # Samples only widen the bound, and each takes the time of an evaluation.
            if difference.excess <= 1 or not self._has_widened():
                return difference


def declared_values(graph: Graph, operands: Sequence[Any]) -> Values:
    """Return every value of a program, by the reference rules."""
    everything = all_values(graph)
    results = reference_graph(showing(graph, everything), operands)
    return dict(zip(everything, results, strict=True))


_Change = Callable[[Instruction, Value, np.ndarray], np.ndarray]


def _values_in_double(
    graph: Graph,
    operands: Sequence[Any],
    operand: _Change | None = None,
    result: Any = None,
    trace: ReferenceTrace | None = None,
    known: Values | None = None,
) -> Values:
    """Return each value as a tracer, changed where it is read and where it is computed.

    Values computed from the same operands as in `known`, the values of a call with the same trace,
    are taken from there.
    """
    trace = trace or ReferenceTrace(default_trace(), "float64")

    def changed(change: _Change | None, step: Instruction, value: Value, tracer: Any) -> Any:
        if change is None or not isinstance(value.shape, Shape):
            return tracer
        return ReferenceTracer(trace, change(step, value, tracer.data), value.shape)

    tracers = [_tracer(trace, x, v.shape) for x, v in zip(operands, graph.inputs, strict=True)]
    values = dict(zip(graph.inputs, tracers, strict=True))
    if known is not None:
        values |= {x: known[x] for x, value in values.items() if _is_same(value, known[x])}
    for step in graph.instructions:
        if known is not None and all(
            values[operand] is known[operand] for operand in step.operands
        ):
            values |= {result: known[result] for result in step.results}
            continue
        read = [changed(operand, step, value, values[value]) for value in step.operands]
        for value, outcome in zip(step.results, _outcome(trace, step, read), strict=True):
            values[value] = changed(result, step, value, outcome)
    return values


def _is_same(one: Any, other: Any) -> bool:
    return isinstance(one, ReferenceTracer) and np.array_equal(one.data, other.data)


def _tracer(trace: ReferenceTrace, data: Any, shape: Any) -> Any:
    """Return a tracer for a value; floats and complex numbers are in double."""
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


def _is_known(array: np.ndarray, operands: Sequence[Any]) -> bool:
    """Test whether each element is 0, infinite, NaN, or plus or minus an operand's element."""
    magnitudes = [_magnitudes(operand) for operand in operands if isinstance(operand, np.ndarray)]
    wanted = _magnitudes(array)
    is_special = (wanted == 0) | ~np.isfinite(wanted)
    return bool(np.all(is_special | np.isin(wanted, np.concatenate(magnitudes or [wanted[:0]]))))


def _magnitudes(array: np.ndarray) -> np.ndarray:
    """Return the magnitudes of all real and imaginary parts, in double."""
    parts = [np.real(array), np.imag(array)] if array.dtype.kind == "c" else [array]
    return np.abs(np.concatenate([np.ravel(part).astype(np.float64) for part in parts]))


def _seems_rounded(step: Instruction, result: np.ndarray, values: Values) -> np.ndarray:
    """Mark elements of 64-bit types that are neither an operand's nor whole by intent."""
    # Sums of whole numbers are whole, and so are elements rounded to integers.
    operands = [values[value] for value in step.operands if is_inexact(value.shape)]
    numbers = np.concatenate(
        [np.ravel(np.asarray(operand)) for operand in operands] or [np.zeros(0)]
    )
    is_known = np.isin(np.abs(result), np.abs(numbers))
    if operations_per_element(step) > 1 and not np.all(np.round(numbers) == numbers):
        return ~is_known
    return ~(is_known | np.isfinite(result) & (np.round(result) == result))
