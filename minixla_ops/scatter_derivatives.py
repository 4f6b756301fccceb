"""Derivatives of Scatter, by what the update computation does.

Sums, differences and overwriting are linear. Maxima and minima share their derivative equally
among all that attain the result. Everything else goes forwards as one scatter of pairs of value
and tangent; backwards it takes one pullback of the computation where no element is updated twice,
and otherwise one after another (see `scatter_sequence`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.derived import call_vjp_graphs, vjp_graphs
from minixla.core.element_types import element_type
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph
from minixla_ops.computations import apply_computation
from minixla_ops.fold_programs import paired_computation
from minixla_ops.gather import gather
from minixla_ops.gather_scatter import gather_or_fill, may_lie_partly_outside, starts_in_bounds
from minixla_ops.index_numbers import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    outer_dimensions,
    window_sizes,
)
from minixla_ops.rules import array_shape, ones_like, splat, zeros, zeros_like
from minixla_ops.scatter_computations import combination_of, overwrite, separate

__all__ = ["scatter_jvp", "scatter_transpose", "scatter_vjp"]

Values = Sequence[Any]


class Places:
    """The elements that a scatter updates."""

    def __init__(
        self,
        operand: Shape,
        indices: Any,
        updates: Shape,
        *,
        update_computation: Graph,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        indices_in_bounds: bool,
    ) -> None:
        self.dimensions, self.update_dimensions = operand.dimensions, updates.dimensions
        self.indices, self.numbers = indices, dimension_numbers
        self.is_sorted, self.in_bounds = indices_are_sorted, indices_in_bounds
        # The elements of one window are different ones.
        has_one_window = math.prod([updates.dimensions[d] for d in self._outer()]) == 1
        self.is_unique = unique_indices or has_one_window
        self.windows = window_sizes(self.dimensions, self.update_dimensions, dimension_numbers)

    def write(self, operands: Any, updates: Any, computation: Graph | Callable[..., Any]) -> Any:
        """A scatter to these places."""
        from minixla_ops.scatter import scatter

        promises = self.is_sorted, self.is_unique, self.in_bounds
        return scatter(operands, self.indices, updates, computation, self.numbers, *promises)

    def read(self, value: Any) -> Any:
        """What `value`, an array like the operand, has where updates go; 0 if that is outside."""
        if 0 in self.dimensions:
            return zeros(Shape(array_shape(value).element_type, self.update_dimensions))
        numbers = GatherDimensionNumbers(*self.numbers)
        if self.in_bounds:
            return gather(value, self.indices, numbers, self.windows, self.is_sorted)
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
        from minixla_ops.binary import max
        from minixla_ops.comparison import eq
        from minixla_ops.creation import iota
        from minixla_ops.reshaping import reshape

        outer = [self.update_dimensions[d] for d in self._outer()]
        kind = element_type("s64" if math.prod(outer) >> 31 else "s32")
        counted = iota(Shape(kind, (math.prod(outer),)), 0)
        ranks = self._spread(reshape(counted, outer)) + 1
        latest = self.write(zeros(Shape(kind, self.dimensions)), ranks, max)
        return eq(self.read(latest), ranks)

    def _outer(self) -> tuple[int, ...]:
        return outer_dimensions(len(self.update_dimensions), self.numbers)

    def _spread(self, windows: Any) -> Any:
        """A value for each window as one for each update."""
        from minixla_ops.broadcasting import broadcast_in_dim

        return broadcast_in_dim(windows, self.update_dimensions, self._outer())


def _places(values: Values, **attributes: Any) -> Places:
    count = len(values) // 2
    operand, updates = array_shape(values[0]), array_shape(values[-1])
    return Places(operand, values[count], updates, **attributes)


def _split(values: Values) -> tuple[Values, Values]:
    """What there is for the operands, and for the updates."""
    count = len(values) // 2
    return values[:count], values[count + 1 :]


def _chosen(mask: Any, value: Any) -> Any:
    """`value` where the mask holds or is None, and 0 elsewhere."""
    from minixla_ops.selection import select

    return value if mask is None else select(mask, value, zeros_like(value))


def scatter_jvp(
    primals: Values, tangents: Values, results: Values, **attributes: Any
) -> tuple[Any, ...]:
    """The tangents of the N results (None for zero); arguments are those of a jvp rule."""
    places = _places(primals, **attributes)
    operands, updates = _split(primals)
    parts = separate(attributes["update_computation"])
    if parts is None:
        computation = attributes["update_computation"]
        return _paired_jvp(places, computation, operands, updates, *_split(tangents))
    columns = zip(parts, operands, updates, results, *_split(tangents), strict=True)
    return tuple([_part_jvp(places, *column) for column in columns])


def _part_jvp(
    places: Places,
    computation: Graph,
    operand: Any,
    update: Any,
    result: Any,
    of_operand: Any,
    of_update: Any,
) -> Any:
    combination = combination_of(computation)
    if combination == "keep" or (of_update is None and combination in ("add", "sub")):
        return of_operand
    if of_operand is None and of_update is None:
        return None
    if combination in ("add", "sub", "set"):
        moved = instantiate(of_operand, operand), instantiate(of_update, update)
        return places.write(*moved, computation)
    if combination == "mul" and of_update is None:
        return places.write(of_operand, update, computation)
    if combination in ("max", "min"):
        loses, update_loses, count = _losers(places, combination, operand, update, result)
        moved = _unless(loses, of_operand, operand), _unless(update_loses, of_update, update)
        return _added(places, *moved) / count
    return _paired_jvp(places, computation, [operand], [update], [of_operand], [of_update])[0]


def _losers(
    places: Places, combination: str, operand: Any, update: Any, result: Any
) -> tuple[Any, Any, Any]:
    """Which old values and which updates are not the extreme, and how many are, at each element."""
    from minixla_ops.comparison import gt, lt

    is_less = lt if combination == "max" else gt
    loses, update_loses = is_less(operand, result), is_less(update, places.read(result))
    ones = ones_like(operand), ones_like(update)
    count = _added(places, _unless(loses, ones[0], operand), _unless(update_loses, ones[1], update))
    return loses, update_loses, count


def _unless(mask: Any, value: Any, like: Any) -> Any:
    """`value` where the mask does not hold; zeros where it does, and where `value` is None."""
    from minixla_ops.selection import select

    return zeros_like(like) if value is None else select(mask, zeros_like(like), value)


def _added(places: Places, operand: Any, update: Any) -> Any:
    from minixla_ops.binary import add

    return places.write(operand, update, add)


def _paired_jvp(
    places: Places,
    computation: Graph,
    operands: Values,
    updates: Values,
    of_operands: Values,
    of_updates: Values,
) -> tuple[Any, ...]:
    """Values and tangents scattered together; right however often an element is updated."""
    moving = [
        one is not None or other is not None
        for one, other in zip(of_operands, of_updates, strict=True)
    ]
    if not any(moving):
        return (None,) * len(operands)
    pairs, carried = paired_computation(computation, moving)

    def joined(primals: Values, tangents: Values) -> list[Any]:
        columns = zip(primals, tangents, carried, strict=True)
        return [*primals, *(instantiate(t, primal) for primal, t, flag in columns if flag)]

    results = places.write(joined(operands, of_operands), joined(updates, of_updates), pairs)
    found = iter(results[len(operands) :])
    return tuple([next(found) if flag else None for flag in carried])


def scatter_transpose(
    cotangents: Values, operands: Values, linear: Sequence[bool], **attributes: Any
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a transpose rule.

    Raises:
        DerivativeError: the scatter is not linear in the marked operands.
    """
    places = _places(operands, **attributes)
    parts = separate(attributes["update_computation"]) or (None,) * len(cotangents)
    columns = zip(cotangents, parts, *_split(operands), *_split(linear), strict=True)
    found = []
    for cotangent, computation, _, update, of_operand, of_update in columns:
        combination = None if computation is None else combination_of(computation)
        is_linear = combination in _LINEAR or (combination == "mul" and not of_update)
        if (of_operand or of_update) and not is_linear:
            raise explain(
                DerivativeError,
                "scatter",
                "a jvp rule applies it to a tangent, but it is not linear there",
                [f"update_computation {attributes['update_computation'].name}"],
                "A jvp rule must be linear in its tangents, for reverse mode transposes it.",
            )
        wanted = of_operand, of_update
        found.append(_linear_pull(places, computation, cotangent, update, wanted))
    return _rejoined(found)


_LINEAR = ("add", "sub", "set", "keep")


def _rejoined(pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [*(operand for operand, _ in pairs), None, *(update for _, update in pairs)]


def _linear_pull(
    places: Places, computation: Any, cotangent: Any, update: Any, wanted: tuple[bool, bool]
) -> tuple[Any, Any]:
    """The cotangents of operand and update where the scatter is linear in what is wanted."""
    if cotangent is None or not any(wanted):
        return None, None
    combination = combination_of(computation)
    of_operand = of_update = None
    if wanted[0]:
        of_operand = cotangent
        if combination == "set":
            of_operand = places.write(cotangent, zeros_like(update), computation)
        elif combination == "mul":
            of_operand = places.write(cotangent, update, computation)
    if wanted[1] and combination != "keep":
        of_update = places.read(cotangent)
        if combination == "set" and not places.is_unique:
            of_update = _chosen(places.last(), of_update)
        elif combination == "sub":
            of_update = -of_update
    return of_operand, of_update


def scatter_vjp(
    cotangents: Values,
    operands: Values,
    results: Values,
    active: Sequence[bool],
    **attributes: Any,
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a vjp rule."""
    places = _places(operands, **attributes)
    arrays, updates = _split(operands)
    parts = separate(attributes["update_computation"])
    if parts is None:
        computation = attributes["update_computation"]
        return _rejoined(_general_pull(places, computation, cotangents, arrays, updates))
    columns = zip(parts, cotangents, arrays, updates, results, *_split(active), strict=True)
    return _rejoined([_part_pull(places, *column) for column in columns])


def _part_pull(
    places: Places,
    computation: Graph,
    cotangent: Any,
    operand: Any,
    update: Any,
    result: Any,
    of_operand: bool,
    of_update: bool,
) -> tuple[Any, Any]:
    if cotangent is None or not (of_operand or of_update):
        return None, None
    combination = combination_of(computation)
    if combination in _LINEAR or (combination == "mul" and not of_update):
        return _linear_pull(places, computation, cotangent, update, (of_operand, of_update))
    if combination in ("max", "min"):
        loses, update_loses, count = _losers(places, combination, operand, update, result)
        share = cotangent / count
        return (
            _unless(loses, share, operand) if of_operand else None,
            _unless(update_loses, places.read(share), update) if of_update else None,
        )
    return _general_pull(places, computation, [cotangent], [operand], [update])[0]


def _general_pull(
    places: Places, computation: Graph, cotangents: Values, operands: Values, updates: Values
) -> list[tuple[Any, Any]]:
    """The cotangents of N operands and N updates, for any update computation."""
    given = [
        instantiate(cotangent, operand) if has_tangent(operand) else None
        for cotangent, operand in zip(cotangents, operands, strict=True)
    ]
    if not places.is_unique:
        from minixla_ops.scatter_sequence import pull_in_sequence

        return pull_in_sequence(places, computation, given, operands, updates)
    old = [places.read(operand) for operand in operands]
    at_updates = [None if each is None else places.read(each) for each in given]
    pulled = pulled_back(computation, [*old, *updates], at_updates)
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


def pulled_back(computation: Graph, arguments: Values, cotangents: Values) -> list[Any]:
    """The pullback of a computation of scalars that is applied element by element.

    Args:
        computation: from 2 N scalars to N.
        arguments: 2 N arrays of equal dimensions.
        cotangents: those of the N results; None for zero.

    Returns:
        A cotangent for each argument; None for zero.
    """
    shapes = tuple([array_shape(argument) for argument in arguments])
    key = ("elementwise", shapes)
    program = computation.memo.get(key)
    if program is None:

        def elementwise(*values: Any) -> list[Any]:
            return apply_computation(computation, values)

        program = closed_graph(elementwise, shapes, "scatter", computation.name)
        computation.memo[key] = program
    graphs = vjp_graphs(program, tuple([has_tangent(argument) for argument in arguments]))
    _, pullback = call_vjp_graphs(graphs, len(cotangents), list(arguments))
    return pullback({i: each for i, each in enumerate(cotangents) if each is not None})
