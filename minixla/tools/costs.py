"""What an instruction costs: arithmetic and bytes, from shapes alone. One table, by operation.

Counts are XLA's: a multiplication and an addition are two operations, an elementary function is
counted apart, and what only moves values costs bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.tools.graph_parts import composition_of
from minixla_ops.control_flow.loop_trips import known_trips
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.transcendental import FloatUnary
from minixla_ops.programs.compositions import Composed


class Cost(NamedTuple):
    """What running something costs.

    Attributes:
        flops: arithmetic operations of numbers of any type, comparisons included.
        transcendentals: elementary functions.
        bytes: read and written, if nothing stays in caches.
        is_bound: False where a loop's number of iterations is not known: it was counted once.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0
    is_bound: bool = True

    def plus(self, other: Cost) -> Cost:
        """The cost of both."""
        flops, transcendentals, moved = map(operator.add, self[:3], other[:3])
        return Cost(flops, transcendentals, moved, self.is_bound and other.is_bound)

    def times(self, count: int) -> Cost:
        """The cost of doing it `count` times."""
        flops, transcendentals, moved = [each * count for each in self[:3]]
        return Cost(flops, transcendentals, moved, self.is_bound)


def element_count(shapes: Sequence[AnyShape]) -> int:
    """The number of elements of arrays, at the bounds of dynamic sizes."""
    return sum(math.prod(shape.dimensions) for shape in _arrays(shapes))


def byte_count(shapes: Sequence[AnyShape]) -> int:
    """The bytes of arrays in memory; elements of less than a byte are packed."""
    pairs = [(math.prod(shape.dimensions), shape.element_type.bits) for shape in _arrays(shapes)]
    return sum(-(-count * max(bits, 8 if bits == 1 else bits) // 8) for count, bits in pairs)


def _arrays(shapes: Sequence[AnyShape]) -> list[Shape]:
    found: list[Shape] = []
    for shape in shapes:
        if isinstance(shape, TupleShape):
            found.extend(_arrays(shape.elements))
        elif isinstance(shape, Shape):
            found.append(shape)
    return found


def graph_cost(graph: Graph) -> Cost:
    """The sum over its instructions that results depend on."""
    found = graph.memo.get("cost")
    if found is None:
        found = Cost()
        for step in graph.pruned().instructions:
            found = found.plus(instruction_cost(step))
        graph.memo["cost"] = found
    return found


def instruction_cost(step: Instruction) -> Cost:
    """What one instruction costs, the programs that it runs included."""
    rule = _RULES.get(step.op.name) or _by_family(step)
    return rule(step)


def operations_per_element(step: Instruction) -> float:
    """Arithmetic operations of an instruction for each element that it gives."""
    cost = instruction_cost(step)
    return (cost.flops + cost.transcendentals) / max(element_count(step.shapes), 1)


def _by_family(step: Instruction) -> Callable[[Instruction], Cost]:
    if isinstance(step.op, Composed):
        return _composed
    if isinstance(step.op, FloatUnary):
        return _function
    if isinstance(step.op, Elementwise):
        return _elementwise
    return _called if step.op.computations else _moved


def _shapes(values: Sequence[Value]) -> list[AnyShape]:
    return [value.shape for value in values]


def _traffic(step: Instruction) -> int:
    return byte_count(_shapes(step.operands)) + byte_count(step.shapes)


def _moved(step: Instruction) -> Cost:
    return Cost(0, 0, _traffic(step))


def _free(step: Instruction) -> Cost:
    return Cost()


def _written(step: Instruction) -> Cost:
    """Reads as much of its operands as it writes, as slices and gathers do."""
    return Cost(0, 0, 2 * byte_count(step.shapes))


def _updated(step: Instruction) -> Cost:
    """Writes its update into the operand's own memory, as XLA does where nobody else reads it."""
    return Cost(0, 0, 2 * byte_count([step.operands[1].shape]))


def _elementwise(step: Instruction) -> Cost:
    return Cost(element_count(step.shapes), 0, _traffic(step))


def _function(step: Instruction) -> Cost:
    return Cost(0, element_count(step.shapes), _traffic(step))


def _dot(step: Instruction) -> Cost:
    lhs = step.operands[0].shape
    assert isinstance(lhs, Shape)
    numbers = step.op.dimension_numbers
    contracted = math.prod(lhs.dimensions[each] for each in numbers.lhs_contracting_dimensions)
    return Cost(2 * contracted * element_count(step.shapes), 0, _traffic(step))


def _convolution(step: Instruction) -> Cost:
    # The kernel's input features are those of one group.
    kernel = step.operands[1].shape
    assert isinstance(kernel, Shape)
    feature = step.op.dimension_numbers.kernel_output_feature_dimension
    each = math.prod(size for i, size in enumerate(kernel.dimensions) if i != feature)
    return Cost(2 * each * element_count(step.shapes), 0, _traffic(step))


def _reduce(step: Instruction) -> Cost:
    half = len(step.operands) // 2
    count = element_count(_shapes(step.operands[:half])) - element_count(step.shapes)
    return _folded(step, "computation", max(count, 0) // max(half, 1))


def _reduce_window(step: Instruction) -> Cost:
    half = max(len(step.operands) // 2, 1)
    window = math.prod(step.op.window_dimensions)
    return _folded(step, "computation", element_count(step.shapes) // half * max(window - 1, 0))


def _scatter(step: Instruction) -> Cost:
    count = len(step.operands) // 2
    updates = _shapes(step.operands[count + 1 :])
    inner = _inside(step, "update_computation", element_count(updates) // max(count, 1))
    indices = byte_count([step.operands[count].shape])
    return inner._replace(bytes=3 * byte_count(updates) + indices)


def _select_and_scatter(step: Instruction) -> Cost:
    window = math.prod(step.op.window_dimensions)
    sources = element_count([step.operands[1].shape])
    selected = _inside(step, "select", sources * max(window - 1, 0))
    return selected.plus(_inside(step, "scatter", sources))._replace(bytes=_traffic(step))


def _sort(step: Instruction) -> Cost:
    first = step.operands[0].shape
    assert isinstance(first, Shape)
    row = first.dimensions[step.op.dimension] if first.rank else 1
    return _folded(step, "comparator", element_count([first]) * _logarithm(row))


def _folded(step: Instruction, name: str, count: int) -> Cost:
    return _inside(step, name, count)._replace(bytes=_traffic(step))


def _inside(step: Instruction, name: str, count: int) -> Cost:
    """`count` runs of a computation of scalars, which stay in registers."""
    return graph_cost(step.op.values[name]).times(count)._replace(bytes=0)


def _logarithm(count: int) -> int:
    return max(count - 1, 0).bit_length()


def _fft(step: Instruction) -> Cost:
    length = math.prod(step.op.fft_length)
    count = max(element_count(_shapes(step.operands)), element_count(step.shapes))
    # The usual count of the radix-2 algorithm, 5 n log2 n; half of it for real ends.
    factor = 4 if step.op.fft_type in ("FFT", "IFFT") else 2
    return Cost((factor + factor // 4) * count * _logarithm(length), 0, _traffic(step))


def _cholesky(step: Instruction) -> Cost:
    size = _size(step.operands[0], -1)
    return Cost(element_count(step.shapes) * size // 3, 0, _traffic(step))


def _triangular_solve(step: Instruction) -> Cost:
    size = _size(step.operands[0], -1)
    return Cost(element_count(step.shapes) * size, 0, _traffic(step))


def _size(value: Value, dimension: int) -> int:
    assert isinstance(value.shape, Shape)
    return value.shape.dimensions[dimension]


def _random_bits(step: Instruction) -> Cost:
    # Threefry: 20 rounds of three operations and five key injections, for two words.
    return Cost(36 * element_count(step.shapes), 0, byte_count(step.shapes))


def _called(step: Instruction) -> Cost:
    total = Cost()
    for computation in step.op.computations:
        total = total.plus(graph_cost(computation))
    return total


def _branches(step: Instruction) -> Cost:
    """That of the branch that costs most."""
    return max(map(graph_cost, step.op.computations), key=lambda cost: (cost.flops, cost.bytes))


def _loop(step: Instruction) -> Cost:
    condition, body = step.op.condition, step.op.body
    trips = known_trips(condition, body, list(map(_number, step.operands)))
    once = graph_cost(condition).plus(graph_cost(body))
    return once._replace(is_bound=False) if trips is None else once.times(trips.count)


def _number(value: Value) -> int | None:
    """An integer that the program holds."""
    literal = value.literal
    if literal is None or literal.shape.rank or not literal.shape.element_type.is_integer:
        return None
    return int(literal.scalar)


def _composed(step: Instruction) -> Cost:
    return graph_cost(composition_of(step))


_TABLE: dict[Callable[[Instruction], Cost], str] = {
    _free: "Parameter Constant Tuple GetTupleElement AddDependency Bitcast OptimizationBarrier "
    "AfterAll Domain AllReduceDone StopGradient ReplicaId PartitionID GetDimensionSize",
    _moved: "Real Imag Complex ConvertElementType Copy",
    _written: "Slice DynamicSlice Gather Iota Broadcast BroadcastInDim",
    _updated: "DynamicUpdateSlice",
    _function: "Pow Atan2",
    _dot: "DotGeneral",
    _convolution: "ConvGeneralDilated",
    _reduce: "Reduce",
    _reduce_window: "ReduceWindow",
    _scatter: "Scatter",
    _select_and_scatter: "SelectAndScatter",
    _sort: "Sort",
    _fft: "Fft",
    _cholesky: "Cholesky",
    _triangular_solve: "TriangularSolve",
    _random_bits: "RngBitGenerator RngUniform RngNormal",
    _branches: "Conditional",
    _loop: "While",
}
_RULES = {name: rule for rule, names in _TABLE.items() for name in names.split()}
