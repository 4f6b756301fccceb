"""RaggedDot: products in which groups of rows, of different sizes, have their own operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Attribute, Integers, Optional, TypeAttribute
from minixla.core.element_types import ELEMENT_TYPES, ElementType
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.binary import add
from minixla_ops.bitwise import and_
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import ge, lt
from minixla_ops.composed import Composed
from minixla_ops.creation import iota
from minixla_ops.dot import Dot, DotGeneral, dot_general
from minixla_ops.dot_dimensions import DotDimensionNumbers, DotDimensions, free_dimensions
from minixla_ops.operators import convert
from minixla_ops.products import Precision, PrecisionAttribute
from minixla_ops.reduce_window import reduce_window
from minixla_ops.reshaping import transpose
from minixla_ops.rules import array_shape, sum_over, zeros
from minixla_ops.selection import select

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot"]


class RaggedDotDimensionNumbers(NamedTuple):
    """Which dimensions of the operands are summed over, shared, or cut into groups.

    Attributes:
        dot_dimension_numbers: a DotDimensionNumbers, or JAX's pair of pairs.
        lhs_ragged_dimensions: the one dimension of lhs that is cut into groups.
        rhs_group_dimensions: the dimension of rhs that numbers the groups, where the ragged one
            is neither a contracting nor a batch dimension.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int] = ()


class RaggedDimensions(Attribute):
    """The RaggedDotDimensionNumbers, ours or JAX's."""

    is_ambiguous = False
    description = "RaggedDotDimensionNumbers"

    def canonical(self, value: Any) -> RaggedDotDimensionNumbers:
        """The RaggedDotDimensionNumbers, its fields DotDimensionNumbers and tuples of integers."""
        names = RaggedDotDimensionNumbers._fields
        if not all(hasattr(value, name) for name in names):
            raise TypeError(f"must be RaggedDotDimensionNumbers, not {value!r}")
        numbers, *lists = (getattr(value, name) for name in names)
        dot = DotDimensions().canonical(numbers)
        return RaggedDotDimensionNumbers(dot, *map(Integers().canonical, lists))


@register
class RaggedDot(Composed, Dot):
    """DotGeneral by groups of neighbours along a ragged dimension of lhs. XLA: RaggedDot.

    With sizes group_sizes[g], group 0 comes first. Elements behind the last group belong to none.

    - The ragged dimension m is kept: [b..., m..., k...] x [g, b..., k..., n...] -> [b..., m...,
      n...], each group of rows times its own rhs; rows of no group are zero.
    - It is a contracting dimension k: [b..., m..., k...] x [b..., k..., n...] -> [g, b..., m...,
      n...], a sum for each group.
    - It is a batch dimension: DotGeneral; groups make no difference, as in JAX.

    group_sizes is [g], or [p..., g] where sizes differ along the batch dimensions (up to the
    ragged one) and the kept or contracting dimensions of lhs listed before the ragged one.

    Attributes:
        dimension_numbers: a RaggedDotDimensionNumbers.
        precision_config, preferred_element_type: see DotGeneral.

    Checks:
        (C1) ... (C7) see Dot.
        (C8) there is one ragged dimension, and it is one of lhs.
        (C9) one group dimension where the ragged one is kept: a kept one of rhs, with one element
            for each group; else none.
        (C10) group_sizes are integers, [g] or [p..., g].
    """

    operand_names = ("lhs", "rhs", "group_sizes")
    attributes = {
        "dimension_numbers": RaggedDimensions(),
        "precision_config": Optional(PrecisionAttribute()),
        "preferred_element_type": Optional(TypeAttribute()),
    }

    def shape(
        self,
        lhs: Any,
        rhs: Any,
        group_sizes: Any,
        /,
        *,
        dimension_numbers: RaggedDotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Shape:
        lhs, rhs, group_sizes = self.array_shapes([lhs, rhs, group_sizes])
        numbers, ragged_dimensions, group_dimensions = dimension_numbers
        given = [f"lhs {lhs}", f"rhs {rhs}", f"group_sizes {group_sizes}", f"{dimension_numbers}"]
        whole = self.dot_shape(lhs, rhs, numbers, preferred_element_type)
        if len(ragged_dimensions) != 1 or not 0 <= ragged_dimensions[0] < lhs.rank:
            self.reject_attribute("C8", "there is not one ragged dimension of lhs", given,
                                  f"It must be in [0, {lhs.rank}).")  # fmt: skip
        it = _Ragged(dimension_numbers, lhs.rank, rhs.rank)
        prefix = tuple([lhs.dimensions[each] for each in it.prefix])
        sizes = group_sizes.dimensions
        if not group_sizes.element_type.is_integer or sizes[:-1] not in ((), prefix) or not sizes:
            advice = f"They must be integers, [g] or [{', '.join(map(str, prefix))}, g]."
            self.reject("C10", "group_sizes do not fit lhs", given, advice)
        if not it.is_kept and not group_dimensions:
            dimensions = whole.dimensions
            return whole.with_dimensions((sizes[-1], *dimensions) if it.is_summed else dimensions)
        free = free_dimensions(rhs.rank, numbers[1], numbers[3])
        if not it.is_kept or len(group_dimensions) != 1 or group_dimensions[0] not in free or (
            rhs.dimensions[group_dimensions[0]] != sizes[-1]
        ):  # fmt: skip
            self.reject("C9", "the group dimension of rhs does not fit", given,
                        "It numbers the groups where the ragged dimension of lhs is neither "
                        "contracting nor batch.")  # fmt: skip
        return whole.without_dimension(it.group_place)

    def reference(
        self,
        lhs: np.ndarray,
        rhs: np.ndarray,
        group_sizes: np.ndarray,
        /,
        *,
        dimension_numbers: RaggedDotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> np.ndarray:
        it = _Ragged(dimension_numbers, lhs.ndim, rhs.ndim)
        numbers = dimension_numbers[0]
        counts = group_sizes.astype(np.int64)[..., None, :]
        ends = np.cumsum(counts, -1)
        positions = np.arange(lhs.shape[it.ragged])[:, None]
        members = (ends - counts <= positions) & (positions < ends)
        places = it.places(members.ndim)
        if it.is_summed:
            numbers = _with_groups(numbers)
            lhs, rhs = (
                _only(members, [*[each + 1 for each in at], 0], array[None])
                for array, at in ((lhs, places), (rhs, it.partners(places)))
            )
        whole = DotGeneral.instance.reference(
            lhs,
            rhs,
            dimension_numbers=numbers,
            precision_config=None,
            preferred_element_type=preferred_element_type,
        )
        if not it.is_kept:
            return whole
        own = _only(members, [*it.result_places(places), it.group_place], whole)
        return np.add.reduce(own, it.group_place, whole.dtype)

    def composition(
        self,
        lhs: Any,
        rhs: Any,
        group_sizes: Any,
        /,
        *,
        dimension_numbers: RaggedDotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Any:
        it = _Ragged(dimension_numbers, array_shape(lhs).rank, array_shape(rhs).rank)
        numbers, others = dimension_numbers[0], (precision_config, preferred_element_type)
        if not it.is_kept and not it.is_summed:
            return dot_general(lhs, rhs, numbers, *others)
        members = _members(group_sizes, array_shape(lhs).dimensions[it.ragged])
        places = it.places(array_shape(members).rank)
        if it.is_summed:
            # Both sides, so that no infinity meets the zeros of the other groups.
            lhs = _by_group(lhs, members, places)
            rhs = _by_group(rhs, members, it.partners(places))
            return dot_general(lhs, rhs, _with_groups(numbers), *others)
        # Each row times all groups' operands; the right ones are kept.
        whole = dot_general(lhs, rhs, numbers, *others)
        shape, at = array_shape(whole), it.group_place
        mask = broadcast_in_dim(members, shape.dimensions, [*it.result_places(places), at])
        return sum_over(select(mask, whole, zeros(shape)), [at])

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        /,
        *,
        dimension_numbers: RaggedDotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> dict[str, Any]:
        return {
            **self.dot_hlo(dimension_numbers[0], precision_config),
            "lhs_ragged_dims": dimension_numbers.lhs_ragged_dimensions,
            "rhs_group_dims": dimension_numbers.rhs_group_dimensions or None,
        }


class _Ragged:
    """What follows from the dimension numbers.

    Attributes:
        ragged: the ragged dimension of lhs.
        is_kept, is_summed: whether it is neither a contracting nor a batch dimension; whether it
            is a contracting one.
        prefix: the dimensions of lhs along which group sizes may differ.
        group_place: where DotGeneral puts the group dimension of rhs, if there is one.
    """

    def __init__(
        self, dimension_numbers: RaggedDotDimensionNumbers, lhs_rank: int, rhs_rank: int
    ) -> None:
        numbers, (self.ragged,), groups = dimension_numbers
        self._numbers = numbers
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = numbers
        free = free_dimensions(lhs_rank, lhs_contracting, lhs_batch)
        self.is_kept, self.is_summed = self.ragged in free, self.ragged in lhs_contracting
        own = free if self.is_kept else lhs_contracting if self.is_summed else lhs_batch
        before = own[: own.index(self.ragged)]
        self.prefix = (*lhs_batch, *before) if self.is_kept or self.is_summed else before
        others = free_dimensions(rhs_rank, rhs_contracting, rhs_batch)
        first = lhs_rank - len(lhs_contracting)
        self.group_place = first + others.index(groups[0]) if set(groups) & set(others) else -1

    def places(self, rank: int) -> list[int]:
        """The dimensions of lhs that a mask [p..., ragged, g] of `rank` has, without the last."""
        return [*(self.prefix if rank > 2 else ()), self.ragged]

    def partners(self, places: Sequence[int]) -> list[int]:
        """The dimensions of rhs that contracting and batch dimensions of lhs are paired with."""
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = self._numbers
        pairs = zip((*lhs_contracting, *lhs_batch), (*rhs_contracting, *rhs_batch), strict=True)
        partner = dict(pairs)
        return [partner[each] for each in places]

    def result_places(self, places: Sequence[int]) -> Sequence[int]:
        """Where the result has those dimensions of lhs, for a ragged dimension that is kept."""
        last = len(self.prefix)
        return range(last + 1) if len(places) > 1 else [last]


def _with_groups(numbers: DotDimensionNumbers) -> DotDimensionNumbers:
    """The numbers for operands with one more batch dimension in front."""
    contracting, batch = (
        [[each + 1 for each in named] for named in pair] for pair in (numbers[:2], numbers[2:])
    )
    return DotDimensionNumbers(*contracting, *[(0, *each) for each in batch])


def _only(mask: np.ndarray, places: Sequence[int], array: np.ndarray) -> np.ndarray:
    """`array` where a mask holds, whose dimensions are at `places`, and zeros elsewhere."""
    others = [each for each in range(array.ndim) if each not in places]
    placed = np.expand_dims(mask.transpose(np.argsort(places)), others)
    return np.where(placed, array, np.zeros((), array.dtype))


def _members(group_sizes: Any, size: int) -> Any:
    """Whether an index along the ragged dimension is in a group: pred[p..., size, g]."""
    counts = convert(group_sizes, ELEMENT_TYPES["s32"])
    shape = array_shape(counts)
    *outer, groups = shape.dimensions
    ones, last = [1] * shape.rank, [*[(0, 0)] * len(outer), (max(groups - 1, 0), 0)]
    ends = counts
    if groups > 1:
        ends = reduce_window(counts, 0, add, [*ones[1:], groups], ones, last)
    sizes = (*outer, size, groups)
    kept = (*range(len(outer)), len(outer) + 1)
    position = iota(shape.with_dimensions(sizes), len(outer))
    first, end = (broadcast_in_dim(each, sizes, kept) for each in (ends - counts, ends))
    return and_(ge(position, first), lt(position, end))


def _by_group(value: Any, members: Any, places: Sequence[int]) -> Any:
    """[g, *sizes] of `value`: zero where an element is not in the group."""
    *_, groups = array_shape(members).dimensions
    sizes = (groups, *array_shape(value).dimensions)
    mapping = [*[each + 1 for each in places], 0]
    order = sorted(range(len(mapping)), key=mapping.__getitem__)
    mask = broadcast_in_dim(transpose(members, order), sizes, sorted(mapping))
    spread = broadcast_in_dim(value, sizes, range(1, len(sizes)))
    return select(mask, spread, zeros(array_shape(spread)))


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    dimension_numbers: Any,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The products of groups of rows of lhs with operands of their own, or sums by group.

    Args:
        lhs: an array of any element type, one dimension of which is ragged.
        rhs: an array of the same element type.
        group_sizes: integers, how many neighbours along the ragged dimension are in each group.
        dimension_numbers: a RaggedDotDimensionNumbers.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        An array as `dot_general` gives it, without the group dimension of rhs; with a leading
        dimension of groups where the ragged dimension is a contracting one.

    Raises:
        AttributeValueError, ShapeError: see RaggedDot.
    """
    return bind(
        RaggedDot.instance,
        lhs,
        rhs,
        group_sizes,
        dimension_numbers=dimension_numbers,
        precision_config=precision_config,
        preferred_element_type=preferred_element_type,
    )
