"""The pullback of a scatter with repeated targets and any computation: one window at a time.

Going forwards over the windows applies the updates and keeps what each one found; going back takes
the computation's pullback there. That is right for every computation. It costs K sequential steps
for K windows, each as long as a window is large, and arrays as large as the updates in between.
The steps are written out one after another, so the program grows with K, too: promise
`unique_indices` where it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla.core.shapes import Shape
from minixla_ops.indexing.bounded_windows import into_padding
from minixla_ops.indexing.index_numbers import outer_dimensions
from minixla_ops.indexing.scatter_computations import pulled_back
from minixla_ops.indexing.scatter_places import Places, chosen
from minixla_ops.programs.computations import apply_computation
from minixla_ops.vocabulary.batch_dimensions import move_dimension
from minixla_ops.vocabulary.shorthand import array_shape, splat, zeros

Values = Sequence[Any]


class _Sequence:
    """The windows of a scatter in order, in operands that have a frame of padding around them.

    Every start is in bounds; where that was promised, there is no frame.

    Attributes:
        starts: for each window where it starts in the framed operands, a scalar a dimension.
    """

    def __init__(self, places: Places) -> None:
        self.places, self.windows = places, tuple(places.windows)
        outer = outer_dimensions(len(places.update_dimensions), places.numbers)
        self.order = (*outer, *places.numbers.update_window_dims)
        self.sizes = [places.update_dimensions[each] for each in self.order]
        self.outer = self.sizes[: len(outer)]
        self.count = math.prod(self.outer)
        self.config, indices = [(0, 0, 0)] * len(self.windows), places.indices
        if not places.in_bounds:
            numbers, sizes = places.numbers, places.dimensions
            self.config, indices = into_padding(indices, numbers, sizes, self.windows)
        columns = self._start_columns(indices)
        self.starts = [[_row(column, k, ()) for column in columns] for k in range(self.count)]

    def _start_columns(self, indices: Any) -> list[Any]:
        """For each dimension of the operand where the windows start in it, s32 or s64."""
        numbers, rank = self.places.numbers, array_shape(indices).rank
        kind = element_type("s64" if max(self.places.dimensions, default=0) >> 31 else "s32")
        indices, at = ops.convert_element_type(indices, kind), numbers.index_vector_dim
        if at < rank:
            indices = move_dimension(indices, at, rank - 1)
        moving = numbers.scatter_dims_to_operand_dims
        vectors = ops.reshape(indices, (self.count, len(moving)))
        columns: list[Any] = [zeros(Shape(kind, (self.count,)))] * len(self.windows)
        for component, dimension in enumerate(moving):
            columns[dimension] = ops.slice_in_dim(vectors, component, component + 1, 1)
        batching = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        for dimension, along in batching:
            columns[dimension] = ops.iota(Shape(kind, self.outer), along - (along > at))
        return [ops.reshape(column, (self.count,)) for column in columns]

    def framed(self, operand: Any) -> Any:
        """An array like the operand with zeros around it."""
        if self.places.in_bounds:
            return operand
        return ops.pad(operand, splat(0, Shape(array_shape(operand).element_type)), self.config)

    def unframed(self, operand: Any) -> Any:
        """What `framed` was given."""
        if self.places.in_bounds:
            return operand
        sizes = self.places.dimensions
        starts = [low for low, _, _ in self.config]
        limits = [low + size for low, size in zip(starts, sizes, strict=True)]
        return ops.slice(operand, starts, limits)

    def rows(self, update: Any) -> list[Any]:
        """The windows of an array like the updates, each of the operand's rank."""
        rows = ops.reshape(ops.transpose(update, self.order), (self.count, *self.windows))
        return [_row(rows, k, self.windows) for k in range(self.count)]

    def unrowed(self, rows: Values) -> Any:
        """What `rows` was given."""
        joined = ops.concat_in_dim([ops.reshape(row, (1, *self.windows)) for row in rows], 0)
        ordered = ops.reshape(joined, self.sizes)
        return ops.transpose(ordered, [self.order.index(each) for each in sorted(self.order)])


def _row(rows: Any, k: int, sizes: Sequence[int]) -> Any:
    """Row k of an array, of `sizes`."""
    return ops.reshape(ops.slice_in_dim(rows, k, k + 1, 0), sizes)


def pull_in_sequence(
    places: Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[tuple[Any, Any]]:
    """The cotangents of N operands and N updates, for any update computation.

    Args:
        places: where the scatter writes.
        computation: from N old values and N updates to N new values.
        cotangents: those of the N results; None for those that have none.
        operands: N arrays.
        updates: N arrays.
    """
    if 0 in places.update_dimensions or 0 in places.dimensions:
        return [(cotangent, None) for cotangent in cotangents]
    sequence, count = _Sequence(places), len(operands)
    rows = list(zip(*[sequence.rows(update) for update in updates], strict=True))
    found = []
    framed = [sequence.framed(operand) for operand in operands]
    for start, row in zip(sequence.starts, rows, strict=True):
        found.append(_read(framed, start, sequence))
        new = apply_computation(computation, [*found[-1], *row])
        framed = _written(framed, new, start)
    of_framed = [None if each is None else sequence.framed(each) for each in cotangents]
    of_rows: list[Values] = []
    for start, old, row in reversed(list(zip(sequence.starts, found, rows, strict=True))):
        given = _read(of_framed, start, sequence)
        pulled = list(map(instantiate, pulled_back(computation, [*old, *row], given), [*old, *row]))
        of_framed = _written(of_framed, pulled[:count], start)
        of_rows.insert(0, pulled[count:])
    inside = places.inside()
    return [
        (None, None)
        if of_operand is None
        else (sequence.unframed(of_operand), chosen(inside, sequence.unrowed(windows)))
        for of_operand, windows in zip(of_framed, zip(*of_rows, strict=True), strict=True)
    ]


def _read(arrays: Values, start: Values, sequence: _Sequence) -> list[Any]:
    """The windows at `start`; None of None."""
    windows = sequence.windows
    return [None if each is None else ops.dynamic_slice(each, start, windows) for each in arrays]


def _written(arrays: Values, windows: Values, start: Values) -> list[Any]:
    """`arrays` with other windows at `start`; None of None."""
    return [
        None if each is None else ops.dynamic_update_slice(each, window, start)
        for each, window in zip(arrays, windows, strict=True)
    ]
