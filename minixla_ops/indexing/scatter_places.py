"""The elements of arrays that a scatter updates: written, read, and told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla_ops.indexing.bounded_windows import (
    gather_or_fill,
    may_lie_partly_outside,
    starts_in_bounds,
)
from minixla_ops.indexing.index_numbers import (
    GatherDimensionNumbers,
    outer_dimensions,
    window_sizes,
)
from minixla_ops.indexing.scatter_computations import split
from minixla_ops.vocabulary.shorthand import array_shape, as_tuple, splat, zeros, zeros_like

if TYPE_CHECKING:
    from minixla_ops.indexing.scatter import Scatter

Values = Sequence[Any]


class Places:
    """The elements that a scatter updates."""

    def __init__(self, operation: Scatter, values: Values) -> None:
        operands, self.indices, updates = split(values)
        self.dimensions = array_shape(operands[0]).dimensions
        self.update_dimensions = array_shape(updates[0]).dimensions
        self.computation, self.numbers = operation.update_computation, operation.dimension_numbers
        self.is_sorted, self.in_bounds = operation.indices_are_sorted, operation.indices_in_bounds
        # The elements of one window are different ones.
        self.outer = outer_dimensions(len(self.update_dimensions), self.numbers)
        has_one_window = math.prod([self.update_dimensions[d] for d in self.outer]) == 1
        self.is_unique = operation.unique_indices or has_one_window
        self.windows = window_sizes(self.dimensions, self.update_dimensions, self.numbers)

    def write(self, operands: Any, updates: Any, computation: Graph | Callable[..., Any]) -> Any:
        """A scatter to these places."""
        promises = self.is_sorted, self.is_unique, self.in_bounds
        return ops.scatter(operands, self.indices, updates, computation, self.numbers, *promises)

    def write_all(self, computation: Graph, operands: Values, updates: Values) -> Values:
        """`write` for several arrays."""
        return as_tuple(self.write(operands, updates, computation))

    def read(self, value: Any) -> Any:
        """What `value`, an array like the operand, has where updates go; 0 if that is outside."""
        if 0 in self.dimensions:
            return zeros(Shape(array_shape(value).element_type, self.update_dimensions))
        numbers = GatherDimensionNumbers(*self.numbers)
        if self.in_bounds:
            return ops.gather(value, self.indices, numbers, self.windows, self.is_sorted)
        return gather_or_fill(value, self.indices, numbers, self.windows, 0, self.is_sorted)

    def inside(self) -> Any:
        """Which updates go somewhere: a mask like the updates; None where all do."""
        if self.in_bounds:
            return None
        if 0 in self.dimensions or may_lie_partly_outside(self.numbers, self.windows):
            return self.read(splat(True, Shape("pred", self.dimensions)))
        mask = starts_in_bounds(self.indices, self.numbers, self.dimensions, self.windows)
        return None if mask is None else self._spread(mask)

    def last(self) -> Any:
        """Which updates are inside and have no later update in the same place: a mask like them."""
        outer = [self.update_dimensions[d] for d in self.outer]
        kind = element_type("s64" if math.prod(outer) >> 31 else "s32")
        counted = ops.iota(Shape(kind, (math.prod(outer),)), 0)
        ranks = self._spread(ops.reshape(counted, outer)) + 1
        latest = self.write(zeros(Shape(kind, self.dimensions)), ranks, ops.max)
        return ops.eq(self.read(latest), ranks)

    def _spread(self, windows: Any) -> Any:
        """A value for each window as one for each update."""
        return ops.broadcast_in_dim(windows, self.update_dimensions, self.outer)


def chosen(mask: Any, value: Any) -> Any:
    """`value` where the mask holds or is None, and 0 elsewhere."""
    return value if mask is None else ops.select(mask, value, zeros_like(value))
