"""Derivatives of Scatter for the different update computations.

Sums, differences and overwriting are linear. Maxima and minima share their derivative equally among
all values that attain the result. Other computations scatter pairs of value and tangent in forward
mode; `scatter_pulls` has their reverse mode.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core import Graph, Operation
from minixla.core.linear import instantiate, zeros_like
from minixla.typing import Array, ArrayLike
from minixla_ops.folds.fold_programs import tangents_of_fold
from minixla_ops.helpers.shorthand import ones_like
from minixla_ops.indexing.scatter_computations import combination_of, separate, split
from minixla_ops.indexing.scatter_pulls import Places, Values, chosen, general_pull


class _Part(NamedTuple):
    """The scatter of one of N arrays whose computations are independent."""

    places: Places
    computation: Graph
    combination: str | None  # its meaning
    operand: Array
    update: Array
    result: Any = None

    def is_linear_in(self, of_update: bool) -> bool:
        """Return whether it is linear in the operand and, if `of_update`, in the update."""
        combination = self.combination
        return combination in ("add", "sub", "set", "keep") or (
            combination == "mul" and not of_update
        )

    def jvp(self, of_operand: Array | None, of_update: Array | None) -> Any:
        """Return the tangent of the result, None for zero."""
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

    def pull(
        self, cotangent: Array | None, of_operand: bool, of_update: bool
    ) -> tuple[Array | None, Array | None]:
        """Return the requested cotangents of operand and update, None for zero."""
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
            arrays = [cotangent], [self.operand], [self.update]
            return general_pull(places, self.computation, *arrays)[0]
        first = second = None
        if of_operand:
            first = cotangent
            if combination in ("set", "mul"):
                kept = self.update if combination == "mul" else zeros_like(self.update)
                first = places.write(self.computation, cotangent, kept)
        if of_update and combination != "keep":
            second = places.read(cotangent)
            if combination == "set" and not places.is_unique:
                second = chosen(places.last(), second)
            elif combination == "sub":
                second = -second
        return first, second

    def _losers(self) -> tuple[Array, Array, Array]:
        """Return masks of old values and updates below the extreme, and the count of the others."""
        operand, update, result = self.operand, self.update, self.result
        is_less = ops.lt if self.combination == "max" else ops.gt
        loses, update_loses = is_less(operand, result), is_less(update, self.places.read(result))
        ones = ones_like(operand), ones_like(update)
        held = _unless(loses, ones[0], operand), _unless(update_loses, ones[1], update)
        return loses, update_loses, self.places.write(ops.add, *held)


def _unless(mask: Array, value: ArrayLike | None, like: Array) -> Array:
    """Return `value` where the mask is false, and zeros elsewhere or if `value` is None."""
    return zeros_like(like) if value is None else ops.select(mask, zeros_like(like), value)


def _parts_of(places: Places, operands: Values, results: Values | None) -> list[_Part] | None:
    """Return the scatters of each of the N arrays if they are independent, else None."""
    computations, (arrays, _, updates) = separate(places.computation), split(operands)
    if computations is None:
        return None
    combinations = map(combination_of, computations)
    columns = computations, combinations, arrays, updates, results or [None] * len(arrays)
    return [_Part(places, *column) for column in zip(*columns, strict=True)]


def scatter_jvp(
    operation: Operation, primals: Values, tangents: Sequence[Array | None], results: Values
) -> Sequence[Array | None]:
    """Return the tangents of the N results, None for zero; arguments are those of a jvp rule."""
    places = Places(operation, primals)
    parts = _parts_of(places, primals, results)
    (operands, _, updates), (of_operands, _, of_updates) = split(primals), split(tangents)
    if parts is None:
        pairs = (operands, updates), (of_operands, of_updates)
        return tangents_of_fold(places.computation, *pairs, places.write)
    rows = zip(parts, of_operands, of_updates, strict=True)
    return [part.jvp(*moved) for part, *moved in rows]


def scatter_pull(
    operation: Operation,
    cotangents: Values,
    operands: Values,
    results: Values | None,
    wanted: Sequence[bool],
) -> list[Array | None]:
    """Return the wanted cotangents of all 2 N + 1 operands; without `results`, the transpose."""
    places = Places(operation, operands)
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
        pulled = general_pull(places, computation, cotangents, arrays, updates)
    else:
        rows = zip(parts, cotangents, pairs, strict=True)
        pulled = [part.pull(cotangent, *pair) for part, cotangent, pair in rows]
    return [*(operand for operand, _ in pulled), None, *(update for _, update in pulled)]
