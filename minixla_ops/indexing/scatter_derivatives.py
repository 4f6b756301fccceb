"""Derivatives of Scatter, by what the update computation does.

Sums, differences and overwriting are linear. Maxima and minima share their derivative equally
among all that attain the result. Everything else goes forwards as one scatter of pairs of value
and tangent; backwards it takes one pullback of the computation where no element is updated twice,
and otherwise one window after another, which is right for every computation: going forwards over
the windows applies the updates and keeps what each one found; going back takes the computation's
pullback there. That costs K sequential steps for K windows, each as long as a window is large, and
arrays as large as the updates in between. The steps are written out one after another, so the
program grows with K, too: promise `unique_indices` where it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import not_linear
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph
from minixla_ops.folds.fold_programs import tangents_of_fold
from minixla_ops.indexing.bounded_windows import (
    framed,
    gather_or_fill,
    into_padding,
    may_lie_partly_outside,
    starts_in_bounds,
    unframed,
)
from minixla_ops.indexing.index_numbers import (
    GatherDimensionNumbers,
    outer_dimensions,
    window_sizes,
)
from minixla_ops.indexing.scatter_computations import combination_of, overwrite, separate, split
from minixla_ops.programs.computations import apply_computation, pulled_program
from minixla_ops.vocabulary.batch_dimensions import move_dimension
from minixla_ops.vocabulary.shorthand import (
    array_shape,
    as_tuple,
    instantiate,
    ones_like,
    splat,
    zeros,
    zeros_like,
)

if TYPE_CHECKING:
    from minixla_ops.indexing.scatter import Scatter

Values = Sequence[Any]


class _Places:
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


def _chosen(mask: Any, value: Any) -> Any:
    """`value` where the mask holds or is None, and 0 elsewhere."""
    return value if mask is None else ops.select(mask, value, zeros_like(value))


class _Part(NamedTuple):
    """The scatter of one of N arrays, where their computations are independent."""

    places: _Places
    computation: Graph
    operand: Any
    update: Any
    result: Any = None

    @property
    def combination(self) -> str | None:
        """What the computation does."""
        return combination_of(self.computation)

    def is_linear_in(self, of_update: bool) -> bool:
        """Whether it is linear in the operand, and in the update if that is asked."""
        own = self.combination
        return own in ("add", "sub", "set", "keep") or (own == "mul" and not of_update)

    def jvp(self, of_operand: Any, of_update: Any) -> Any:
        """The tangent of the result, None for zero."""
        combination, write = self.combination, self.places.write
        if combination == "keep" or (of_update is None and combination in ("add", "sub")):
            return of_operand
        if of_operand is None and of_update is None:
            return None
        if combination in ("add", "sub", "set"):
            moved = instantiate(of_operand, self.operand), instantiate(of_update, self.update)
            return write(*moved, self.computation)
        if combination == "mul" and of_update is None:
            return write(of_operand, self.update, self.computation)
        if combination in ("max", "min"):
            loses, update_loses, count = self._losers()
            moved = _unless(loses, of_operand, self.operand)
            return write(moved, _unless(update_loses, of_update, self.update), ops.add) / count
        primals, tangents = ([self.operand], [self.update]), ([of_operand], [of_update])
        return tangents_of_fold(self.computation, primals, tangents, self.places.write_all)[0]

    def pull(self, cotangent: Any, of_operand: bool, of_update: bool) -> tuple[Any, Any]:
        """The cotangents of operand and update that are wanted, None for zero."""
        if cotangent is None or not (of_operand or of_update):
            return None, None
        if self.is_linear_in(of_update):
            return self.linear_pull(cotangent, of_operand, of_update)
        if self.combination in ("max", "min"):
            loses, update_loses, count = self._losers()
            share = cotangent / count
            return (
                _unless(loses, share, self.operand) if of_operand else None,
                _unless(update_loses, self.places.read(share), self.update) if of_update else None,
            )
        given = [cotangent], [self.operand], [self.update]
        return _general_pull(self.places, self.computation, *given)[0]

    def linear_pull(self, cotangent: Any, of_operand: bool, of_update: bool) -> tuple[Any, Any]:
        """`pull` where the scatter is linear in what is wanted."""
        if cotangent is None or not (of_operand or of_update):
            return None, None
        places, combination = self.places, self.combination
        first = second = None
        if of_operand:
            first = cotangent
            if combination == "set":
                first = places.write(cotangent, zeros_like(self.update), self.computation)
            elif combination == "mul":
                first = places.write(cotangent, self.update, self.computation)
        if of_update and combination != "keep":
            second = places.read(cotangent)
            if combination == "set" and not places.is_unique:
                second = _chosen(places.last(), second)
            elif combination == "sub":
                second = -second
        return first, second

    def _losers(self) -> tuple[Any, Any, Any]:
        """Which old values and updates are not the extreme, and how many are, at each element."""
        operand, update, result = self.operand, self.update, self.result
        is_less = ops.lt if self.combination == "max" else ops.gt
        loses, update_loses = is_less(operand, result), is_less(update, self.places.read(result))
        ones = ones_like(operand), ones_like(update)
        held = _unless(loses, ones[0], operand), _unless(update_loses, ones[1], update)
        return loses, update_loses, self.places.write(*held, ops.add)


def _unless(mask: Any, value: Any, like: Any) -> Any:
    """`value` where the mask does not hold; zeros where it does, and where `value` is None."""
    return zeros_like(like) if value is None else ops.select(mask, zeros_like(like), value)


def scatter_jvp(operation: Scatter, primals: Values, tangents: Values, results: Values) -> Values:
    """The tangents of the N results (None for zero); arguments are those of a jvp rule."""
    places = _Places(operation, primals)
    parts, (operands, _, updates) = separate(places.computation), split(primals)
    of_operands, _, of_updates = split(tangents)
    if parts is None:
        primals, tangents = (operands, updates), (of_operands, of_updates)
        return tangents_of_fold(places.computation, primals, tangents, places.write_all)
    columns = zip(parts, operands, updates, results, strict=True)
    moved = zip(columns, of_operands, of_updates, strict=True)
    return [_Part(places, *column).jvp(*tangents) for column, *tangents in moved]


def scatter_transpose(
    operation: Scatter, cotangents: Values, operands: Values, linear: Sequence[bool]
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a transpose rule.

    Raises:
        DerivativeError: the scatter is not linear in the marked operands.
    """
    places = _Places(operation, operands)
    parts = separate(places.computation)
    (arrays, _, updates), (of_operands, _, of_updates) = split(operands), split(linear)
    if parts is None:
        raise not_linear(operation, f"update_computation {places.computation.name}")
    found = []
    for cotangent, *column, of_operand, of_update in zip(
        cotangents, parts, arrays, updates, of_operands, of_updates, strict=True
    ):
        part = _Part(places, *column)
        if (of_operand or of_update) and not part.is_linear_in(of_update):
            raise not_linear(operation, f"update_computation {places.computation.name}")
        found.append(part.linear_pull(cotangent, of_operand, of_update))
    return _rejoined(found)


def _rejoined(pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [*(operand for operand, _ in pairs), None, *(update for _, update in pairs)]


def scatter_vjp(
    operation: Scatter, cotangents: Values, operands: Values, results: Values, active: Values
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a vjp rule."""
    places = _Places(operation, operands)
    parts, (arrays, _, updates) = separate(places.computation), split(operands)
    if parts is None:
        return _rejoined(_general_pull(places, places.computation, cotangents, arrays, updates))
    wanted, _, updates_wanted = split(active)
    columns = zip(parts, arrays, updates, results, strict=True)
    rows = zip(columns, cotangents, wanted, updates_wanted, strict=True)
    return _rejoined([_Part(places, *column).pull(*given) for column, *given in rows])


def _general_pull(
    places: _Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[tuple[Any, Any]]:
    """The cotangents of N operands and N updates, for any update computation."""
    given = [
        instantiate(cotangent, operand) if has_tangent(operand) else None
        for cotangent, operand in zip(cotangents, operands, strict=True)
    ]
    if not places.is_unique:
        return _pull_in_sequence(places, computation, given, operands, updates)
    old = [places.read(operand) for operand in operands]
    at_updates = [None if each is None else places.read(each) for each in given]
    pulled = _pulled_back(computation, [*old, *updates], at_updates)
    inside = places.inside()
    count = len(operands)
    columns = zip(given, updates, pulled[:count], pulled[count:], strict=True)
    return [
        (None, None)
        if cotangent is None
        else (
            places.write(cotangent, instantiate(of_old, update), overwrite),
            None if of_update is None else _chosen(inside, of_update),
        )
        for cotangent, update, of_old, of_update in columns
    ]


def _pulled_back(computation: Graph, arguments: Values, cotangents: Values) -> list[Any]:
    """The pullback of a computation of 2 N scalars, applied to 2 N arrays element by element.

    None stands for zero among the N cotangents, and among the 2 N that are returned.
    """
    shapes = tuple(map(array_shape, arguments))

    def elementwise(*values: Any) -> list[Any]:
        return apply_computation(computation, values)

    given = elementwise, shapes, "scatter", computation.name
    program = computation.remembered(("elementwise", shapes), closed_graph, *given)
    return list(pulled_program(program, arguments, cotangents, list(map(has_tangent, arguments))))


def _pull_in_sequence(
    places: _Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[tuple[Any, Any]]:
    """`_general_pull` where an element may be updated twice: one window at a time."""
    if 0 in places.update_dimensions or 0 in places.dimensions:
        return [(cotangent, None) for cotangent in cotangents]
    windows, outer, window_dims = places.windows, places.outer, places.numbers.update_window_dims
    order = (*outer, *window_dims)
    sizes = [places.update_dimensions[each] for each in order]
    config, indices = None, places.indices
    if not places.in_bounds:
        config, indices = into_padding(indices, places.numbers, places.dimensions, windows)
    columns = _start_columns(places, indices, sizes[: len(outer)])
    count = math.prod(sizes[: len(outer)])
    starts = [[_row(column, k, ()) for column in columns] for k in range(count)]

    def rows_of(update: Any) -> list[Any]:
        rows = ops.reshape(ops.transpose(update, order), (count, *windows))
        return [_row(rows, k, windows) for k in range(count)]

    def joined(rows: Values) -> Any:
        whole = ops.concat_in_dim([ops.reshape(row, (1, *windows)) for row in rows], 0)
        back = [order.index(each) for each in sorted(order)]
        return ops.transpose(ops.reshape(whole, sizes), back)

    def read(arrays: Values, start: Values) -> list[Any]:
        return [
            None if each is None else ops.dynamic_slice(each, start, windows) for each in arrays
        ]

    rows = list(zip(*map(rows_of, updates), strict=True))
    found = []
    running: Values = [framed(operand, config) for operand in operands]
    for start, row in zip(starts, rows, strict=True):
        found.append(read(running, start))
        new = apply_computation(computation, [*found[-1], *row])
        running = _written(running, new, start)
    of_running: Values = [None if each is None else framed(each, config) for each in cotangents]
    of_rows: list[Values] = []
    for start, old, row in reversed(list(zip(starts, found, rows, strict=True))):
        pulled = _pulled_back(computation, [*old, *row], read(of_running, start))
        pulled = list(map(instantiate, pulled, [*old, *row]))
        of_running = _written(of_running, pulled[: len(operands)], start)
        of_rows.insert(0, pulled[len(operands) :])
    inside = places.inside()
    return [
        (None, None)
        if of_operand is None
        else (unframed(of_operand, config), _chosen(inside, joined(of_windows)))
        for of_operand, of_windows in zip(of_running, zip(*of_rows, strict=True), strict=True)
    ]


def _start_columns(places: _Places, indices: Any, outer: Sequence[int]) -> list[Any]:
    """For each dimension of the operand where the windows start in it, s32 or s64."""
    numbers, rank, count = places.numbers, array_shape(indices).rank, math.prod(outer)
    kind = element_type("s64" if max(places.dimensions, default=0) >> 31 else "s32")
    indices, at = ops.convert_element_type(indices, kind), numbers.index_vector_dim
    if at < rank:
        indices = move_dimension(indices, at, rank - 1)
    moving = numbers.scatter_dims_to_operand_dims
    vectors = ops.reshape(indices, (count, len(moving)))
    columns: list[Any] = [zeros(Shape(kind, (count,)))] * len(places.windows)
    for component, dimension in enumerate(moving):
        columns[dimension] = ops.slice_in_dim(vectors, component, component + 1, 1)
    for dimension, along in zip(numbers[4], numbers[5], strict=True):
        columns[dimension] = ops.iota(Shape(kind, outer), along - (along > at))
    return [ops.reshape(column, (count,)) for column in columns]


def _row(rows: Any, k: int, sizes: Sequence[int]) -> Any:
    """Row k of an array, of `sizes`."""
    return ops.reshape(ops.slice_in_dim(rows, k, k + 1, 0), sizes)


def _written(arrays: Values, windows: Values, start: Values) -> list[Any]:
    """`arrays` with other windows at `start`; None of None."""
    return [
        None if each is None else ops.dynamic_update_slice(each, window, start)
        for each, window in zip(arrays, windows, strict=True)
    ]
