"""The trip count of a While, and the values that it writes once, if known while tracing."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes

from minixla.core import Graph, Shape, Value
from minixla.core.tracing import GraphTracer
from minixla_ops.elementwise.comparisons import Comparison

# The comparison of b and a that is equivalent to one of a and b: LT for GT, GE for LE.
_MIRRORED = str.maketrans("LG", "GL")


class Trips(NamedTuple):
    """The iterations of a loop: their number, and the index, start and step of the counter."""

    count: int
    counter: int
    start: int
    step: int


def known_trips(condition: Graph, body: Graph, init: Sequence[object]) -> Trips | None:
    """Return the iterations if a counter determines their number, else None.

    The condition compares a counter with a bound, and the body adds a step to it (or subtracts
    one). Its initial value, the bound and the step are constants; the latter two may be constants
    of the loop. `init` are values while tracing, or values of a program.
    """
    test = condition.outputs[0].instruction
    if test is None or not isinstance(test.op, Comparison):
        return None
    (compared, bound), direction = test.operands, test.op.direction
    if compared not in condition.inputs or _number(bound, condition, body, init) is None:
        compared, bound, direction = bound, compared, direction.translate(_MIRRORED)
    limit = _number(bound, condition, body, init)
    if limit is None or compared not in condition.inputs:
        return None
    counter = condition.inputs.index(compared)
    start = _integer(init[counter])
    number_of = partial(_number, graph=body, body=body, init=init)
    slope, step = _line(body.outputs[counter], body.inputs[counter], number_of) or (0, 0)
    if start is None or slope != 1:
        return None
    count = _count(direction, start, limit, step)
    kind = compared.shape.element_type  # type: ignore[union-attr]  # only arrays are
    limits = ml_dtypes.iinfo(kind.dtype)
    if count is None or not limits.min <= start + count * step <= limits.max or count >= 2**31:
        return None  # the counter wraps
    return Trips(count, counter, start, step)


def written_once(body: Graph, trips: Trips) -> list[bool]:
    """Return which values are stacks of parts, each written by one iteration and not read."""
    uses = Counter(id(value) for step in body.instructions for value in step.operands)
    uses.update(map(id, body.outputs))
    pairs = zip(body.inputs, body.outputs, strict=True)
    return [
        uses[id(before)] == uses[id(after)] == 1 and _is_own_part(before, after, body, trips)
        for before, after in pairs
    ]


def _is_own_part(before: Value, after: Value, body: Graph, trips: Trips) -> bool:
    update = after.instruction
    if update is None or update.op.name != "DynamicUpdateSlice" or update.operands[0] is not before:
        return False
    _, part, *starts = update.operands
    assert isinstance(before.shape, Shape) and isinstance(part.shape, Shape)
    sizes = zip(before.shape.dimensions, part.shape.dimensions, starts, strict=True)
    for size, width, start in sizes:
        factor, addend = _line(start, body.inputs[trips.counter], _literal_integer) or (0, 0)
        slope, offset = factor * trips.step, addend + factor * trips.start
        ends = offset, offset + slope * (trips.count - 1)
        if slope and abs(slope) >= width and min(ends) >= 0 and max(ends) <= size - width:
            return True
    return False


def _line(
    value: Value, counter: Value, number: Callable[[Value], int | None]
) -> tuple[int, int] | None:
    """Return (a, b) if a value is a * counter + b, a sum or product with known integers."""
    if value is counter:
        return 1, 0
    step = value.instruction
    if step is None or step.op.name not in ("Add", "Sub"):
        return None
    sign = 1 if step.op.name == "Add" else -1
    slope = offset = 0
    for factor, operand in zip((1, sign), step.operands, strict=True):
        constant = 0 if operand is counter else number(operand)
        if constant is None:
            return None
        slope, offset = slope + factor * (operand is counter), offset + factor * constant
    return slope, offset


def _number(value: Value, graph: Graph, body: Graph, init: Sequence[object]) -> int | None:
    """Return the integer that a value of the condition or the body always has, else None."""
    if value.instruction is not None:
        return _literal_integer(value)
    position = graph.inputs.index(value)
    is_constant = body.outputs[position] is body.inputs[position]
    return _integer(init[position]) if is_constant else None


def _integer(value: Any) -> int | None:
    """Return the integer if a value is an integer scalar known while tracing, else None."""
    if type(value) is GraphTracer:
        value = value._value
    if type(value) is Value:
        return _literal_integer(value)
    shape = getattr(value, "_shape", None)
    if shape is not None and not (isinstance(shape, Shape) and shape.element_type.is_integer):
        return None
    try:
        return value.__index__()
    except (AttributeError, TypeError):  # not an integer, or traced by minixla or JAX
        return None


def _literal_integer(value: Value) -> int | None:
    literal, shape = value.literal, value.shape
    if literal is None or not isinstance(shape, Shape) or not shape.element_type.is_integer:
        return None
    return int(literal.scalar) if shape.rank == 0 else None


def _count(direction: str, start: int, bound: int, step: int) -> int | None:
    """Return the iterations of a loop while `counter direction bound`; None: infinite."""
    if not getattr(operator, direction.lower())(start, bound):
        return 0
    if direction == "EQ":
        return 1 if step else None
    span = bound - start + {"LE": 1, "GE": -1}.get(direction, 0)
    is_missed = direction == "NE" and step and span % step
    return -(-span // step) if span * step > 0 and not is_missed else None
