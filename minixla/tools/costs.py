"""Costs of instructions and programs: arithmetic and bytes, from one table and from shapes.

Counts follow XLA: a multiplication and an addition are two operations. Elementary functions are
counted separately, and operations that only move values cost bytes.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from minixla.core.graph import Graph, Instruction, Value, remembered
from minixla.core.shapes import AnyShape, Shape
from minixla_ops.control_flow.loop_trips import known_trips
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.transcendental import FloatUnary
from minixla_ops.helpers.tuple_operations import leaf_shapes
from minixla_ops.programs.lowering import is_lowered, lowered_program


class Cost(NamedTuple):
    """The cost of running something."""

    flops: int = 0  # arithmetic operations on numbers of any type, including comparisons
    transcendentals: int = 0  # elementary functions
    bytes: int = 0  # read and written, if nothing stays in caches
    is_bound: bool = True  # False: a loop of an unknown number of iterations was counted once

    def times(self, count: int) -> "Cost":
        """Return the cost of doing it `count` times."""
        return Cost(*[number * count for number in self[:3]], is_bound=self.is_bound)


def element_count(shapes: Sequence[AnyShape]) -> int:
    """Return the number of elements of arrays, at the bounds of dynamic sizes."""
    return sum(shape.size for shape in _arrays(shapes))


def byte_count(shapes: Sequence[AnyShape]) -> int:
    """Return the bytes of arrays in memory; elements of less than a byte are packed."""
    pairs = [(shape.size, shape.element_type.bits) for shape in _arrays(shapes)]
    return sum(-(-count * (8 if bits == 1 else bits) // 8) for count, bits in pairs)


def _arrays(shapes: Sequence[AnyShape]) -> Iterator[Shape]:
    leaves = (leaf for shape in shapes for leaf in leaf_shapes(shape))
    return (leaf for leaf in leaves if isinstance(leaf, Shape))


def summed(costs: Iterable[Cost]) -> Cost:
    """Add costs."""
    *counts, bounds = zip(Cost(), *costs, strict=True)
    return Cost(*map(sum, counts), is_bound=all(bounds))


@remembered
def graph_cost(graph: Graph) -> Cost:
    """Sum the costs of the instructions that results depend on."""
    return summed(map(instruction_cost, graph.pruned().instructions))


def instruction_cost(step: Instruction) -> Cost:
    """Return the cost of one instruction, including the programs that it runs."""
    rule = _RULES.get(step.op.name)
    if rule is not None:
        return rule(step)
    if is_lowered(step.op):
        return graph_cost(lowered_program(step.op, tuple(_shapes(step.operands))))
    if isinstance(step.op, Elementwise):
        return _functions(step) if isinstance(step.op, FloatUnary) else _flops(step, 1)
    return summed(map(graph_cost, step.op.computations)) if step.op.computations else _cost(step)


def operations_per_element(step: Instruction) -> float:
    """Return the arithmetic operations of an instruction for each element of its results."""
    cost = instruction_cost(step)
    return (cost.flops + cost.transcendentals) / max(element_count(step.shapes), 1)


def _shapes(values: Sequence[Value]) -> list[AnyShape]:
    return [value.shape for value in values]


def _sizes(value: Any) -> tuple[int, ...]:
    return value.shape.dimensions


def _cost(step: Instruction, flops: int = 0, transcendentals: int = 0) -> Cost:
    """Return the cost of an instruction that reads all its operands and writes its results."""
    moved = byte_count(_shapes(step.operands)) + byte_count(step.shapes)
    return Cost(flops, transcendentals, moved)


def _functions(step: Instruction) -> Cost:
    return _cost(step, 0, element_count(step.shapes))


def _flops(step: Instruction, per_element: int, over: int = 1) -> Cost:
    """Return the cost of `per_element` / `over` arithmetic operations for each result."""
    return _cost(step, per_element * element_count(step.shapes) // over)


def _dot(step: Instruction) -> Cost:
    sizes = _sizes(step.operands[0])
    contracted = step.op.dimension_numbers.lhs_contracting_dimensions
    return _flops(step, 2 * math.prod(sizes[dimension] for dimension in contracted))


def _convolution(step: Instruction) -> Cost:
    # The kernel's input features are those of one group.
    feature = step.op.dimension_numbers.kernel_output_feature_dimension
    sizes = enumerate(_sizes(step.operands[1]))
    return _flops(step, 2 * math.prod(size for number, size in sizes if number != feature))


def _reduce(step: Instruction) -> Cost:
    half = len(step.operands) // 2
    count = element_count(_shapes(step.operands[:half])) - element_count(step.shapes)
    return _folded(step, step.op.computation, max(count, 0) // max(half, 1))


def _reduce_window(step: Instruction) -> Cost:
    half = max(len(step.operands) // 2, 1)
    steps = max(math.prod(step.op.window_dimensions) - 1, 0)
    return _folded(step, step.op.computation, element_count(step.shapes) // half * steps)


def _scatter(step: Instruction) -> Cost:
    count = len(step.operands) // 2
    updates = _shapes(step.operands[count + 1 :])
    runs = element_count(updates) // max(count, 1)
    moved = 3 * byte_count(updates) + byte_count([step.operands[count].shape])
    return graph_cost(step.op.update_computation).times(runs)._replace(bytes=moved)


def _select_and_scatter(step: Instruction) -> Cost:
    sources = element_count([step.operands[1].shape])
    compared = sources * max(math.prod(step.op.window_dimensions) - 1, 0)
    scattered = graph_cost(step.op.scatter).times(sources)._replace(bytes=0)
    return summed([_folded(step, step.op.select, compared), scattered])


def _sort(step: Instruction) -> Cost:
    sizes = _sizes(step.operands[0])
    row = sizes[step.op.dimension] if sizes else 1
    return _folded(step, step.op.comparator, math.prod(sizes) * _logarithm(row))


def _folded(step: Instruction, computation: Graph, count: int) -> Cost:
    """Return the cost of `count` runs of a computation of scalars, which stay in registers."""
    return graph_cost(computation).times(count)._replace(bytes=_cost(step).bytes)


def _logarithm(count: int) -> int:
    return max(count - 1, 0).bit_length()


def _fft(step: Instruction) -> Cost:
    count = max(element_count(_shapes(step.operands)), element_count(step.shapes))
    # The usual count of the radix-2 algorithm, 5 n log2 n; half of it for real ends.
    factor = 5 if step.op.fft_type in ("FFT", "IFFT") else 2
    return _cost(step, factor * count * _logarithm(math.prod(step.op.fft_length)))


def _loop(step: Instruction) -> Cost:
    condition, body = step.op.condition, step.op.body
    trips = known_trips(condition, body, step.operands)
    once = summed([graph_cost(condition), graph_cost(body)])
    return once._replace(is_bound=False) if trips is None else once.times(trips.count)


def _reduce_scatter(step: Instruction) -> Cost:
    reducer = graph_cost(step.op.computation)
    times = (step.op.group_size() - 1) * element_count(step.shapes)
    return _cost(step, reducer.flops * times, reducer.transcendentals * times)


_TABLE: dict[str, Callable[[Instruction], Cost]] = {
    "Parameter Constant Tuple GetTupleElement AddDependency Bitcast OptimizationBarrier AfterAll "
    "Domain AllReduceDone StopGradient ReplicaId PartitionID GetDimensionSize": lambda step: Cost(),
    "Real Imag Complex ConvertElementType Copy": _cost,
    # These read as much of their operands as they write.
    "Slice DynamicSlice Gather Iota Broadcast BroadcastInDim": lambda step: Cost(
        bytes=2 * byte_count(step.shapes)
    ),
    # XLA writes the update into the operand's memory if nothing else reads the operand.
    "DynamicUpdateSlice": lambda step: Cost(bytes=2 * byte_count([step.operands[1].shape])),
    "Pow Atan2": _functions,
    "DotGeneral": _dot,
    "ConvGeneralDilated": _convolution,
    "Reduce": _reduce,
    # The composition itself contains a ReduceScatter, so it needs a separate rule.
    "ReduceScatter": _reduce_scatter,
    "ReduceWindow": _reduce_window,
    "Scatter": _scatter,
    "SelectAndScatter": _select_and_scatter,
    "Sort": _sort,
    "Fft": _fft,
    "Cholesky": lambda step: _flops(step, _sizes(step.operands[0])[-1], over=3),
    "TriangularSolve": lambda step: _flops(step, _sizes(step.operands[0])[-1]),
    # Threefry: 20 rounds of three operations and five key injections, for two words.
    "RngBitGenerator RngUniform RngNormal": lambda step: Cost(
        36 * element_count(step.shapes), 0, byte_count(step.shapes)
    ),
    # The cost of the most expensive branch.
    "Conditional": lambda step: max(
        map(graph_cost, step.op.computations), key=lambda cost: (cost.flops, cost.bytes)
    ),
    "While": _loop,
}
_RULES = {name: rule for names, rule in _TABLE.items() for name in names.split()}


@remembered
def peak_bytes(graph: Graph) -> int:
    """Return the peak number of bytes of live values, including arguments and results.

    Instructions run in order and are not fused. A value lives from the instruction that computes it
    to the last one that reads it, and arguments live throughout. Programs that an instruction runs
    need their own bytes in addition.
    """
    steps = graph.pruned().instructions
    last = {value: number for number, step in enumerate(steps) for value in step.operands}
    last |= dict.fromkeys([*graph.outputs, *graph.inputs], len(steps))
    ends: list[list[int]] = [[] for _ in range(len(steps) + 1)]
    living = peak = byte_count(graph.input_shapes)
    for number, step in enumerate(steps):
        sizes = [byte_count([shape]) for shape in step.shapes]
        for value, size in zip(step.results, sizes, strict=True):
            ends[last.get(value, number)].append(size)
        living += sum(sizes)
        inner = [
            peak_bytes(computation) - byte_count(computation.input_shapes)
            for computation in step.op.computations
        ]
        peak = max(peak, living + max(inner, default=0))
        living -= sum(ends[number])
    return peak
