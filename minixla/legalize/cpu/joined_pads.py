"""Sums of adjacent padded arrays, such as the cotangents of slices, as one concatenation."""

from collections.abc import Sequence
from math import prod
from typing import Any

import minixla_ops as ops
from minixla.core.graph import Value
from minixla.core.shapes import Shape
from minixla.core.tracing import GraphTracer
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.binary import Add
from minixla_ops.movement.slicing import ConcatInDim, Pad, Triples, pad_with_zeros

# Below these sizes XLA:CPU computes a sum of pads faster: single elements, and short rows.
_LEAST_SIZE, _LEAST_ROW = 128, 4
# Larger concatenations become a part of the next one; otherwise programs would grow quadratically.
_MOST_PARTS = 32


def _are_neighbours(operation: Any, operands: Operands, target: Target) -> bool:
    return _join(*operands) is not None


@legalize(Add, "cpu", reads_graph=True, when=_are_neighbours)
def joined_pads(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU computes each element of a sum of pads from both operands, one at a time."""
    first, second = operands
    join: Any = _join(first._value, second._value)
    parts, at, config = join
    joined = ops.concat_in_dim([GraphTracer(first._trace, part) for part in parts], at)
    return pad_with_zeros(joined, config) if any(map(any, config)) else joined


def _join(first: Value, second: Value) -> tuple[list[Value], int, Triples] | None:
    """Return the parts, the dimension and the padding of two adjacent padded arrays."""
    one = _padded(first)
    other = None if one is None else _padded(second)
    if one is None or other is None:
        return None
    for (low, before), (high, after) in ((one, other), (other, one)):
        at = _dimension_of_join(low, high, before.shape, after.shape)
        if at is not None:
            parts = [*_parts(before, at), *_parts(after, at)]
            return parts, at, (*low[:at], (low[at][0], high[at][1], 0), *low[at + 1 :])
    return None


def _padded(value: Value) -> tuple[Triples, Value] | None:
    """Return the padding and the operand of a value that is padded with zeros."""
    step = value.instruction
    if step is None or type(step.op) is not Pad:
        return None
    operand, padding = step.operands
    is_zero = padding.literal is not None and not padding.literal.scalar
    return (step.op.padding_config, operand) if is_zero else None


def _dimension_of_join(low: Triples, high: Triples, before: Any, after: Any) -> int | None:
    """Return the only dimension in which paddings differ, if the second array follows the first."""
    differ = [at for at, pair in enumerate(zip(low, high, strict=True)) if pair[0] != pair[1]]
    if len(differ) != 1 or before.is_dynamic or after.is_dynamic:
        return None
    (at,) = differ
    (start, rest, interior), (place, end, other) = low[at], high[at]
    is_beside = start + before.dimensions[at] == place and interior == other == 0
    is_large = all(_is_large(shape, at) for shape in (before, after))
    return at if is_beside and is_large and min(start, rest, place, end) >= 0 else None


def _is_large(shape: Shape, dimension: int) -> bool:
    return shape.size >= _LEAST_SIZE and prod(shape.dimensions[dimension:]) >= _LEAST_ROW


def _parts(value: Value, dimension: int) -> Sequence[Value]:
    step = value.instruction
    if step is None or step.op != ConcatInDim(dimension) or len(step.operands) >= _MOST_PARTS:
        return (value,)
    return step.operands
