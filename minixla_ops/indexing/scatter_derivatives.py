"""Derivatives of Scatter, by what the update computation does.

Sums, differences and overwriting are linear. Maxima and minima share their derivative equally
among all that attain the result. Everything else goes forwards as one scatter of pairs of value
and tangent; backwards it takes one pullback of the computation where no element is updated twice,
and otherwise one after another (see `scatter_sequence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import minixla_ops as ops
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla_ops.folds.fold_programs import tangents_of_fold
from minixla_ops.indexing.scatter_computations import (
    combination_of,
    overwrite,
    pulled_back,
    separate,
    split,
)
from minixla_ops.indexing.scatter_places import Places, chosen
from minixla_ops.indexing.scatter_sequence import pull_in_sequence
from minixla_ops.vocabulary.shorthand import ones_like, zeros_like

if TYPE_CHECKING:
    from minixla_ops.indexing.scatter import Scatter

Values = Sequence[Any]


def scatter_jvp(
    operation: Scatter, primals: Values, tangents: Values, results: Values
) -> tuple[Any, ...]:
    """The tangents of the N results (None for zero); arguments are those of a jvp rule."""
    places = Places(operation, primals)
    parts, (operands, _, updates) = separate(places.computation), split(primals)
    of_operands, _, of_updates = split(tangents)
    if parts is None:
        primals, tangents = (operands, updates), (of_operands, of_updates)
        return tangents_of_fold(places.computation, primals, tangents, places.write_all)
    columns = zip(parts, operands, updates, results, of_operands, of_updates, strict=True)
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
    primals, tangents = ([operand], [update]), ([of_operand], [of_update])
    return tangents_of_fold(computation, primals, tangents, places.write_all)[0]


def _losers(
    places: Places, combination: str, operand: Any, update: Any, result: Any
) -> tuple[Any, Any, Any]:
    """Which old values and which updates are not the extreme, and how many are, at each element."""
    is_less = ops.lt if combination == "max" else ops.gt
    loses, update_loses = is_less(operand, result), is_less(update, places.read(result))
    ones = ones_like(operand), ones_like(update)
    count = _added(places, _unless(loses, ones[0], operand), _unless(update_loses, ones[1], update))
    return loses, update_loses, count


def _unless(mask: Any, value: Any, like: Any) -> Any:
    """`value` where the mask does not hold; zeros where it does, and where `value` is None."""
    return zeros_like(like) if value is None else ops.select(mask, zeros_like(like), value)


def _added(places: Places, operand: Any, update: Any) -> Any:

    return places.write(operand, update, ops.add)


def scatter_transpose(
    operation: Scatter, cotangents: Values, operands: Values, linear: Sequence[bool]
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a transpose rule.

    Raises:
        DerivativeError: the scatter is not linear in the marked operands.
    """
    places = Places(operation, operands)
    parts = separate(places.computation) or (None,) * len(cotangents)
    (_, _, updates), (of_operands, _, of_updates) = split(operands), split(linear)
    columns = zip(cotangents, parts, updates, of_operands, of_updates, strict=True)
    found = []
    for cotangent, computation, update, of_operand, of_update in columns:
        combination = None if computation is None else combination_of(computation)
        is_linear = combination in _LINEAR or (combination == "mul" and not of_update)
        if (of_operand or of_update) and not is_linear:
            raise explain(
                DerivativeError,
                "scatter",
                "a jvp rule applies it to a tangent, but it is not linear there",
                [f"update_computation {places.computation.name}"],
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
            of_update = chosen(places.last(), of_update)
        elif combination == "sub":
            of_update = -of_update
    return of_operand, of_update


def scatter_vjp(
    operation: Scatter,
    cotangents: Values,
    operands: Values,
    results: Values,
    active: Sequence[bool],
) -> list[Any]:
    """The cotangents of all 2 N + 1 operands; arguments are those of a vjp rule."""
    places = Places(operation, operands)
    parts, (arrays, _, updates) = separate(places.computation), split(operands)
    if parts is None:
        return _rejoined(_general_pull(places, places.computation, cotangents, arrays, updates))
    wanted, _, updates_wanted = split(active)
    columns = zip(parts, cotangents, arrays, updates, results, wanted, updates_wanted, strict=True)
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
            None if of_update is None else chosen(inside, of_update),
        )
        for cotangent, update, of_old, of_update in columns
    ]
