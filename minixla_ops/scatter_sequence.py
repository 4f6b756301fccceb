"""The pullback of a scatter with repeated targets and any computation: one window at a time.

Going forwards over the windows applies the updates and keeps what each one found; going back takes
the computation's pullback there. That is right for every computation. It costs K sequential steps
for K windows, each as long as a window is large, and arrays as large as the updates in between.
The steps are written out one after another, so the program grows with K, too: promise
`unique_indices` where it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minixla.core.element_types import element_type
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla.core.shapes import Shape
from minixla_ops.computations import apply_computation
from minixla_ops.index_numbers import outer_dimensions
from minixla_ops.rules import array_shape, splat, zeros, zeros_like

if TYPE_CHECKING:
    from minixla_ops.scatter_derivatives import Places

__all__ = ["pull_in_sequence"]

Values = Sequence[Any]


class _Sequence:
    """The windows of a scatter in order, in operands that have a frame of padding around them.

    Window k of each array of updates is row k, of the operand's rank. Every start is in bounds;
    where that was promised, there is no frame.

    Attributes:
        starts: s32 or s64 [K, operand rank], where windows start in the framed operands.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.windows = tuple(places.windows)
        self.outer = outer_dimensions(len(places.update_dimensions), places.numbers)
        self.count = math.prod([places.update_dimensions[d] for d in self.outer])
        self.config, indices = self._framed_indices()
        self.starts = self._start_rows(indices)

    def _framed_indices(self) -> tuple[list[tuple[int, int, int]], Any]:
        from minixla_ops.gather_scatter import into_padding

        places = self.places
        if places.in_bounds:
            return [(0, 0, 0)] * len(self.windows), places.indices
        return into_padding(places.indices, places.numbers, places.dimensions, self.windows)

    def _start_rows(self, indices: Any) -> Any:
        from minixla_ops.batching import move_dimension
        from minixla_ops.conversion import convert_element_type
        from minixla_ops.creation import iota
        from minixla_ops.movement import concat_in_dim, slice_in_dim
        from minixla_ops.reshaping import reshape

        numbers, rank = self.places.numbers, array_shape(indices).rank
        kind = element_type("s64" if max(self.places.dimensions, default=0) >> 31 else "s32")
        indices, at = convert_element_type(indices, kind), numbers.index_vector_dim
        if at < rank:
            indices = move_dimension(indices, at, rank - 1)
        rows = reshape(indices, (self.count, len(numbers.scatter_dims_to_operand_dims)))
        column = Shape(kind, (self.count, 1))
        outer = Shape(kind, [self.places.update_dimensions[each] for each in self.outer])
        columns: list[Any] = [zeros(column)] * len(self.windows)
        for component, dimension in enumerate(numbers.scatter_dims_to_operand_dims):
            columns[dimension] = slice_in_dim(rows, component, component + 1, 1)
        batching = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        for dimension, along in batching:
            counted = iota(outer, along - (along > at))
            columns[dimension] = reshape(counted, column.dimensions)
        if not columns:
            return zeros(Shape(kind, (self.count, 0)))
        return concat_in_dim(columns, 1)

    def framed(self, operand: Any) -> Any:
        """An array like the operand with zeros around it."""
        from minixla_ops.movement import pad

        if self.places.in_bounds:
            return operand
        return pad(operand, splat(0, Shape(array_shape(operand).element_type)), self.config)

    def unframed(self, operand: Any) -> Any:
        """What `framed` was given."""
        from minixla_ops.movement import slice

        if self.places.in_bounds:
            return operand
        sizes = self.places.dimensions
        starts = [low for low, _, _ in self.config]
        limits = [low + size for low, size in zip(starts, sizes, strict=True)]
        return slice(operand, starts, limits)

    def rows(self, update: Any) -> Any:
        """An array like the updates with one window a row."""
        from minixla_ops.reshaping import reshape, transpose

        order = (*self.outer, *self.places.numbers.update_window_dims)
        return reshape(transpose(update, order), (self.count, *self.windows))

    def unrowed(self, rows: Any) -> Any:
        """What `rows` was given."""
        from minixla_ops.reshaping import reshape, transpose

        order = (*self.outer, *self.places.numbers.update_window_dims)
        sizes = self.places.update_dimensions
        ordered = reshape(rows, [sizes[each] for each in order])
        return transpose(ordered, [order.index(each) for each in range(len(order))])

    def start(self, starts: Any, step: Any) -> list[Any]:
        """The start of window `step`, a scalar for each dimension of the operand."""
        from minixla_ops.movement import slice_in_dim
        from minixla_ops.reshaping import reshape

        row = self.row(starts, step)
        return [reshape(slice_in_dim(row, d, d + 1, 0), ()) for d in range(len(self.windows))]

    def row(self, rows: Any, step: Any) -> Any:
        """Row `step` of an array."""
        from minixla_ops.dynamic_slicing import dynamic_slice
        from minixla_ops.reshaping import reshape

        sizes = array_shape(rows).dimensions[1:]
        return reshape(dynamic_slice(rows, [step, *[0] * len(sizes)], (1, *sizes)), sizes)

    def with_row(self, rows: Any, step: Any, row: Any) -> Any:
        """`rows` with another row `step`."""
        from minixla_ops.dynamic_slicing import dynamic_update_slice
        from minixla_ops.reshaping import reshape

        sizes = array_shape(row).dimensions
        return dynamic_update_slice(rows, reshape(row, (1, *sizes)), [step, *[0] * len(sizes)])


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
    sequence = _Sequence(places)
    rows = [sequence.rows(update) for update in updates]
    found = _found_in_sequence(sequence, computation, operands, rows)
    of_operands, of_rows = _pulled_in_sequence(sequence, computation, cotangents, found, rows)
    inside = places.inside()
    return [
        (None, None)
        if of_operand is None
        else (sequence.unframed(of_operand), _inside(inside, sequence.unrowed(of_row)))
        for of_operand, of_row in zip(of_operands, of_rows, strict=True)
    ]


def _inside(mask: Any, update: Any) -> Any:
    from minixla_ops.selection import select

    return update if mask is None else select(mask, update, zeros_like(update))


def _found_in_sequence(
    sequence: _Sequence, computation: Graph, operands: Values, rows: Values
) -> list[Any]:
    """What each update finds at its targets, N arrays of rows."""
    from minixla_ops.dynamic_slicing import dynamic_slice, dynamic_update_slice

    count = len(operands)

    def step(k: Any, starts: Any, *values: Any) -> list[Any]:
        rows, found, operands = values[:count], values[count : 2 * count], values[2 * count :]
        start = sequence.start(starts, k)
        old = [dynamic_slice(operand, start, sequence.windows) for operand in operands]
        new = apply_computation(computation, [*old, *(sequence.row(each, k) for each in rows)])
        found = [sequence.with_row(each, k, row) for each, row in zip(found, old, strict=True)]
        pairs = zip(operands, new, strict=True)
        written = [dynamic_update_slice(operand, row, start) for operand, row in pairs]
        return [starts, *rows, *found, *written]

    found = [zeros_like(row) for row in rows]
    framed = [sequence.framed(operand) for operand in operands]
    carried = [sequence.starts, *rows, *found, *framed]
    return _repeated(sequence.count, step, carried)[1 + count : 1 + 2 * count]


def _pulled_in_sequence(
    sequence: _Sequence, computation: Graph, cotangents: Values, found: Values, rows: Values
) -> tuple[list[Any], list[Any]]:
    """The cotangents of the framed operands and of the rows of updates; None for zero."""
    from minixla_ops.dynamic_slicing import dynamic_slice, dynamic_update_slice
    from minixla_ops.scatter_derivatives import pulled_back

    count = len(rows)
    moving = [index for index, cotangent in enumerate(cotangents) if cotangent is not None]

    def step(k: Any, starts: Any, *values: Any) -> list[Any]:
        found, rows = values[:count], values[count : 2 * count]
        framed = list(values[2 * count : 2 * count + len(moving)])
        of_rows = list(values[2 * count + len(moving) :])
        back = sequence.count - 1 - k
        start = sequence.start(starts, back)
        arguments = [sequence.row(each, back) for each in (*found, *rows)]
        given: list[Any] = [None] * count
        for place, index in enumerate(moving):
            given[index] = dynamic_slice(framed[place], start, sequence.windows)
        pulled = pulled_back(computation, arguments, given)
        for place, index in enumerate(moving):
            of_old = instantiate(pulled[index], arguments[index])
            of_row = instantiate(pulled[count + index], arguments[index])
            framed[place] = dynamic_update_slice(framed[place], of_old, start)
            of_rows[place] = sequence.with_row(of_rows[place], back, of_row)
        return [starts, *found, *rows, *framed, *of_rows]

    framed = [sequence.framed(cotangents[index]) for index in moving]
    of_rows = [zeros_like(rows[index]) for index in moving]
    carried = [sequence.starts, *found, *rows, *framed, *of_rows]
    results = _repeated(sequence.count, step, carried)[1 + 2 * count :]
    spread: tuple[list[Any], list[Any]] = ([None] * count, [None] * count)
    for place, index in enumerate(moving):
        spread[0][index] = results[place]
        spread[1][index] = results[len(moving) + place]
    return spread


def _repeated(count: int, step: Callable[..., list[Any]], carried: Values) -> list[Any]:
    """`carried` after `count` steps; a step gets its number first."""
    for k in range(count):
        carried = step(splat(k, Shape("s32")), *carried)
    return list(carried)
