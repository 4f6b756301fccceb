"""DotDimensionNumbers, and how derivatives and batches of products change them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from minixla.core.attributes import Attribute, Integers

__all__ = [
    "DotDimensionNumbers",
    "DotDimensions",
    "batched_numbers",
    "free_dimensions",
    "transposed_numbers",
]


class DotDimensionNumbers(NamedTuple):
    """Which dimensions of the operands are summed over, and which they have in common.

    Attributes:
        lhs_contracting_dimensions: dimensions of lhs to sum over.
        rhs_contracting_dimensions: the dimension of rhs that each of those is paired with.
        lhs_batch_dimensions: dimensions of lhs that index separate products.
        rhs_batch_dimensions: the dimension of rhs that each of those is paired with.
    """

    lhs_contracting_dimensions: Sequence[int]
    rhs_contracting_dimensions: Sequence[int]
    lhs_batch_dimensions: Sequence[int] = ()
    rhs_batch_dimensions: Sequence[int] = ()


class DotDimensions(Attribute):
    """The DotDimensionNumbers; also in the form in which JAX's dot_general takes them."""

    is_ambiguous = False

    description = (
        "DotDimensionNumbers, or ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))"
    )

    def canonical(self, value: Any) -> DotDimensionNumbers:
        """The DotDimensionNumbers, its fields tuples of integers."""
        fields = list(value)
        if len(fields) == 2:
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = fields
            fields = [lhs_contracting, rhs_contracting, lhs_batch, rhs_batch]
        if len(fields) != 4:
            raise TypeError(f"there must be four lists of dimensions, not {len(fields)}")
        return DotDimensionNumbers(*map(Integers().canonical, fields))


def free_dimensions(rank: int, *named: Sequence[int]) -> tuple[int, ...]:
    """The dimensions that are in none of the lists."""
    return tuple([each for each in range(rank) if not any(each in some for some in named)])


@lru_cache(maxsize=4096)
def transposed_numbers(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], index: int, is_larger: bool
) -> tuple[bool, DotDimensionNumbers, tuple[int, ...] | None]:
    """How the cotangent of operand `index` is a product of the result's and the other operand.

    Args:
        numbers: those of the product that is transposed.
        ranks: of the operand, and of the other.
        index: 0 for lhs, 1 for rhs.
        is_larger: whether the other operand is larger than the cotangent. XLA:CPU copies what
            comes first where it sums over other dimensions than the last: that should be small.

    Returns:
        Whether the other operand comes first, the dimension numbers, and the permutation that
        brings the product's dimensions into the operand's order, or None where they are.
    """
    contracting, other_contracting = _own_first(numbers[:2], index)
    batch, other_batch = _own_first(numbers[2:], index)
    free = free_dimensions(ranks[0], contracting, batch)
    other_free = free_dimensions(ranks[1], other_contracting, other_batch)
    # Where the other operand's free dimensions are in the result.
    start = len(batch) + (0 if index else len(free))
    summed = tuple(range(start, start + len(other_free)))
    common = tuple(range(len(batch)))
    # Contracting dimensions come out in the other operand's order.
    pairs = sorted(zip(other_contracting, contracting, strict=True))
    restored = tuple([own for _, own in pairs])
    after = _permutation((*batch, *free, *restored))
    before = _permutation((*batch, *restored, *free))
    is_copied = other_free != tuple(range(ranks[1] - len(other_free), ranks[1]))
    if after is not None and before is None and not (is_copied and is_larger):
        return True, DotDimensionNumbers(other_free, summed, other_batch, common), None
    return False, DotDimensionNumbers(summed, other_free, common, other_batch), after


def _own_first(pair: Sequence[Any], index: int) -> Sequence[Any]:
    return pair[::-1] if index else pair


def _permutation(order: Sequence[int]) -> tuple[int, ...] | None:
    """The transposition that sorts dimensions given in `order`; None where they are sorted."""
    permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
    return None if permutation == tuple(range(len(order))) else permutation


@lru_cache(maxsize=4096)
def batched_numbers(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], dimensions: tuple[int | None, int | None]
) -> tuple[DotDimensionNumbers, int]:
    """The dimension numbers over a batch, and where the batch is in the result.

    A batch of both operands is one more batch dimension; of one operand, one more free dimension.

    Args:
        numbers: those of one member.
        ranks: of the operands, batch dimensions included.
        dimensions: where the batch is in each operand, or None.
    """
    lhs_dimension, rhs_dimension = dimensions
    lhs_contracting, lhs_batch = _shifted(numbers[0::2], lhs_dimension)
    rhs_contracting, rhs_batch = _shifted(numbers[1::2], rhs_dimension)
    if lhs_dimension is not None and rhs_dimension is not None:
        lhs_batch, rhs_batch = (lhs_dimension, *lhs_batch), (rhs_dimension, *rhs_batch)
        position = 0
    elif lhs_dimension is not None:
        free = free_dimensions(ranks[0], lhs_contracting, lhs_batch)
        position = len(lhs_batch) + free.index(lhs_dimension)
    else:
        assert rhs_dimension is not None
        free = free_dimensions(ranks[1], rhs_contracting, rhs_batch)
        position = ranks[0] - len(lhs_contracting) + free.index(rhs_dimension)
    return DotDimensionNumbers(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch), position


def _shifted(parts: Sequence[Sequence[int]], dimension: int | None) -> list[tuple[int, ...]]:
    """Dimension numbers of an array that has one more dimension at `dimension`."""
    if dimension is None:
        return [tuple(each) for each in parts]
    return [tuple([number + (number >= dimension) for number in each]) for each in parts]
