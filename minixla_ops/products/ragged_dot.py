"""RaggedDot: products of groups of rows, of different sizes, with separate operands."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, register
from minixla.core.attributes import Attribute, Integers, attribute, written_fields
from minixla.typing import Array
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.shorthand import array_shape, full_like, zeros
from minixla_ops.products.dot import Dot, DotGeneral
from minixla_ops.products.dot_dimensions import DotDimensions, batched_numbers
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.lowering import Lowered


class RaggedDotDimensionNumbers(NamedTuple):
    """The contracting, batch, ragged and group dimensions of a ragged product.

    Attributes:
        dot_dimension_numbers: a DotDimensionNumbers, or JAX's pair of pairs.
        lhs_ragged_dimensions: the one dimension of lhs that is split into groups.
        rhs_group_dimensions: the dimension of rhs that indexes the groups, if the ragged dimension
            is neither a contracting nor a batch dimension.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int] = ()


class RaggedDimensions(Attribute):
    """RaggedDotDimensionNumbers of minixla or JAX."""

    is_ambiguous = False
    description = "RaggedDotDimensionNumbers"

    def canonical(self, value: object) -> RaggedDotDimensionNumbers:
        names = RaggedDotDimensionNumbers._fields
        if not all(hasattr(value, name) for name in names):
            raise TypeError(f"must be RaggedDotDimensionNumbers, not {value!r}")
        numbers, *lists = (getattr(value, name) for name in names)
        dot = DotDimensions().canonical(numbers)
        return RaggedDotDimensionNumbers(dot, *map(Integers().canonical, lists))

    def read(self, written: str) -> RaggedDotDimensionNumbers:
        fields = written_fields(written)
        lists = [fields.get(name, ()) for name in RaggedDotDimensionNumbers._fields[1:]]
        return RaggedDotDimensionNumbers(DotDimensions().read(written), *lists)

    def hlo(self, value: RaggedDotDimensionNumbers) -> dict[str, Sequence[int] | None]:
        numbers, ragged, groups = value
        attributes = {"lhs_ragged_dims": ragged, "rhs_group_dims": groups or None}
        return {**DotDimensions().hlo(numbers), **attributes}


@register
class RaggedDot(Lowered, Dot):
    """Multiply by groups of rows along a ragged dimension of lhs. XLA: RaggedDot.

    Group g has group_sizes[g] consecutive elements. Elements after the last group are in no group.

    - If the ragged dimension m is free: [b..., m..., k...] x [g, b..., k..., n...] -> [b..., m...,
      n...]. Each group of rows is multiplied with its rhs; rows in no group are zero.
    - If it is a contracting dimension k: [b..., m..., k...] x [b..., k..., n...] -> [g, b..., m...,
      n...], one sum for each group.
    - If it is a batch dimension: DotGeneral; groups have no effect, as in JAX.

    group_sizes is [g], or [p..., g] if sizes differ along p: the batch dimensions (up to the
    ragged one) and the free or contracting dimensions of lhs listed before the ragged one.

    Args:
        lhs: an array with any element type and one ragged dimension.
        rhs: an array with the same element type, or any if preferred_element_type is given.
        group_sizes: integers, the number of consecutive elements in each group.
        dimension_numbers: a RaggedDotDimensionNumbers.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to accumulate in and to return; default: the operands'.

    Returns:
        An array like the result of `dot_general`, without the group dimension of rhs. It has a
        leading dimension of groups if the ragged dimension is a contracting one.

    Checks:
        (C1) ... (C7) see Dot.
        (C8) there is one ragged dimension, which is a dimension of lhs.
        (C9) if the ragged dimension is free, there is one group dimension: a free one of rhs, which
             indexes the groups; else the list of group dimensions is empty.
        (C10) group_sizes are integers, [g] or [p..., g].

    Example:
        >>> numbers = ops.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> lhs, rhs = np.int32([[1], [2], [3]]), np.int32([[[1]], [[10]]])
        >>> ops.ragged_dot(lhs, rhs, np.int32([1, 2]), numbers)
        Array([[ 1],
               [20],
               [30]], dtype=int32)
    """

    operands = "lhs", "rhs", "group_sizes"
    dimension_numbers: RaggedDotDimensionNumbers = attribute(
        RaggedDimensions(), stablehlo="ragged_dot_dimension_numbers"
    )

    def shape(self, lhs, rhs, group_sizes):
        numbers, ragged, groups = self.dimension_numbers
        whole = self.dot_shape(lhs, rhs, numbers)
        if len(ragged) != 1 or not 0 <= ragged[0] < lhs.rank:
            problem = "lhs must have exactly one ragged dimension"
            self.refuse_attribute("C8", problem, f"It must be in [0, {lhs.rank}).")
        it = _Ragged(self.dimension_numbers, lhs.rank, rhs.rank)
        prefix = tuple([lhs.dimensions[dimension] for dimension in it.prefix])
        sizes = group_sizes.dimensions
        if not group_sizes.element_type.is_integer or sizes[:-1] not in ((), prefix) or not sizes:
            advice = f"They must be integers, [g] or [{', '.join(map(str, prefix))}, g]."
            self.refuse("C10", "group_sizes must match lhs", advice)
        if not it.is_kept and not groups:
            dimensions = whole.dimensions
            return whole.with_dimensions((sizes[-1], *dimensions) if it.is_summed else dimensions)
        counts = [rhs.dimensions[group] for group in groups if group in numbers.free(1, rhs.rank)]
        if not it.is_kept or len(groups) != 1 or counts != [sizes[-1]]:
            self.refuse("C9", "the group dimension of rhs does not match")
        return whole.without_dimension(it.group_place)

    def reference(self, lhs, rhs, group_sizes):
        it = _Ragged(self.dimension_numbers, lhs.ndim, rhs.ndim)
        numbers = self.dimension_numbers[0]
        counts = group_sizes.astype(np.int64)[..., None, :]
        ends = np.cumsum(counts, -1)
        positions = np.arange(lhs.shape[it.ragged])[:, None]
        members = (ends - counts <= positions) & (positions < ends)
        places = it.places(members.ndim)
        if it.is_summed:
            numbers, _ = batched_numbers(numbers, (0, 0), (0, 0))
            lhs = _only(members, [*[place + 1 for place in places], 0], lhs[None])
            rhs = _only(members, [*[partner + 1 for partner in it.partners(places)], 0], rhs[None])
        whole = DotGeneral(numbers, None, self.preferred_element_type).reference(lhs, rhs)
        if not it.is_kept:
            return whole
        members_kept = _only(members, [*it.result_places(places), it.group_place], whole)
        return np.add.reduce(members_kept, it.group_place, whole.dtype)

    def lowered(self, lhs, rhs, group_sizes):
        it = _Ragged(self.dimension_numbers, array_shape(lhs).rank, array_shape(rhs).rank)
        numbers = self.dimension_numbers[0]
        others = self.precision_config, self.preferred_element_type
        if not it.is_kept and not it.is_summed:
            return ops.dot_general(lhs, rhs, numbers, *others)
        members = _members(group_sizes, array_shape(lhs).dimensions[it.ragged])
        places = it.places(array_shape(members).rank)
        if it.is_summed:
            # Mask both sides, so that infinities do not meet zeros of other groups.
            lhs = _by_group(lhs, members, places)
            rhs = _by_group(rhs, members, it.partners(places))
            by_group, _ = batched_numbers(numbers, (0, 0), (0, 0))
            return ops.dot_general(lhs, rhs, by_group, *others)
        # Multiply each row with all groups' operands, and keep the matching products.
        whole = ops.dot_general(lhs, rhs, numbers, *others)
        shape, at = array_shape(whole), it.group_place
        mask = ops.broadcast_in_dim(members, shape.dimensions, [*it.result_places(places), at])
        return sum_over(ops.select(mask, whole, zeros(shape)), [at])


class _Ragged:
    """Properties of the dimension numbers with one ragged dimension of lhs."""

    def __init__(self, numbers: RaggedDotDimensionNumbers, lhs_rank: int, rhs_rank: int) -> None:
        self._numbers, (self.ragged,), groups = numbers
        lhs_contracting, _, lhs_batch, _ = self._numbers
        free, others = self._numbers.free(0, lhs_rank), self._numbers.free(1, rhs_rank)
        self.is_kept, self.is_summed = self.ragged in free, self.ragged in lhs_contracting
        candidates = free if self.is_kept else lhs_contracting if self.is_summed else lhs_batch
        before = candidates[: candidates.index(self.ragged)]
        # The dimensions of lhs along which group sizes may differ.
        self.prefix = (*lhs_batch, *before) if self.is_kept or self.is_summed else before
        # The position of the group dimension of rhs in DotGeneral's result, or -1.
        first = lhs_rank - len(lhs_contracting)
        self.group_place = first + others.index(groups[0]) if set(groups) & set(others) else -1

    def places(self, rank: int) -> list[int]:
        """Return the dimensions of lhs in a mask [p..., ragged, g] of `rank`, except the last."""
        return [*(self.prefix if rank > 2 else ()), self.ragged]

    def partners(self, places: Sequence[int]) -> list[int]:
        """Return the dimensions of rhs paired with contracting and batch dimensions of lhs."""
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = self._numbers
        lhs_side, others = (*lhs_contracting, *lhs_batch), (*rhs_contracting, *rhs_batch)
        return [others[lhs_side.index(place)] for place in places]

    def result_places(self, places: Sequence[int]) -> Sequence[int]:
        """Return the positions of dimensions of lhs in the result, for a free ragged dimension."""
        last = len(self.prefix)
        return range(last + 1) if len(places) > 1 else [last]


def _only(mask: np.ndarray, places: Sequence[int], array: np.ndarray) -> np.ndarray:
    """Return `array` where a mask with dimensions `places` is true, and zeros elsewhere."""
    others = [index for index in range(array.ndim) if index not in places]
    placed = np.expand_dims(mask.transpose(np.argsort(places)), others)
    return np.where(placed, array, np.zeros((), array.dtype))


def _members(group_sizes: Array, size: int) -> Array:
    """Return whether indices along the ragged dimension are in groups: pred[p..., size, g]."""
    if array_shape(group_sizes).element_type.bits >= 32:  # so that sums fit
        group_sizes = ops.min(group_sizes, full_like(group_sizes, size))
    counts = convert(group_sizes, ELEMENT_TYPES["s32"])
    shape = array_shape(counts)
    *outer, groups = shape.dimensions
    ones, width = [1] * shape.rank, max(groups, 1)
    last = [*[(0, 0)] * len(outer), (width - 1, 0)]
    ends = ops.reduce_window(counts, 0, ops.add, [*ones[1:], width], ones, last)
    sizes = (*outer, size, groups)
    kept = (*range(len(outer)), len(outer) + 1)
    position = ops.iota(shape.with_dimensions(sizes), len(outer))
    first, end = (ops.broadcast_in_dim(bounds, sizes, kept) for bounds in (ends - counts, ends))
    return ops.and_(ops.ge(position, first), ops.lt(position, end))


def _by_group(value: Array, members: Array, places: Sequence[int]) -> Array:
    """Repeat `value` for each group, [g, *sizes], with zeros for elements of other groups."""
    *_, groups = array_shape(members).dimensions
    sizes = (groups, *array_shape(value).dimensions)
    mapping = [*[place + 1 for place in places], 0]
    order = sorted(range(len(mapping)), key=mapping.__getitem__)
    mask = ops.broadcast_in_dim(ops.transpose(members, order), sizes, sorted(mapping))
    spread = ops.broadcast_in_dim(value, sizes, range(1, len(sizes)))
    return ops.select(mask, spread, zeros(array_shape(spread)))
