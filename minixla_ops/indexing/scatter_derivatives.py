"""Derivatives of Scatter, by what the update computation does.

Sums, differences and overwriting are linear. Maxima and minima share their derivative equally
among all that attain the result. Everything else goes forwards as one scatter of pairs of value
and tangent; backwards it takes one pullback of the computation where no element is updated twice,
and otherwise one window after another, which is right for every computation: a loop forwards over
the windows applies the updates and keeps what each one found; one backwards takes the computation's
pullback there. Those are K sequential steps for K windows, each as long as a window is large, and
arrays as large as the updates in between: promise `unique_indices` where it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import minixla_ops as ops
from minixla.core.element_types import element_type
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, remembered
from minixla.core.linear import instantiate, spread, zeros_like
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph
from minixla_ops.folds.fold_programs import tangents_of_fold
from minixla_ops.indexing import index_numbers, indexed_windows
from minixla_ops.indexing.scatter_computations import combination_of, overwrite, separate, split
from minixla_ops.programs.computations import apply_computation, pulled_program
from minixla_ops.vocabulary.batch_dimensions import move_dimension
from minixla_ops.vocabulary.shorthand import array_shape, ones_like, splat, zeros

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
        self.outer = index_numbers.outer_dimensions(len(self.update_dimensions), self.numbers)
        has_one_window = math.prod([self.update_dimensions[d] for d in self.outer]) == 1
        self.is_unique = operation.unique_indices or has_one_window
        sizes = self.dimensions, self.update_dimensions
        self.windows = index_numbers.window_sizes(*sizes, self.numbers)

    def write(self, computation: Graph | Callable[..., Any], operands: Any, updates: Any) -> Any:
        """A scatter to these places."""
        promises = self.is_sorted, self.is_unique, self.in_bounds
        return ops.scatter(operands, self.indices, updates, computation, self.numbers, *promises)

    def read(self, value: Any) -> Any:
        """What `value`, an array like the operand, has where updates go; 0 if that is outside."""
        if 0 in self.dimensions:
            return zeros(Shape(array_shape(value).element_type, self.update_dimensions))
        numbers = index_numbers.GatherDimensionNumbers(*self.numbers)
        if self.in_bounds:
            return ops.gather(value, self.indices, numbers, self.windows, self.is_sorted)
        given = numbers, self.windows, 0, self.is_sorted
        return indexed_windows.gather_or_fill(value, self.indices, *given)

    def inside(self) -> Any:
        """Which updates go somewhere: a mask like the updates; None where all do."""
        return None if self.in_bounds else self.read(splat(True, Shape("pred", self.dimensions)))

    def last(self) -> Any:
        """Which updates are inside and have no later update in the same place: a mask like them."""
        outer = [self.update_dimensions[d] for d in self.outer]
        kind = element_type("s64" if math.prod(outer) >> 31 else "s32")
        counted = ops.reshape(ops.iota(Shape(kind, (math.prod(outer),)), 0), outer)
        ranks = ops.broadcast_in_dim(counted, self.update_dimensions, self.outer) + 1
        latest = self.write(ops.max, zeros(Shape(kind, self.dimensions)), ranks)
        return ops.eq(self.read(latest), ranks)


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
        is_unmoved = of_operand is None or combination in ("add", "sub")
        if combination == "keep" or (of_update is None and is_unmoved):
            return of_operand
        if self.is_linear_in(of_update is not None):
            moved = self.update if combination == "mul" else instantiate(of_update, self.update)
            return write(self.computation, instantiate(of_operand, self.operand), moved)
        if combination in ("max", "min"):
            loses, update_loses, count = self._losers()
            moved = _unless(loses, of_operand, self.operand)
            return write(ops.add, moved, _unless(update_loses, of_update, self.update)) / count
        primals, tangents = ([self.operand], [self.update]), ([of_operand], [of_update])
        return tangents_of_fold(self.computation, primals, tangents, write)[0]

    def pull(self, cotangent: Any, of_operand: bool, of_update: bool) -> tuple[Any, Any]:
        """The cotangents of operand and update that are wanted, None for zero."""
        if cotangent is None or not (of_operand or of_update):
            return None, None
        places, combination = self.places, self.combination
        if combination in ("max", "min"):
            loses, update_loses, count = self._losers()
            share = cotangent / count
            return (
                _unless(loses, share, self.operand) if of_operand else None,
                _unless(update_loses, places.read(share), self.update) if of_update else None,
            )
        if not self.is_linear_in(of_update):
            given = [cotangent], [self.operand], [self.update]
            return _general_pull(places, self.computation, *given)[0]
        first = second = None
        if of_operand:
            first = cotangent
            if combination in ("set", "mul"):
                kept = self.update if combination == "mul" else zeros_like(self.update)
                first = places.write(self.computation, cotangent, kept)
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
        return loses, update_loses, self.places.write(ops.add, *held)


def _unless(mask: Any, value: Any, like: Any) -> Any:
    """`value` where the mask does not hold; zeros where it does, and where `value` is None."""
    return zeros_like(like) if value is None else ops.select(mask, zeros_like(like), value)


def _parts_of(places: _Places, operands: Values, results: Values | None) -> list[_Part] | None:
    """The scatters of each of the N arrays, where they are independent."""
    computations, (arrays, _, updates) = separate(places.computation), split(operands)
    if computations is None:
        return None
    columns = computations, arrays, updates, results or [None] * len(arrays)
    return [_Part(places, *column) for column in zip(*columns, strict=True)]


def scatter_jvp(operation: Scatter, primals: Values, tangents: Values, results: Values) -> Values:
    """The tangents of the N results (None for zero); arguments are those of a jvp rule."""
    places = _Places(operation, primals)
    parts = _parts_of(places, primals, results)
    (operands, _, updates), (of_operands, _, of_updates) = split(primals), split(tangents)
    if parts is None:
        given = (operands, updates), (of_operands, of_updates)
        return tangents_of_fold(places.computation, *given, places.write)
    rows = zip(parts, of_operands, of_updates, strict=True)
    return [part.jvp(*moved) for part, *moved in rows]


def scatter_pull(
    operation: Scatter, cotangents: Values, operands: Values, results: Values | None, wanted: Values
) -> list[Any]:
    """The wanted ones of the cotangents of all 2 N + 1 operands; transposed without `results`."""
    places = _Places(operation, operands)
    computation, parts = places.computation, _parts_of(places, operands, results)
    (arrays, _, updates), (of_arrays, _, of_updates) = split(operands), split(wanted)
    pairs = list(zip(of_arrays, of_updates, strict=True))
    if results is None:
        is_linear = parts is not None and all(
            part.is_linear_in(pair[1]) for part, pair in zip(parts, pairs, strict=True) if any(pair)
        )
        if not is_linear:
            raise operation.not_linear(f"update_computation {computation.name}")
    if parts is None:
        found = _general_pull(places, computation, cotangents, arrays, updates)
    else:
        rows = zip(parts, cotangents, pairs, strict=True)
        found = [part.pull(cotangent, *pair) for part, cotangent, pair in rows]
    return [*(operand for operand, _ in found), None, *(update for _, update in found)]


def _general_pull(
    places: _Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[Any]:
    """The cotangents of N operands and N updates, in pairs, for any update computation."""
    pairs = zip(cotangents, operands, strict=True)
    given = [instantiate(c, operand) if has_tangent(operand) else None for c, operand in pairs]
    if not places.is_unique:
        return _pull_in_sequence(places, computation, given, operands, updates)
    old = [places.read(operand) for operand in operands]
    at_updates = [None if each is None else places.read(each) for each in given]
    pulled = _pulled_back(computation, [*old, *updates], at_updates)
    inside, count, found = places.inside(), len(operands), []
    for each, update, of_old in zip(given, updates, pulled[:count], strict=True):
        moved = instantiate(of_old, update)
        found.append(None if each is None else places.write(overwrite, each, moved))
    of_updates = [None if each is None else _chosen(inside, each) for each in pulled[count:]]
    return list(zip(found, of_updates, strict=True))


def _pulled_back(computation: Graph, arguments: Values, cotangents: Values) -> list[Any]:
    """The pullback of a computation of 2 N scalars, applied to 2 N arrays element by element."""
    program = _elementwise(computation, tuple(map(array_shape, arguments)))
    return list(pulled_program(program, arguments, cotangents, list(map(has_tangent, arguments))))


@remembered
def _elementwise(computation: Graph, shapes: Values) -> Graph:
    given = shapes, "scatter", computation.name
    return closed_graph(lambda *values: apply_computation(computation, values), *given)


def _pull_in_sequence(
    places: _Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[Any]:
    """`_general_pull` where an element may be updated twice: one window at a time."""
    if 0 in places.update_dimensions or 0 in places.dimensions:
        return [(cotangent, None) for cotangent in cotangents]
    windows, outer = places.windows, places.outer
    order = (*outer, *places.numbers.update_window_dims)
    sizes = [places.update_dimensions[each] for each in order]
    given = places.indices, places.numbers, places.dimensions, windows
    inside = None, places.indices
    config, indices = inside if places.in_bounds else indexed_windows.into_padding(*given)
    columns = _start_columns(places, indices, sizes[: len(outer)])
    rank, count = len(columns), len(operands)
    is_pulled = tuple([cotangent is not None for cotangent in cotangents])

    def read(arrays: Values, starts: Values) -> list[Any]:
        return [ops.dynamic_slice(each, starts, windows) for each in arrays]

    def written(arrays: Values, values: Iterable[Any], starts: Values) -> list[Any]:
        pairs = zip(arrays, values, strict=True)
        return [ops.dynamic_update_slice(each, value, starts) for each, value in pairs]

    def forwards(*values: Any) -> list[Any]:
        starts, row, running = values[:rank], values[rank:-count], values[-count:]
        old = read(running, starts)
        return [*old, *written(running, apply_computation(computation, [*old, *row]), starts)]

    def backwards(*values: Any) -> list[Any]:
        starts, found = values[:rank], values[rank : rank + 2 * count]
        running = values[rank + 2 * count :]
        given = spread(is_pulled, read(running, starts))
        pulled = list(map(instantiate, _pulled_back(computation, found, given), found))
        return [*pulled[count:], *written(running, compress(pulled[:count], is_pulled), starts)]

    def loop(step: Callable[..., Any], inputs: Values, arrays: Iterable[Any]) -> Values:
        carries = [indexed_windows.framed(each, config) for each in arrays]
        rows = [array_shape(each).without_dimension(0) for each in inputs]
        shapes, name = (*rows, *map(array_shape, carries)), step.__name__
        key, given = (name, is_pulled, shapes), (step, shapes, "scatter", name)
        graph = computation.remembered(key, closed_graph, *given)
        return ops.scan(inputs, carries, graph, is_reverse=step is backwards)

    rows = [ops.transpose(each, order) for each in updates]
    rows = [ops.reshape(each, (math.prod(sizes[: len(outer)]), *windows)) for each in rows]
    old = loop(forwards, [*columns, *rows], operands)[:count]
    found = loop(backwards, [*columns, *old, *rows], compress(cotangents, is_pulled))
    back, inside = [order.index(each) for each in sorted(order)], places.inside()
    given = [indexed_windows.unframed(each, config) for each in found[count:]]
    rows = [ops.transpose(ops.reshape(each, sizes), back) for each in found[:count]]
    chosen = [_chosen(inside, each) for each in compress(rows, is_pulled)]
    return list(zip(spread(is_pulled, given), spread(is_pulled, chosen), strict=True))


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
