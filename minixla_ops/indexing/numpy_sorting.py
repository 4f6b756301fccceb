"""The order that a comparator puts elements into, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, remembered
from minixla_ops.elementwise.comparisons import Comparison, total_order
from minixla_ops.programs.reference_evaluation import apply_elementwise
from minixla_ops.vocabulary.casting import cast, widened


class Key(NamedTuple):
    """What a comparator that is just < or > looks at: which operand's elements, and how."""

    operand: int
    is_descending: bool
    in_total_order: bool


@remembered
def key_of(comparator: Graph) -> Key | None:
    """The key of a comparator that is just < or > of one operand's elements, else None."""
    comparator = comparator.pruned()
    if len(comparator.instructions) != 1 or not comparator.outputs[0].instruction:
        return None
    (only,) = comparator.instructions
    if not isinstance(only.op, Comparison) or only.op.direction not in ("LT", "GT"):
        return None
    places = {id(value): place for place, value in enumerate(comparator.inputs)}
    left, right = (places[id(operand)] for operand in only.operands)
    if left // 2 != right // 2 or left == right:
        return None
    return Key(left // 2, (only.op.direction == "GT") != (left > right), only.op.total_order)


def order_by_key(rows: Sequence[np.ndarray], comparator: Graph) -> np.ndarray | None:
    """The stable order of each row, where NumPy knows it; else None."""
    key = key_of(comparator)
    if key is None:
        return None
    values = rows[key.operand]
    kind = element_type(values.dtype)
    if kind.is_float and key.in_total_order:
        values = total_order(values, kind)
    else:
        values = cast(values, widened(kind))
        if kind.is_complex or (kind.is_float and np.isnan(values).any()):
            return None
    if key.is_descending:
        values = -values if values.dtype.kind == "f" else ~values
    return np.argsort(values, axis=-1, kind="stable")


def order_by_merging(rows: Sequence[np.ndarray], comparator: Graph) -> np.ndarray:
    """The stable order of each row, by merging runs of growing width, all runs at once.

    The elements of every second run find their places in the run before it by binary search: in
    front of the first element that they come before. Whatever the comparator, this ends, and gives
    a permutation.
    """
    size = rows[0].shape[-1]
    count = math.prod(rows[0].shape[:-1])  # -1 cannot be told where size is 0
    flat = [row.reshape(count, size) for row in rows]
    order = np.broadcast_to(np.arange(size), flat[0].shape)
    places, width = np.arange(size), 1
    while width < size and order.size:
        is_late = places // width % 2 == 1
        late = places[is_late]
        starts = (late // width - 1) * width  # of the runs before
        ordered = [np.take_along_axis(row, order, -1) for row in flat]
        low = np.zeros((len(order), late.size), np.intp)
        high = np.full_like(low, width)
        for _ in range(width.bit_length()):
            middle = np.minimum((low + high) // 2, width - 1)
            pairs = [
                (row[:, late], np.take_along_axis(row, starts + middle, -1)) for row in ordered
            ]
            (is_before,) = apply_elementwise(comparator, [each for pair in pairs for each in pair])
            is_open = low < high
            high = np.where(is_open & is_before, middle, high)
            low = np.where(is_open & ~is_before, middle + 1, low)
        # In each run no place before that of an earlier element.
        above = starts * 2
        low = np.maximum.accumulate(low + above, axis=-1) - above
        takes_late = np.zeros(order.shape, bool)
        np.put_along_axis(takes_late, late - width + low, True, -1)
        merged = np.empty_like(order)
        merged[takes_late] = order[:, is_late].ravel()
        merged[~takes_late] = order[:, ~is_late].ravel()
        order, width = merged, width * 2
    return order.reshape(rows[0].shape)
