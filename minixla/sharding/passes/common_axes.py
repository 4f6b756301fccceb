"""Axes along which to split all tensors of an operation whose shardings differ."""

import math
from collections.abc import Sequence

from minixla.core.sharding_rule import (
    NEED_REPLICATION,
    PASS_THROUGH,
    PERMUTATION,
    REDUCTION,
    ShardingRule,
)
from minixla.sharding.axes import Part, merged, size_of
from minixla.sharding.propagation.factors import Parts, Tensor
from minixla.sharding.propagation.strategies import shared_prefix, without

#: A factor and axes along which to split it.
Candidate = tuple[int, Parts]
#: The two arrays of an operation, with their numbers of elements.
Pair = Sequence[tuple[Tensor, int]]
# Kinds of factors; later ones are split first.
_PRECEDENCE = NEED_REPLICATION, REDUCTION, PERMUTATION, PASS_THROUGH


def axes_of(tensors: Sequence[Tensor], factor: int) -> set[Parts]:
    """Return the axes along which tensors with a factor are split."""
    return {tensor.factors[factor].parts for tensor in tensors if factor in tensor.factors}


def are_compatible(tensors: Sequence[Tensor], rule: ShardingRule) -> bool:
    """Test whether an operation can run on the pieces of its tensors without a reshard.

    The tensors must be split alike, along no axis twice, and whole along factors that require it.
    """
    common: list[Part] = []
    if any(factor.overflow for tensor in tensors for factor in tensor.factors.values()):
        return False
    for factor in range(len(rule.sizes)):
        axes = axes_of(tensors, factor)
        if len(axes) > 1 or (factor in rule.need_replication and axes != {()}):
            return False
        for part in next(iter(axes), ()):
            if any(part.overlaps(other) for other in common):
                return False
        common += next(iter(axes), ())
    return True


def common_axes(tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule) -> list[Parts]:
    """Return the axes along which to split all tensors, for each factor.

    Args:
        tensors: the tensors of an operation, operands first.
        sizes: the number of elements of each.
        rule: the operation's.
    """
    arrays = [number for number, tensor in enumerate(tensors) if tensor.dimensions]
    if len(arrays) == 2 and not rule.need_replication:
        pair = [(tensors[array], sizes[array]) for array in arrays]
        if any(factor.overflow for tensor, _ in pair for factor in tensor.factors.values()):
            return _in_order(pair, rule)
        if all(len(factors) == 1 for tensor, _ in pair for factors in tensor.dimensions):
            return _preferred(pair, rule)
    return voted_axes(tensors, sizes, rule)


def _ranked(pair: Pair, rule: ShardingRule) -> list[Tensor]:
    """Sort two tensors: first the one that needs no permutation, else the larger one.

    If they are equal in this, the one with smaller pieces is first.
    """

    def rank(given: tuple[Tensor, int]) -> tuple[bool, int, int]:
        tensor, size = given
        moves = any(
            factor.parts for key, factor in tensor.factors.items() if key in rule.permutation
        )
        return not moves, size, size_of(_axes(tensor))

    return [tensor for tensor, _ in sorted(pair, key=rank, reverse=True)]


def _axes(tensor: Tensor) -> list[Part]:
    return [part for parts in tensor.parts() for part in parts]


def _preferred(pair: Pair, rule: ShardingRule) -> list[Parts]:
    """Return the axes of one of two tensors, and those of factors that only the other has."""
    better, other = _ranked(pair, rule)
    taken: list[Parts] = [()] * len(rule.sizes)
    for factor, split in better.factors.items():
        taken[factor] = split.parts
    held = _axes(better)
    for factor, split in other.factors.items():
        if factor not in better.factors:
            taken[factor] = _free(split.parts, held)
    return taken


def _in_order(pair: Pair, rule: ShardingRule) -> list[Parts]:
    """Return the axes of one of two tensors, assigned to the factors of each in order.

    Then factors lose their axes if the factors that are major to them in a dimension are not fully
    split.
    """
    tensors = _ranked(pair, rule)
    axes, majors = _axes(tensors[0]), _majors(tensors, rule)
    assigned = [_handed_out(axes, tensor, rule.sizes) for tensor in tensors]
    taken: list[Parts] = []
    for factor in range(len(rule.sizes)):
        choices = [parts[factor] for parts in assigned if factor in parts]
        taken.append(shared_prefix(choices[0], choices[-1]))
    return [
        parts if all(size_of(taken[major]) == rule.sizes[major] for major in majors[factor]) else ()
        for factor, parts in enumerate(taken)
    ]


def _handed_out(axes: Sequence[Part], tensor: Tensor, sizes: Sequence[int]) -> dict[int, Parts]:
    """Assign axes to the factors of a tensor.

    From each axis, a factor takes the part that divides it, and the last factor takes the rest. If
    an axis divides no factor, the last one takes all of it.
    """
    *factors, last = [factor for factors in tensor.dimensions for factor in factors]
    room = {factor: sizes[factor] for factor in factors}
    assigned: dict[int, list[Part]] = {factor: [] for factor in (*factors, last)}
    for part in axes:
        start = part.start
        for factor, size in room.items():
            common = math.gcd(part.end // start, size)
            if common > 1:
                assigned[factor].append(Part(part.name, start, start * common))
                start, room[factor] = start * common, size // common
        if start < part.end:
            assigned[last].append(Part(part.name, start, part.end))
        if start == part.start and math.gcd(part.size, sizes[last]) == 1:
            room = {}
    return {factor: tuple(parts) for factor, parts in assigned.items()}


def _free(parts: Parts, held: Sequence[Part]) -> Parts:
    """Return the first of some axes, up to one that overlaps others."""
    free: list[Part] = []
    for part in parts:
        kept = without(part, held)
        free += () if kept is None else (kept,)
        if kept != part:
            break
    return tuple(free)


def _majors(tensors: Sequence[Tensor], rule: ShardingRule) -> list[set[int]]:
    """Return, for each factor, the factors that are major to it in a dimension of some tensor."""
    majors: list[set[int]] = [set() for _ in rule.sizes]
    for tensor in tensors:
        for factors in tensor.dimensions:
            for count, factor in enumerate(factors):
                majors[factor].update(factors[:count])
    return majors


def voted_axes(tensors: Sequence[Tensor], sizes: Sequence[int], rule: ShardingRule) -> list[Parts]:
    """Choose axes by a vote; see `common_axes`.

    Every tensor votes for its axes, and for each prefix of them, with its size. The axes with most
    votes are taken, repeatedly, until no remaining axes fit those that were taken.
    """
    lists = [
        (size, factor, split.parts)
        for tensor, size in zip(tensors, sizes, strict=True)
        for factor, split in tensor.factors.items()
    ]
    votes: dict[Candidate, int] = {}
    for _, factor, parts in lists:
        for count in range(1, len(parts) + 1):
            first = parts[:count]
            voters = [
                size
                for size, other, parts in lists
                if other == factor and shared_prefix(first, parts) == first
            ]
            votes[factor, first] = sum(voters)
    taken: list[Parts] = [()] * len(rule.sizes)

    def rank(candidate: Candidate) -> tuple[object, ...]:
        factor, parts = candidate
        precedence = _PRECEDENCE.index(rule.kind(factor))
        return (
            votes[candidate],
            precedence,
            size_of(parts) // size_of(taken[factor]),
            factor,
            len(parts),
            parts,
        )

    majors = _majors(tensors, rule)

    def can_be_split(candidate: Candidate) -> bool:
        """Test whether the factors major to the factor in any dimension are fully split."""
        return all(size_of(taken[major]) == rule.sizes[major] for major in majors[candidate[0]])

    while best := max(filter(can_be_split, votes), key=rank, default=None):
        factor, parts = best
        taken[factor] = parts
        votes = _left(votes, factor, taken)
    return _moved(taken, tensors, rule)


def _left(votes: dict[Candidate, int], chosen: int, taken: Sequence[Parts]) -> dict[Candidate, int]:
    """Return the candidates that still fit after one for a factor was taken."""
    remaining: dict[Candidate, int] = {}
    for (factor, parts), count in votes.items():
        key = factor, parts if factor == chosen else _free(parts, taken[chosen])
        if key[1] != taken[factor] and shared_prefix(taken[factor], key[1]) == taken[factor]:
            remaining[key] = max(count, remaining.get(key, 0))
    return remaining


def _moved(taken: list[Parts], tensors: Sequence[Tensor], rule: ShardingRule) -> list[Parts]:
    """Move axes of factors that must stay whole to factors of all tensors that they divide."""
    arrays = [tensor for tensor in tensors if tensor.dimensions]
    targets = [
        factor
        for factor in range(len(rule.sizes))
        if rule.kind(factor) == PASS_THROUGH and all(factor in array.factors for array in arrays)
    ]
    for whole in sorted(rule.need_replication):
        axes, taken[whole] = list(taken[whole]), ()
        for factor in targets:
            size = rule.sizes[factor]
            while axes and size % (size_of(taken[factor]) * axes[0].size) == 0:
                taken[factor] = tuple(merged([*taken[factor], axes.pop(0)]))
    return taken
