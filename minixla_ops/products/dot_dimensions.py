"""DotDimensionNumbers, and the dimension numbers of derivatives and batches of products."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from minixla.core.attributes import Attribute, Integers, written_fields
from minixla_ops.helpers.batch_dimensions import shifted


class DotDimensionNumbers(NamedTuple):
    """The contracting and batch dimensions of a product's operands.

    Prints as in StableHLO: `batching_dims = [0] x [0], contracting_dims = [2] x [1]`.

    Attributes:
        lhs_contracting_dimensions: dimensions of lhs to sum over.
        rhs_contracting_dimensions: the dimensions of rhs that they are paired with.
        lhs_batch_dimensions: dimensions of lhs that index separate products.
        rhs_batch_dimensions: the dimensions of rhs that they are paired with.
    """

    lhs_contracting_dimensions: Sequence[int]
    rhs_contracting_dimensions: Sequence[int]
    lhs_batch_dimensions: Sequence[int] = ()
    rhs_batch_dimensions: Sequence[int] = ()

    def free(self, side: int, rank: int) -> tuple[int, ...]:
        """Return the dimensions of lhs (`side` 0) or rhs (1) that are not contracting or batch."""
        named = *self[side], *self[side + 2]
        return tuple([index for index in range(rank) if index not in named])

    def __str__(self) -> str:
        lhs, rhs, lhs_batch, rhs_batch = map(list, self)
        has_batch = lhs_batch or rhs_batch
        batch = f"batching_dims = {lhs_batch} x {rhs_batch}, " if has_batch else ""
        return f"{batch}contracting_dims = {lhs} x {rhs}"


class DotDimensions(Attribute):
    """DotDimensionNumbers, or the argument of JAX's dot_general."""

    is_ambiguous = False
    description = (
        "DotDimensionNumbers, or ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))"
    )

    def canonical(self, value: Any) -> DotDimensionNumbers:
        fields = list(value)
        if len(fields) == 2:
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = fields
            fields = [lhs_contracting, rhs_contracting, lhs_batch, rhs_batch]
        if len(fields) != 4:
            raise TypeError(f"there must be four lists of dimensions, not {len(fields)}")
        return DotDimensionNumbers(*map(Integers().canonical, fields))

    def stablehlo(self, value: DotDimensionNumbers) -> str:
        return str(value)

    def read(self, written: str) -> DotDimensionNumbers:
        fields = written_fields(written)
        names = [field.replace("batch", "batching") for field in DotDimensionNumbers._fields]
        return DotDimensionNumbers(*[fields.get(name, ()) for name in names])

    def hlo(self, value: DotDimensionNumbers) -> dict[str, Sequence[int] | None]:
        """Return `lhs_batch_dims={0}`, `lhs_contracting_dims={2}` and so on, without empty ones."""
        fields = sorted(value._asdict().items())
        return {name.replace("dimensions", "dims"): numbers or None for name, numbers in fields}


@lru_cache(maxsize=4096)
def transposed_numbers(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], index: int, is_larger: bool
) -> tuple[bool, DotDimensionNumbers, tuple[int, ...] | None]:
    """Express the cotangent of operand `index` as a product of the result's and the other operand.

    Returns whether the other operand comes first, the dimension numbers, and the permutation to the
    operand's order, or None for the identity. `ranks` are those of the operand and of the other
    operand. Backends copy the first operand if it is not summed over its last dimensions:
    `is_larger` says whether the other operand is larger than the cotangent.
    """
    contracting, batch = numbers[index::2]
    other_contracting, other_batch = numbers[1 - index :: 2]
    free, other_free = numbers.free(index, ranks[0]), numbers.free(1 - index, ranks[1])
    # The positions of the other operand's free dimensions in the result.
    start = len(batch) + (0 if index else len(free))
    summed = tuple(range(start, start + len(other_free)))
    common = tuple(range(len(batch)))
    # The result has the contracting dimensions in the other operand's order.
    restored = [
        dimension for _, dimension in sorted(zip(other_contracting, contracting, strict=True))
    ]
    after = _permutation((*batch, *free, *restored))
    before = _permutation((*batch, *restored, *free))
    is_copied = other_free != tuple(range(ranks[1] - len(other_free), ranks[1]))
    if after is not None and before is None and not (is_copied and is_larger):
        return True, DotDimensionNumbers(other_free, summed, other_batch, common), None
    return False, DotDimensionNumbers(summed, other_free, common, other_batch), after


def _permutation(order: Sequence[int]) -> tuple[int, ...] | None:
    """Return the transposition that sorts dimensions in `order`; None if they are sorted."""
    permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
    return permutation if list(permutation) != sorted(order) else None


@lru_cache(maxsize=4096)
def batched_numbers(
    numbers: DotDimensionNumbers, ranks: tuple[int, int], dimensions: tuple[int | None, int | None]
) -> tuple[DotDimensionNumbers, int]:
    """Return the dimension numbers over a batch, and the batch dimension of the result.

    A batch of both operands is one more batch dimension; a batch of one operand is one more free
    dimension. `ranks` include the batch; `dimensions` are the batch dimensions or None.
    """
    lhs_at, rhs_at = dimensions
    lhs_contracting, lhs_batch = (shifted(number, lhs_at) for number in numbers[0::2])
    rhs_contracting, rhs_batch = (shifted(number, rhs_at) for number in numbers[1::2])
    if lhs_at is not None and rhs_at is not None:
        lhs_batch, rhs_batch = (lhs_at, *lhs_batch), (rhs_at, *rhs_batch)
    batched = DotDimensionNumbers(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)
    kept = [*lhs_batch, *batched.free(0, ranks[0])]  # of lhs; the free dimensions of rhs follow
    if lhs_at is None:
        return batched, len(kept) + batched.free(1, ranks[1]).index(rhs_at)
    return batched, kept.index(lhs_at)
