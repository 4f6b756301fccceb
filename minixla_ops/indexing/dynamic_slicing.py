"""DynamicSlice and DynamicUpdateSlice: boxes at positions known only at run time."""

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register, shape_of
from minixla.core.attributes import Integers, attribute
from minixla.core.builders import builds
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION
from minixla.typing import Array, ArrayLike
from minixla_ops.helpers.batch_dimensions import batch_size, member_shapes, move_batch
from minixla_ops.helpers.casting import emit_converted
from minixla_ops.helpers.shorthand import array_shape, holds, listed, operand_list, splat, zeros
from minixla_ops.indexing.gather import Gather
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.indexing.scatter import Scatter
from minixla_ops.indexing.scatter_computations import overwrite
from minixla_ops.indexing.window_bounds import clamped_starts
from minixla_ops.movement.slicing import box, inserted
from minixla_ops.programs.computations import computation_of


class AtStartIndices(Operation):
    """Base class of operations with start indices, clamped to [0, operand size - box size]."""

    def check_starts(self, label: str, operand: Shape, starts: Sequence[Shape]) -> None:
        """Raise ShapeError unless there is one integer scalar per dimension, all of one type."""
        advice = "Pass one integer scalar for each dimension."
        if len(starts) != operand.rank:
            self.refuse(
                label,
                f"there are {len(starts)} start indices for an operand of rank {operand.rank}",
            )
        for start in starts:
            if start.rank or not start.element_type.is_integer:
                self.refuse(label, f"a start index must be an integer scalar, not {start}")
            if start is not starts[0]:
                advice = "Convert them to the same integer type with convert_element_type."
                self.refuse(label, "the start indices must have equal types", advice)

    def check_sizes(self, label: str, operand: Shape, sizes: Sequence[int]) -> None:
        """Raise ShapeError unless the box has the operand's rank and fits into it."""
        if len(sizes) != operand.rank:
            self.refuse(label, f"the box has {len(sizes)} dimensions, the operand {operand.rank}")
        advice = "The box must fit into the operand; only its position is clamped."
        for at, (size, limit) in enumerate(zip(sizes, operand.dimensions, strict=True)):
            if size > limit:
                problem = f"the box has size {size} in dimension {at}, the operand has {limit}"
                self.refuse(label, problem, advice)

    def stablehlo(self, emit, operands, shapes, results):
        # XLA wraps the limit of the clamp in a narrow type, and misreads 2-bit and 4-bit types.
        first = len(self.operands) - 1
        starts = shapes[first:]
        wide = [start if start.element_type.bits >= 32 else Shape("s32") for start in starts]
        types = [*shapes[:first], *wide]
        converted = emit_converted(emit, operands, shapes, types)
        return super().stablehlo(emit, converted, types, results)


def _clamped_box(
    operand: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]
) -> tuple[EllipsisType | slice, ...]:
    """Return the clamped box as an index of `operand`."""
    rows = zip(operand.shape, starts, sizes, strict=True)
    pairs = [(min(max(int(start), 0), whole - size), size) for whole, start, size in rows]
    return box([(first, first + size) for first, size in pairs])


@register
class DynamicSlice(AtStartIndices):
    """Extract a box of static sizes at start indices known at run time. XLA: DynamicSlice.

    out[i...] = operand[s[d] + i[d], ...], s[d] = clamp(start_indices[d], 0, operand size - size).

    Args:
        operand: an array with N dimensions.
        start_indices: N integer scalars with equal types; Python ints take the type of the others.
        slice_sizes: N sizes, not larger than the operand's.

    Returns:
        An array with the sizes slice_sizes.

    Checks:
        (C1) start_indices has one integer scalar for each dimension, all of one type.
        (C2) slice_sizes has one size for each dimension, not larger than the operand's.

    Example:
        >>> ops.dynamic_slice(np.int32([1, 2, 3, 4]), [np.int32(1)], (2,))
        Array([2, 3], dtype=int32)
    """

    stablehlo_name = "dynamic_slice"
    operands = "operand", "start_indices..."
    slice_sizes: tuple[int, ...] = attribute(Integers(minimum=0), hlo="dynamic_slice_sizes")
    linear_operands = (0,)

    def shape(self, operand, *starts):
        self.check_starts("C1", operand, starts)
        self.check_sizes("C2", operand, self.slice_sizes)
        whole = zip(operand.dynamic, operand.dimensions, self.slice_sizes, strict=True)
        dynamic = [flag and one == other for flag, one, other in whole]
        return Shape(operand.element_type, self.slice_sizes, dynamic)

    def reference(self, operand, *starts):
        return operand[_clamped_box(operand, starts, self.slice_sizes)]

    def transpose(self, cotangents, operands, linear):
        operand, *starts = operands
        spread = dynamic_update_slice(zeros(array_shape(operand)), cotangents, starts)
        return (spread, *[None] * len(starts))

    def batch(self, operands, dimensions):
        (operand, *starts), (at, *starts_at) = operands, dimensions
        if any(at is not None for at in starts_at):
            whole = tuple(range(len(starts)))
            gather = Gather(GatherDimensionNumbers(whole, (), whole, 0), self.slice_sizes)
            vectors = _index_vectors(starts, starts_at, batch_size(operands, dimensions))
            return gather.batch([operand, vectors], [at, 0])  # gather clamps, too
        assert at is not None
        sizes = inserted(self.slice_sizes, at, array_shape(operand).dimensions[at])
        return dynamic_slice(operand, inserted(starts, at, 0), sizes), at

    def sharding_rule(self, *operands):
        return self.sharding_factors(operands).resized(NEED_REPLICATION, blocked=True).build()


@builds(DynamicSlice)
def dynamic_slice(
    operand: ArrayLike, start_indices: Sequence[ArrayLike], slice_sizes: Sequence[int]
) -> Array:
    starts = _of_one_type(operand_list(start_indices, "dynamic_slice", "start_indices"))
    return DynamicSlice(listed(slice_sizes))(operand, *starts)


@register
class DynamicUpdateSlice(AtStartIndices):
    """Overwrite a box of an array at start indices known at run time. XLA: DynamicUpdateSlice.

    The result is operand, except that result[s[d] + i[d], ...] = update[i...], where
    s[d] = clamp(start_indices[d], 0, operand size - update size).

    Args:
        operand: an array with N dimensions.
        update: an array with the same element type and rank, not larger in any dimension.
        start_indices: N integer scalars with equal types; Python ints take the type of the others.

    Returns:
        An array with the operand's shape.

    Checks:
        (C1) start_indices has one integer scalar for each dimension, all of one type.
        (C2) update has the operand's element type.
        (C3) update has the operand's rank, and its sizes do not exceed the operand's.

    Example:
        >>> ops.dynamic_update_slice(np.int32([1, 2, 3, 4]), np.int32([8, 9]), [np.int32(1)])
        Array([1, 8, 9, 4], dtype=int32)
    """

    stablehlo_name = "dynamic_update_slice"
    operands = "operand", "update", "start_indices..."
    linear_operands = (0, 1)

    def shape(self, operand, update, *starts):
        self.check_starts("C1", operand, starts)
        if update.element_type is not operand.element_type:
            problem = "operand and update must have equal element types"
            self.refuse("C2", problem, "Convert one side with convert_element_type.")
        self.check_sizes("C3", operand, update.dimensions)
        return operand

    def reference(self, operand, update, *starts):
        result = np.array(operand)  # a copy; operand may be a NumPy scalar
        result[_clamped_box(operand, starts, update.shape)] = update
        return result

    def transpose(self, cotangents, operands, linear):
        _, update, *starts = operands
        shape = array_shape(update)
        return [
            dynamic_update_slice(cotangents, zeros(shape), starts) if linear[0] else None,
            dynamic_slice(cotangents, starts, shape.dimensions) if linear[1] else None,
            *[None] * len(starts),
        ]

    def batch(self, operands, dimensions):
        (operand, update, *starts), (at, update_at, *starts_at) = operands, dimensions
        size = batch_size(operands, dimensions)
        if any(at is not None for at in starts_at):
            one, box_of_one = map(array_shape, member_shapes(operands, dimensions)[:2])
            whole = tuple(range(one.rank))
            numbers = ScatterDimensionNumbers(whole, (), whole, 0)
            computation = computation_of(overwrite, [Shape(one.element_type)] * 2, self.name)
            scatter = Scatter(numbers, computation, unique_indices=True, indices_in_bounds=True)
            windows = numbers._replace(index_vector_dim=1), one.dimensions, box_of_one.dimensions
            clamped = clamped_starts(_index_vectors(starts, starts_at, size), *windows)
            return scatter.batch([operand, clamped, update], [at, 0, update_at])
        operand, update = move_batch(operand, at, 0, size), move_batch(update, update_at, 0, size)
        return dynamic_update_slice(operand, update, [0, *starts]), 0

    def sharding_rule(self, operand, update, *starts):
        rule, others = self.sharding_factors((operand, update, *starts)), [ABSENT] * len(starts)
        for index, pair in enumerate(zip(operand.dimensions, update.dimensions, strict=True)):
            if pair[0] == pair[1]:
                rule.same(index, pair[0])
            else:
                rule.add([index, ABSENT, *others], [index], pair[0])
                rule.add([ABSENT, index, *others], [ABSENT], pair[1], NEED_REPLICATION)
        return rule.build()


@builds(DynamicUpdateSlice)
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Sequence[ArrayLike]
) -> Array:
    starts = _of_one_type(operand_list(start_indices, "dynamic_update_slice", "start_indices"))
    return DynamicUpdateSlice()(operand, update, *starts)


def _of_one_type(starts: Sequence[ArrayLike]) -> list[ArrayLike]:
    """Convert Python ints among start indices to the type of the others, if they fit."""
    shape = next((shape_of(start) for start in starts if type(start) is not int), None)
    if not isinstance(shape, Shape) or not shape.element_type.is_integer:
        return list(starts)
    kind, scalar = shape.element_type, Shape(shape.element_type)
    return [splat(s, scalar) if type(s) is int and holds(kind, s) else s for s in starts]


def _index_vectors(starts: Sequence[Array], dimensions: Sequence[int | None], size: int) -> Array:
    """Return the start indices of a batch as the rows of one array."""
    pairs = zip(starts, dimensions, strict=True)
    columns = [ops.reshape(move_batch(start, at, 0, size), (size, 1)) for start, at in pairs]
    return ops.concat_in_dim(columns, 1)
