"""Sharding rules that are found, and checked, by running operations in NumPy.

A block is the part of an array at some of the indices of a factor. If a factor passes through, a
block of the results follows from the operands' blocks only, regardless of other elements. If the
operation accepts arrays of the blocks' sizes, its results for them are that block of the results.
Along a factor that is summed over, partial results add up.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.errors import MinixlaError
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape, ShapeList
from minixla.core.sharding_rule import (
    ABSENT,
    NEED_REPLICATION,
    PASS_THROUGH,
    REDUCTION,
    RuleBuilder,
    ShardingRule,
    Tensor,
    factor_symbol,
)
from minixla.core.tracing import nested
from minixla_ops.helpers.shorthand import as_tuple
from minixla_ops.programs.computations import MONOIDS, identity_of, monoid_of

Arrays = Sequence[np.ndarray]

# The range of random floats, in the domains of most functions; integers are small enough to be
# indices.
_LEAST, _GREATEST = 0.1, 0.9
_INTEGERS = 3
# The tolerance of equal floats, because sums are added in another order.
_TOLERANCE = 1e-3
# Sizes above the first are probed as sizes from the second on.
_LARGE, _SMALLEST = 16, 4
# Larger operations are not probed if they do not accept smaller operands.
_MOST_ELEMENTS = 1 << 20
# The number of tried ways in which one factor may be in the arrays.
_MOST_CHOICES = 256


class Place(NamedTuple):
    """The place of a factor in an array."""

    sizes: tuple[int, ...]  # The array's sizes, with each dimension split into its factors.
    axis: int  # The index of the factor among these dimensions.
    dimension: int  # The array's dimension whose major part it is, or ABSENT.

    def block(self, array: np.ndarray, indices: slice) -> np.ndarray:
        """Return the block at some indices of the factor: a view with split dimensions."""
        at: Any = (*[slice(None)] * self.axis, indices)
        return array.reshape(self.sizes)[at]

    def merged(self, inside: np.ndarray, outside: np.ndarray, indices: slice) -> np.ndarray:
        """Return `inside` at some indices of the factor, and `outside` at the others."""
        mixed = np.array(outside)
        self.block(mixed, indices)[...] = self.block(inside, indices)
        return mixed


#: For each array, the place of a factor, or None.
Places = Sequence[Place | None]


class Trial:
    """An operation with random operands and its results for them."""

    def __init__(self, operation: Operation, shapes: ShapeList) -> None:
        random = np.random.default_rng(0)
        self.operation, self.shapes = operation, operation.array_shapes(shapes)
        self.operands, self.others = (
            [_random(shape, random) for shape in self.shapes] for _ in range(2)
        )
        self.results = self._evaluated(self.operands)

    def _evaluated(self, operands: Arrays) -> list[np.ndarray]:
        """Return the results by the operation's reference."""
        with np.errstate(all="ignore"), nested():
            return [np.asarray(result) for result in as_tuple(self.operation.reference(*operands))]

    @cached_property
    def monoid(self) -> str | None:
        """The monoid that combines partial results; None if the computation is not a monoid."""
        programs = self.operation.computations
        return monoid_of(programs[-1]) if programs else "add"

    def is_local(self, operands: Places, results: Places) -> bool:
        """Test whether blocks of the results depend on no other blocks of the operands."""
        for indices in _halves([*operands, *results]):
            found = self._evaluated(self._within(operands, indices, self.others))
            for place, one, other in zip(results, self.results, found, strict=True):
                if place and not _equal(place.block(one, indices), place.block(other, indices)):
                    return False
        return True

    def depends(self, operands: Places) -> bool:
        """Test whether results depend on these operands."""
        results = self._evaluated(self._within(operands, slice(0), self.others))
        return not all(map(_equal, self.results, results))

    def is_block_by_block(self, operands: Places, results: Places) -> bool | None:
        """Test whether results for blocks are blocks of the results; None: blocks are rejected."""
        for indices in _halves([*operands, *results]):
            found = self._of_blocks(operands, indices)
            if found is None:
                return None
            for place, whole, part in zip(results, self.results, found, strict=True):
                wanted = whole if place is None else place.block(whole, indices)
                if wanted.size != part.size:
                    return None
                if not _equal(wanted.reshape(-1), part.reshape(-1)):
                    return False
        return True

    def adds_up(self, operands: Places) -> bool:
        """Test whether results add up if the other blocks are replaced by identities."""
        results = self._of_blocks(operands, next(_halves(operands)))
        if results and any(x.shape != y.shape for x, y in zip(results, self.results, strict=True)):
            return False
        # A value that exists without any block is in both partial results.
        identities = [
            np.full(x.shape, identity_of(self.monoid or "", x.dtype)) for x in self.operands
        ]
        empty, *parts = [
            self._evaluated(self._within(operands, indices, identities))
            for indices in (slice(0), *_halves(operands))
        ]
        combine = MONOIDS[self.monoid or ""].ufunc
        columns = zip(self.results, empty, *parts, strict=True)
        return all(_equal(combine(w, none), combine(x, y)) for w, none, x, y in columns)

    def adds_up_block_by_block(self, operands: Places) -> bool:
        """Test whether results for blocks, which it must accept, add up."""
        parts = [self._of_blocks(operands, indices) for indices in _halves(operands)]
        columns = zip(self.results, *[part or [] for part in parts], strict=False)
        sums = [(w, x + y) for w, x, y in columns if w.shape == x.shape == y.shape]
        return len(sums) == len(self.results) and all(_equal(*pair) for pair in sums)

    def _within(self, places: Places, indices: slice, others: Arrays) -> Arrays:
        """Return the operands with the elements of `others` outside of blocks."""
        columns = zip(places, self.operands, others, strict=True)
        return [x if place is None else place.merged(x, y, indices) for place, x, y in columns]

    def _of_blocks(self, places: Places, indices: slice) -> Arrays | None:
        """Return the results for blocks of the operands; None if the operation rejects them."""
        parts = []
        for place, array in zip(places, self.operands, strict=True):
            if place is None:
                parts.append(array)
            elif place.dimension == ABSENT:
                return None  # no device has only such a block
            else:
                block, sizes = place.block(array, indices), [*array.shape]
                rest = sizes[place.dimension] // place.sizes[place.axis]
                sizes[place.dimension] = block.shape[place.axis] * rest
                parts.append(block.reshape(sizes))
        try:
            self.operation.infer(tuple([Shape(x.dtype, x.shape) for x in parts]))
            return self._evaluated(parts)
        except (MinixlaError, ValueError, TypeError, IndexError):
            return None


def _halves(places: Places) -> Iterator[slice]:
    """Yield the indices of the two blocks of a factor."""
    size = next(place.sizes[place.axis] for place in places if place is not None)
    yield slice(0, size // 2)
    yield slice(size // 2, size)


def _random(shape: Shape, random: np.random.Generator) -> np.ndarray:
    kind, sizes = shape.element_type, shape.dimensions
    if not kind.is_inexact:
        most = 2 if kind.kind == "pred" else _INTEGERS
        return random.integers(0, most, sizes).astype(shape.dtype)
    real, imaginary = (random.uniform(_LEAST, _GREATEST, sizes) for _ in range(2))
    return (real + 1j * imaginary if kind.is_complex else real).astype(shape.dtype)


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if not element_type(one.dtype).is_inexact:
        return np.array_equal(one, other)
    wide = np.complex128 if element_type(one.dtype).is_complex else np.float64
    pair = one.astype(wide), other.astype(wide)
    return np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def wrong_factors(operation: Operation, shapes: ShapeList, rule: ShardingRule) -> list[str]:
    """Return the errors of a rule, with a line for each wrong factor.

    Partial results are combined by the operation's own computation. Factors that need replication
    or are permuted promise nothing. Parts of dimensions are not checked if a dimension is not just
    its factors.
    """
    trial, problems = Trial(operation, shapes), []
    for factor, size in enumerate(rule.sizes):
        operands = _places(rule, rule.operands, trial.operands, factor)
        results = _places(rule, rule.results, trial.results, factor)
        kind, name = rule.kind(factor), f"factor {factor_symbol(factor)} of size {size}"
        if operands is None or results is None or size < 2 or not any(operands):
            continue
        if kind == REDUCTION and trial.monoid is not None and not trial.adds_up(operands):
            problems.append(f"{name}: results for blocks do not add up")
        if kind != PASS_THROUGH:
            continue
        is_major = all(place is None or place.dimension != ABSENT for place in results)
        if not trial.is_local(operands, results):
            problems.append(f"{name}: a block of the results depends on other blocks")
        elif is_major and trial.is_block_by_block(operands, results) is False:
            problems.append(f"{name}: results for a block are not a block of the results")
    return problems


def _places(
    rule: ShardingRule, tensors: Sequence[Tensor], arrays: Arrays, factor: int
) -> list[Place | None] | None:
    """Return the place of a factor in each array; None if an array is not just its factors."""
    places: list[Place | None] = []
    for tensor, array in zip(tensors, arrays, strict=True):
        flat = [factor for dimension in tensor for factor in dimension]
        if factor not in flat:
            places.append(None)
            continue
        split = [prod(rule.sizes[factor] for factor in dimension) for dimension in tensor]
        if split != list(array.shape):
            return None
        firsts = [dimension[0] for dimension in tensor]
        at = firsts.index(factor) if factor in firsts else ABSENT
        places.append(Place(tuple(rule.sizes[number] for number in flat), flat.index(factor), at))
    return places


def probed_rule(operation: Operation, shapes: ShapeList) -> ShardingRule | None:
    """Return the rule that probing shows: only for whole dimensions, without permuted factors.

    A factor passes through if blocks of operands determine that block of the results. It is summed
    over if the results for blocks add up. Along all other dimensions the whole array is needed.

    Args:
        operation: an operation with a reference.
        shapes: the shapes of its operands.

    Returns:
        The rule; None if the reference fails for random operands of these shapes and of smaller
        ones, or if these are large.
    """
    for smaller in (_smaller(operation, shapes), operation.array_shapes(shapes)):
        if smaller is not None and sum(shape.size for shape in smaller) <= _MOST_ELEMENTS:
            try:
                probe = _Probe(Trial(operation, smaller))
            except Exception:  # a user's function may raise any error
                continue
            return probe.rule(shapes, as_tuple(operation.infer(tuple(shapes))))
    return None


def _smaller(operation: Operation, shapes: ShapeList) -> list[Shape] | None:
    """Return small shapes that the operation accepts, with different sizes where these differ."""
    arrays, results = operation.array_shapes(shapes), as_tuple(operation.infer(tuple(shapes)))
    every = {size for shape in (*arrays, *results) for size in shape.dimensions}
    large = sorted(size for size in every if size > _LARGE)
    free = (size for size in range(_SMALLEST, _LARGE + len(large), 2) if size not in every)
    renamed = {size: next(free, size) for size in large}

    def shrunk(shape: Shape) -> Shape:
        return shape.with_dimensions([renamed.get(size, size) for size in shape.dimensions])

    operands = [*map(shrunk, arrays)]
    try:
        found = as_tuple(operation.infer(tuple(operands)))
    except MinixlaError:
        return None
    return operands if list(found) == [*map(shrunk, results)] else None


class _Probe:
    """The factors that a trial shows: the dimension of each in each array, or ABSENT."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.passing: list[tuple[list[int], list[int]]] = []
        self.summed: list[tuple[list[int], list[int]]] = []
        self._free = [{*range(x.ndim)} for x in (*trial.operands, *trial.results)]
        for index, result in enumerate(trial.results):
            for dimension, size in enumerate(result.shape):
                if size > 1 and dimension in self._free[len(trial.operands) + index]:
                    self._pass(index, dimension, size)
        sizes = {size for array in trial.operands for size in array.shape if size > 1}
        for size in sorted(sizes):
            while self._sum(size):
                pass

    def _places(self, arrays: Arrays, chosen: Sequence[int]) -> list[Place | None]:
        return [
            None if at == ABSENT else Place(array.shape, at, at)
            for array, at in zip(arrays, chosen, strict=True)
        ]

    def _options(self, first: int, arrays: Arrays, size: int) -> list[list[int]]:
        """Return for each array its free dimensions of a size, and ABSENT."""
        columns = enumerate(arrays, first)
        return [
            [*[d for d in sorted(self._free[i]) if x.shape[d] == size], ABSENT] for i, x in columns
        ]

    def _pass(self, index: int, dimension: int, size: int) -> None:
        """Find the factor of a dimension of a result, if it passes through."""
        trial, count = self.trial, len(self.trial.operands)
        result = [ABSENT] * len(trial.results)
        result[index] = dimension
        places = self._places(trial.results, result)
        options = []
        for number, option in enumerate(self._options(0, trial.operands, size)):
            linked = []
            for at in option[:-1]:
                chosen = [ABSENT] * count
                chosen[number] = at
                if trial.is_local(self._places(trial.operands, chosen), places):
                    linked.append(at)
            options.append([*linked, ABSENT])
        others = self._options(count, trial.results, size)
        others[index] = [dimension]
        for choice in islice(product(*options, *others), _MOST_CHOICES):
            chosen, results = [*choice[:count]], [*choice[count:]]
            pair = self._places(trial.operands, chosen), self._places(trial.results, results)
            if any(pair[0]) and trial.is_local(*pair) and trial.is_block_by_block(*pair):
                self._take(self.passing, chosen, results)
                return

    def _sum(self, size: int) -> bool:
        """Find a factor of this size that is summed over; return whether it exists."""
        trial = self.trial
        choices = [*islice(product(*self._options(0, trial.operands, size)), _MOST_CHOICES)]
        for chosen in sorted(choices, key=lambda choice: choice.count(ABSENT)):
            places = self._places(trial.operands, chosen)
            if any(places) and trial.depends(places) and trial.adds_up_block_by_block(places):
                self._take(self.summed, list(chosen), [ABSENT] * len(trial.results))
                return True
        return False

    def _take(self, found: list[Any], operands: list[int], results: list[int]) -> None:
        found.append((operands, results))
        for free, at in zip(self._free, (*operands, *results), strict=True):
            free.discard(at)

    def rule(self, operands: ShapeList, results: Sequence[AnyShape]) -> ShardingRule:
        """Return the rule for shapes."""
        builder, arrays = RuleBuilder(operands, tuple(results)), [*operands, *results]
        sizes = [shape.dimensions for shape in arrays]  # type: ignore[union-attr]  # arrays
        for kind, factors in ((PASS_THROUGH, self.passing), (REDUCTION, self.summed)):
            for chosen in factors:
                pairs = zip((*chosen[0], *chosen[1]), sizes, strict=True)
                size = next(operand_sizes[at] for at, operand_sizes in pairs if at != ABSENT)
                builder.add(*chosen, size, kind)
        for index, free in enumerate(self._free):
            for dimension in sorted(
                dimension_index for dimension_index in free if sizes[index][dimension_index] > 1
            ):
                places = [dimension if i == index else ABSENT for i in range(len(arrays))]
                split = places[: len(operands)], places[len(operands) :]
                builder.add(*split, sizes[index][dimension], NEED_REPLICATION)
        return builder.build()
