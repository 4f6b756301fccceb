"""How often a While runs, and what it writes once, where its programs show it while tracing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes

from minixla.core.graph import Graph, Value
from minixla.core.shapes import Shape
from minixla.core.tracing import GraphTracer
from minixla_ops.elementwise.comparisons import Comparison

_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


class Trips(NamedTuple):
    """The iterations of a loop.

    Attributes:
        count: their number.
        counter: which value counts them.
        start: its first value.
        step: what each adds to it.
    """

    count: int
    counter: int
    start: int
    step: int


def known_trips(condition: Graph, body: Graph, init: Sequence[Any]) -> Trips | None:
    """The iterations, where a counter tells their number; else None.

    The condition compares a counter with a bound, the body adds a step to it (or subtracts one),
    and its first value, the bound and the step are constants (the latter two may be constants of
    the loop).
    """
    test = condition.outputs[0].instruction
    if test is None or not isinstance(test.op, Comparison):
        return None
    sides = [(value, _number(value, condition, body, init)) for value in test.operands]
    direction = test.op.direction
    if sides[0][1] is not None:
        sides.reverse()
        direction = _MIRRORED[direction]
    (compared, number), (_, bound) = sides
    counter = next((i for i, each in enumerate(condition.inputs) if each is compared), None)
    if counter is None or number is not None or bound is None:
        return None
    start = _integer(init[counter])
    known = partial(_number, graph=body, body=body, init=init)
    line = _line(body.outputs[counter], body.inputs[counter], known)
    if start is None or line is None or line[0] != 1:
        return None
    step = line[1]
    count = _count(direction, start, bound, step)
    kind = body.inputs[counter].shape.element_type  # type: ignore[union-attr]  # it is compared
    limits = ml_dtypes.iinfo(kind.dtype)
    if count is None or not limits.min <= start + count * step <= limits.max or count >= 2**31:
        return None  # the counter wraps
    return Trips(count, counter, start, step)


def written_once(body: Graph, trips: Trips) -> list[bool]:
    """Which values are arrays of which each iteration writes its own part, and that none reads.

    Such are the stacks in which a loop collects what its iterations give.
    """
    uses = Counter(id(value) for step in body.instructions for value in step.operands)
    uses.update(map(id, body.outputs))
    pairs = zip(body.inputs, body.outputs, strict=True)
    return [
        uses[id(before)] == uses[id(after)] == 1 and _is_own_part(before, after, body, trips)
        for before, after in pairs
    ]


def _is_own_part(before: Value, after: Value, body: Graph, trips: Trips) -> bool:
    update = after.instruction
    if update is None or update.op.name != "DynamicUpdateSlice":
        return False
    operand, part, *starts = update.operands
    if operand is not before:
        return False
    assert isinstance(before.shape, Shape) and isinstance(part.shape, Shape)
    sizes = zip(before.shape.dimensions, part.shape.dimensions, starts, strict=True)
    for size, width, start in sizes:
        line = _line(start, body.inputs[trips.counter], _literal_integer)
        if line is None or not line[0]:
            continue
        slope, offset = line[0] * trips.step, line[1] + line[0] * trips.start
        ends = offset, offset + slope * (trips.count - 1)
        if abs(slope) >= width and min(ends) >= 0 and max(ends) <= size - width:
            return True
    return False


def _line(
    value: Value, counter: Value, number: Callable[[Value], int | None]
) -> tuple[int, int] | None:
    """(a, b) where a value is a * counter + b: the counter, or it and what has a known number."""
    if value is counter:
        return 1, 0
    step = value.instruction
    if step is None or step.op.name not in ("Add", "Sub"):
        return None
    sign = 1 if step.op.name == "Add" else -1
    slope = offset = 0
    for factor, each in zip((1, sign), step.operands, strict=True):
        known = 0 if each is counter else number(each)
        if known is None:
            return None
        slope, offset = slope + factor * (each is counter), offset + factor * known
    return slope, offset


def _number(value: Value, graph: Graph, body: Graph, init: Sequence[Any]) -> int | None:
    """The number that a value of a loop's program, the condition or the body, always is."""
    if value.instruction is not None:
        return _literal_integer(value)
    position = next(i for i, each in enumerate(graph.inputs) if each is value)
    is_constant = body.outputs[position] is body.inputs[position]
    return _integer(init[position]) if is_constant else None


def _integer(value: Any) -> int | None:
    """The number, where a value is an integer scalar that is known while tracing."""
    if type(value) is GraphTracer:
        return _literal_integer(value._value)
    shape = getattr(value, "_shape", None)
    if shape is not None and not (isinstance(shape, Shape) and shape.element_type.is_integer):
        return None
    try:
        return value.__index__()
    except (AttributeError, TypeError):  # not an integer, or staged by us or by JAX
        return None


def _literal_integer(value: Value) -> int | None:
    literal, shape = value.literal, value.shape
    if literal is None or not isinstance(shape, Shape) or not shape.element_type.is_integer:
        return None
    return int(literal.scalar) if shape.rank == 0 else None


def _count(direction: str, start: int, bound: int, step: int) -> int | None:
    """The iterations of a loop that goes on while `counter direction bound`; None: without end."""
    span = bound - start
    if direction in ("GT", "GE"):
        span, step = -span, -step
    if direction in ("LE", "GE"):
        span += 1
    if direction == "EQ":
        return 0 if span else 1 if step else None
    if direction == "NE":
        if span == 0:
            return 0
        return span // step if step and span % step == 0 and span // step > 0 else None
    if span <= 0:
        return 0
    return -(-span // step) if step > 0 else None
