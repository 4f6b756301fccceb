"""The targets of a scatter, and its pullback for any update computation.

If no element is updated twice, one pullback of the computation suffices. Otherwise windows are
processed one after the other, which is correct for every computation. A forward loop over the
windows applies the updates and stores each window's old values; a backward loop applies the
pullback of the computation. These are K sequential steps for K windows, each proportional to the
size of a window, and they store arrays as large as the updates. Promise `unique_indices` if it
holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

import minixla_ops as ops
from minixla.core import Shape, element_type
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, remembered
from minixla.core.linear import instantiate, spread, zeros_like
from minixla.core.tracing import closed_graph
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers.batch_dimensions import move_dimension
from minixla_ops.helpers.shorthand import Values, array_shape, splat, zeros
from minixla_ops.indexing import index_numbers, window_bounds
from minixla_ops.indexing.scatter_computations import overwrite, split
from minixla_ops.programs.computations import Computation, apply_computation, pulled_program


class Places:
    """The elements that a scatter updates."""

    def __init__(self, operation: Any, values: Values) -> None:
        operands, self.indices, updates = split(values)
        self.dimensions = array_shape(operands[0]).dimensions
        self.update_dimensions = array_shape(updates[0]).dimensions
        self.computation, self.numbers = operation.update_computation, operation.dimension_numbers
        self.is_sorted, self.in_bounds = operation.indices_are_sorted, operation.indices_in_bounds
        # The elements of one window are distinct.
        self.outer = index_numbers.outer_dimensions(len(self.update_dimensions), self.numbers)
        has_one_window = math.prod([self.update_dimensions[d] for d in self.outer]) == 1
        self.is_unique = operation.unique_indices or has_one_window
        sizes = self.dimensions, self.update_dimensions
        self.windows = index_numbers.window_sizes(*sizes, self.numbers)

    def write(
        self, computation: Computation, operands: ArrayLike | Values, updates: ArrayLike | Values
    ) -> Any:
        """Scatter to these elements."""
        promises = self.is_sorted, self.is_unique, self.in_bounds
        return ops.scatter(operands, self.indices, updates, computation, self.numbers, *promises)

    def read(self, value: ArrayLike) -> Any:
        """Gather the elements of `value`, an array like the operand; 0 for updates outside."""
        if 0 in self.dimensions:
            return zeros(Shape(array_shape(value).element_type, self.update_dimensions))
        numbers = index_numbers.GatherDimensionNumbers(*self.numbers)
        if self.in_bounds:
            return ops.gather(value, self.indices, numbers, self.windows, self.is_sorted)
        window = numbers, self.windows, 0, self.is_sorted
        return window_bounds.gather_or_fill(value, self.indices, *window)

    def inside(self) -> Array | None:
        """Return a mask of the updates inside the operand, None if all are."""
        return None if self.in_bounds else self.read(splat(True, Shape("pred", self.dimensions)))

    def last(self) -> Array:
        """Return a mask of the updates inside that are the last ones of their target."""
        outer = [self.update_dimensions[d] for d in self.outer]
        kind = element_type("s64" if math.prod(outer) >> 31 else "s32")
        counted = ops.reshape(ops.iota(Shape(kind, (math.prod(outer),)), 0), outer)
        ranks = ops.broadcast_in_dim(counted, self.update_dimensions, self.outer) + 1
        latest = self.write(ops.max, zeros(Shape(kind, self.dimensions)), ranks)
        return ops.eq(self.read(latest), ranks)


def chosen(mask: Array | None, value: Array) -> Array:
    """Return `value` where the mask is true or None, and 0 elsewhere."""
    return value if mask is None else ops.select(mask, value, zeros_like(value))


def general_pull(
    places: Places,
    computation: Graph,
    cotangents: Sequence[Array | None],
    operands: Values,
    updates: Values,
) -> list[tuple[Array | None, Array | None]]:
    """Return cotangents of N operands and N updates, in pairs, for any update computation."""
    pairs = zip(cotangents, operands, strict=True)
    instantiated = [
        instantiate(c, operand) if has_tangent(operand) else None for c, operand in pairs
    ]
    if not places.is_unique:
        return _pull_in_sequence(places, computation, instantiated, operands, updates)
    old = [places.read(operand) for operand in operands]
    at_updates = [
        None if cotangent is None else places.read(cotangent) for cotangent in instantiated
    ]
    pulled = _pulled_back(computation, [*old, *updates], at_updates)
    inside, count, gradients = places.inside(), len(operands), []
    for cotangent, update, of_old in zip(instantiated, updates, pulled[:count], strict=True):
        moved = instantiate(of_old, update)
        gradients.append(None if cotangent is None else places.write(overwrite, cotangent, moved))
    of_updates = [
        None if cotangent is None else chosen(inside, cotangent) for cotangent in pulled[count:]
    ]
    return list(zip(gradients, of_updates, strict=True))


def _pulled_back(
    computation: Graph, arguments: Values, cotangents: Sequence[Array | None]
) -> list[Array | None]:
    """Pull back a computation of 2 N scalars, applied element by element to 2 N arrays."""
    program = _elementwise(computation, tuple(map(array_shape, arguments)))
    return list(pulled_program(program, arguments, cotangents, list(map(has_tangent, arguments))))


@remembered
def _elementwise(computation: Graph, shapes: tuple[Shape, ...]) -> Graph:
    traced = shapes, "scatter", computation.name
    return closed_graph(lambda *values: apply_computation(computation, values), *traced)


def _pull_in_sequence(
    places: Places,
    computation: Graph,
    cotangents: Sequence[Array | None],
    operands: Values,
    updates: Values,
) -> list[tuple[Array | None, Array | None]]:
    """Run `general_pull` one window at a time, for elements that may be updated twice."""
    if 0 in places.update_dimensions or 0 in places.dimensions:
        return [(cotangent, None) for cotangent in cotangents]
    windows, outer = places.windows, places.outer
    order = (*outer, *places.numbers.update_window_dims)
    sizes = [places.update_dimensions[dimension] for dimension in order]
    layout = places.indices, places.numbers, places.dimensions, windows
    inside = None, places.indices
    config, indices = inside if places.in_bounds else window_bounds.into_padding(*layout)
    columns = _start_columns(places, indices, sizes[: len(outer)])
    rank, count = len(columns), len(operands)
    is_pulled = tuple([cotangent is not None for cotangent in cotangents])

    def read(arrays: Values, starts: Values) -> list[Array]:
        return [ops.dynamic_slice(array, starts, windows) for array in arrays]

    def written(arrays: Values, values: Iterable[Array], starts: Values) -> list[Array]:
        pairs = zip(arrays, values, strict=True)
        return [ops.dynamic_update_slice(array, value, starts) for array, value in pairs]

    def forwards(*values: Array) -> list[Array]:
        starts, row, running = values[:rank], values[rank:-count], values[-count:]
        old = read(running, starts)
        return [*old, *written(running, apply_computation(computation, [*old, *row]), starts)]

    def backwards(*values: Array) -> list[Array]:
        starts, carried = values[:rank], values[rank : rank + 2 * count]
        running = values[rank + 2 * count :]
        at_place = spread(is_pulled, read(running, starts))
        pulled = list(map(instantiate, _pulled_back(computation, carried, at_place), carried))
        return [*pulled[count:], *written(running, compress(pulled[:count], is_pulled), starts)]

    def loop(step: Callable[..., Sequence[Array]], inputs: Values, arrays: Iterable[Any]) -> Values:
        carries = [window_bounds.framed(array, config) for array in arrays]
        rows = [array_shape(value).without_dimension(0) for value in inputs]
        shapes, name = (*rows, *map(array_shape, carries)), step.__name__
        key, traced = (name, is_pulled, shapes), (step, shapes, "scatter", name)
        graph = computation.remembered(key, closed_graph, *traced)
        return ops.scan(inputs, carries, graph, is_reverse=step is backwards)

    rows = [ops.transpose(update, order) for update in updates]
    rows = [ops.reshape(row, (math.prod(sizes[: len(outer)]), *windows)) for row in rows]
    old = loop(forwards, [*columns, *rows], operands)[:count]
    outputs = loop(backwards, [*columns, *old, *rows], compress(cotangents, is_pulled))
    back, inside = [order.index(number) for number in sorted(order)], places.inside()
    layout = [window_bounds.unframed(array, config) for array in outputs[count:]]
    rows = [ops.transpose(ops.reshape(row, sizes), back) for row in outputs[:count]]
    moved = [chosen(inside, row) for row in compress(rows, is_pulled)]
    return list(zip(spread(is_pulled, layout), spread(is_pulled, moved), strict=True))


def _start_columns(places: Places, indices: Array, outer: Sequence[int]) -> list[Array]:
    """Return the starts of the windows in each operand dimension, as s32 or s64."""
    numbers, rank, count = places.numbers, array_shape(indices).rank, math.prod(outer)
    kind = element_type("s64" if max(places.dimensions, default=0) >> 31 else "s32")
    indices, at = ops.convert_element_type(indices, kind), numbers.index_vector_dim
    if at < rank:
        indices = move_dimension(indices, at, rank - 1)
    moving = numbers.scatter_dims_to_operand_dims
    vectors = ops.reshape(indices, (count, len(moving)))
    columns: list[ArrayLike] = [zeros(Shape(kind, (count,)))] * len(places.windows)
    for component, dimension in enumerate(moving):
        columns[dimension] = ops.slice_in_dim(vectors, component, component + 1, 1)
    for dimension, along in zip(numbers[4], numbers[5], strict=True):
        columns[dimension] = ops.iota(Shape(kind, outer), along - (along > at))
    return [ops.reshape(column, (count,)) for column in columns]
