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

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from minixla.core.element_types import ElementType, element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape, TupleValue
from minixla.core.tracing import default_trace
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla.tools.costs import operations_per_element
from minixla.tools.graph_parts import all_values, is_inexact, showing, type_of
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
    """A program without calls at given operands: its values, and how far rounding moves them."""

    def __init__(self, graph: Graph, operands: Sequence[np.ndarray]) -> None:
        self.graph, self.operands = graph, operands
        #: Each value as the reference rules give it; each array in double where it is a float or
        #: complex, as it is otherwise; and for those what the module says of it.
        self.reference = declared_values(graph, operands)
        exact = _values_in_double(graph, operands)
        arrays = [each for each in all_values(graph) if isinstance(each.shape, Shape)]
        self.truth: Values = {value: exact[value].data for value in arrays}
        inexact = [value for value in arrays if is_inexact(value.shape)]
        self.spread = {value: np.zeros(self.truth[value].shape) for value in inexact}
        self._rounded = self._what_rounds()
        self._counts = {step: operations_per_element(step) for step in graph.instructions}
        for seed in range(_SAMPLES if self._rounded else 0):
            sample = self._disturbed(np.random.default_rng(seed))
            for value, largest in self.spread.items():
                with np.errstate(all="ignore"):
                    moved = np.abs(sample[value].data - self.truth[value])
                np.maximum(largest, moved, out=largest, where=~np.isnan(moved))

    def _what_rounds(self) -> dict[Value, np.ndarray]:
        """Marks the elements that an instruction rounds: others must not be disturbed."""
        # The members of a maximum, of a gather or of a comparison are equal to other values, bit by
        # bit, in every evaluator.
        trace = ReferenceTrace(default_trace(), "float64")
        found = {}
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
            if value not in self._rounded:
                return data
            size = max(1.0, self._counts[step]) ** 0.5
            return np.where(self._rounded[value], moved(data, value, size), data)

        return _values_in_double(self.graph, self.operands, operand, result)

    def bound(self, value: Value) -> np.ndarray:
        """How far an element of a float or complex value may be from `truth`."""
        kind = type_of(value)
        factor = _FACTORS.get(kind.real.bits, _SMALL_FACTOR)
        ulp = ulp_size(self.truth[value], kind.dtype)
        smallest = float(real_part_info(kind.dtype).smallest_normal)
        return factor * (ulp + self.spread[value]) + smallest

    def compared(self, value: Value, actual: np.ndarray) -> "Comparison":
        """Compares what an evaluator has for a value with the value in double."""
        bound = self.bound(value) if value in self.spread else None
        return compared(actual, self.truth[value], bound)


def declared_values(graph: Graph, operands: Sequence[Any]) -> Values:
    """Every value of a program, as the reference rules give it."""
    everything = all_values(graph)
    found = reference_graph(showing(graph, everything), operands)
    return dict(zip(everything, found, strict=True))


_Change = Callable[[Instruction, Value, np.ndarray], np.ndarray]


def _values_in_double(
    graph: Graph, operands: Sequence[Any], operand: _Change | None = None, result: Any = None
) -> Values:
    """Each value as a tracer that holds it, changed where it is read and where it is made."""
    trace = ReferenceTrace(default_trace(), "float64")

    def changed(change: _Change | None, step: Instruction, value: Value, tracer: Any) -> Any:
        if change is None or not isinstance(value.shape, Shape):
            return tracer
        return ReferenceTracer(trace, change(step, value, tracer.data), value.shape)

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
    """For types as wide as double: which elements are neither an operand's, nor whole by intent."""
    # Sums of whole numbers are whole, and so is what rounds an element to an integer.
    operands = [values[value] for value in step.operands if is_inexact(value.shape)]
    known = np.concatenate([np.ravel(np.asarray(each)) for each in operands] or [np.zeros(0)])
    is_known = np.isin(np.abs(given), np.abs(known))
    if operations_per_element(step) > 1 and not np.all(np.round(known) == known):
        return ~is_known
    return ~(is_known | np.isfinite(given) & (np.round(given) == given))


class Comparison(NamedTuple):
    """How far an array is from what it should be."""

    #: The largest error of an element in units of the last place; for integers and booleans the
    #: largest difference.
    ulp: float
    error: float  # the largest
    relative: float  # it over the largest element
    #: What is allowed at the element whose error exceeds its bound most, in ulp; it over that,
    #: of which more than 1 is too much; and the index of that element.
    bound: float
    excess: float
    worst: tuple[int, ...]


def compared(actual: np.ndarray, truth: np.ndarray, bound: np.ndarray | None = None) -> Comparison:
    """Compares an array with what it should be, in double, and each error with its bound."""
    if actual.shape != truth.shape:
        return Comparison(np.inf, np.inf, np.inf, 0.0, np.inf, ())
    if actual.size == 0:
        return Comparison(0.0, 0.0, 0.0, 0.0, 0.0, ())
    if not element_type(actual.dtype).is_inexact:
        kind = np.uint64 if actual.dtype == np.uint64 else np.int64
        ours, theirs = actual.astype(kind), truth.astype(kind)
        ends = [choose(ours, theirs).astype(np.uint64) for choose in (np.maximum, np.minimum)]
        apart = np.asarray(np.subtract(*ends), np.float64)
        largest = float(apart.max())
        excess = np.inf if largest else 0.0
        return Comparison(largest, largest, float(largest > 0), 0.0, excess, _index(apart))
    assert bound is not None
    error = absolute_error(actual, truth)
    ulp = ulp_size(truth, actual.dtype)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, 0.0, error / bound)
        excess = np.where(np.isnan(excess), np.inf, excess)
        where = _index(excess)
        relative, most = relative_error(error, truth), float((error / ulp).max())
        worst = float((bound / ulp)[where]), float(excess[where]), where
        return Comparison(most, float(error.max()), relative, *worst)


def _index(array: np.ndarray) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(np.argmax(array), array.shape))


def relative_error(error: np.ndarray, truth: np.ndarray) -> float:
    """The largest error over the largest finite element."""
    if not error.size or not error.max():
        return 0.0
    largest = np.abs(truth).max(initial=0.0, where=np.isfinite(truth))
    return float(error.max() / largest) if largest else float("inf")


def shown_element(array: np.ndarray, where: tuple[int, ...]) -> str:
    """An element with all its digits."""
    if array.ndim != len(where) or not array.size:
        return f"of dimensions {list(array.shape)}"
    return str(array[where])


def real_part_info(dtype: npt.DTypeLike) -> Any:
    """The limits of a float type, or of the parts of a complex one."""
    dtype = np.dtype(dtype)
    return ml_dtypes.finfo(f"f{dtype.itemsize // 2}" if dtype.kind == "c" else dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """A float or complex array in double."""
    return np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def ulp_size(numbers: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """The distance from a value of `dtype` (a complex one's magnitude) to the next, at numbers."""
    info = real_part_info(dtype)
    magnitude = np.abs(numbers)
    is_number = np.isfinite(magnitude) & (magnitude > 0)
    exponent = np.frexp(np.where(is_number, magnitude, 1))[1]
    smallest = float(info.smallest_subnormal)
    size = np.maximum(np.ldexp(1.0, exponent - 1 - info.nmant), smallest)
    return np.where(magnitude > 0, size, smallest)


def absolute_error(actual: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far values are from numbers in double, an element each."""
    # 0 where both are NaN, or where `actual` is the infinity that the number becomes in its type;
    # infinity where one alone is NaN.
    with np.errstate(all="ignore"):
        rounded, given = wide(truth.astype(actual.dtype)), wide(actual)
        error = np.abs(given - truth)
        is_same = (given == rounded) & ~np.isfinite(given) | np.isnan(given) & np.isnan(truth)
        return np.where(is_same, 0.0, np.where(np.isnan(error), np.inf, error))
