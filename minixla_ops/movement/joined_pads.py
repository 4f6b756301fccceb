"""Cotangents of neighbouring slices, which are arrays with zeros around them, as one join."""

from collections.abc import Sequence
from math import prod
from typing import Any

import minixla_ops as ops
from minixla.core.graph import Value
from minixla.core.shapes import Shape
from minixla.core.tracing import GraphTracer
from minixla_ops.movement.slicing import ConcatInDim, Pad, Triples, pad_with_zeros

# Of smaller parts XLA:CPU computes a sum of pads sooner: elements, and those that lie in a row.
_LEAST_SIZE, _LEAST_ROW = 128, 4
# A join of as many parts is a part of the next one, or programs would grow quadratically.
_MOST_PARTS = 32


def joined_pads(first: Any, second: Any) -> Any | None:
    """The sum of two padded arrays in a program, where one lies beside the other; else None.

    As a sum each element would be computed from both, one at a time, by XLA:CPU.
    """
    one = _padded(first)
    other = None if one is None else _padded(second)
    if one is None or other is None or first._trace is not second._trace:
        return None
    for (low, before), (high, after) in ((one, other), (other, one)):
        at = _dimension_of_join(low, high, before.shape, after.shape)
        if at is not None:
            parts = [*_parts(before, at), *_parts(after, at)]
            joined = ops.concat_in_dim([GraphTracer(first._trace, each) for each in parts], at)
            config = [*low[:at], (low[at][0], high[at][1], 0), *low[at + 1 :]]
            return pad_with_zeros(joined, config) if any(map(any, config)) else joined
    return None


def _padded(value: Any) -> tuple[Triples, Value] | None:
    """Where zeros are put around which value, if `value` is known to be that."""
    step = value._value.instruction if type(value) is GraphTracer else None
    if step is None or type(step.op) is not Pad:
        return None
    operand, padding = step.operands
    is_zero = padding.literal is not None and not padding.literal.scalar
    return (step.op.padding_config, operand) if is_zero else None


def _dimension_of_join(low: Triples, high: Triples, before: Any, after: Any) -> int | None:
    """The only dimension in which paddings differ, if the second array begins as the first ends."""
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
