"""Sort orders of comparators: the compared key, and the order in NumPy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, remembered
from minixla_ops.elementwise.comparisons import Comparison, total_order
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.programs.reference_evaluation import apply_elementwise


class Key(NamedTuple):
    """The operand that a plain < or > comparator compares, and how."""

    operand: int
    is_descending: bool
    in_total_order: bool


@remembered
def key_of(comparator: Graph) -> Key | None:
    """Return the key of a comparator that is a plain < or > of one operand's elements, or None."""
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
    """Return the stable order of each row if NumPy can compute it, else None."""
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
    """Merge runs into the stable order of each row; any comparator gives a permutation.

    Source: Batcher's odd-even merge sort, Knuth, The Art of Computer Programming 3, 5.2.2, M.
    """
    size = rows[0].shape[-1]
    order = np.broadcast_to(np.arange(size), rows[0].shape).copy()

    def comes_before(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        pairs = [np.take_along_axis(row, at, -1) for row in rows for at in (first, second)]
        return apply_elementwise(comparator, pairs)[0]

    # Merge runs of `width`: compare elements `step` apart, and equal keys by position.
    widths = [1 << power for power in range((size - 1).bit_length())] if order.size else []
    for number, width in enumerate(widths):
        for step in reversed(widths[: number + 1]):
            lower = np.arange(step % width, size - step)
            is_first = (lower - step % width) // step % 2 == 0
            lower = lower[is_first & (lower // (2 * width) == (lower + step) // (2 * width))]
            first, second = order[..., lower], order[..., lower + step]
            is_tied = ~comes_before(first, second) & (second < first)
            is_late = comes_before(second, first) | is_tied
            order[..., lower] = np.where(is_late, second, first)
            order[..., lower + step] = np.where(is_late, first, second)
    return order
