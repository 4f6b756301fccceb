"""Slice, Pad and ConcatInDim: extract boxes, pad around and between elements, join arrays."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, shape_of
from minixla.core import attributes as kinds
from minixla.core.attributes import Integers, attribute
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.sharding_rule import NEED_REPLICATION, PERMUTATION
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import dynamic_parts
from minixla_ops.helpers.batch_dimensions import align_batches, move_batch
from minixla_ops.helpers.shorthand import array_shape, splat, written, zeros, zeros_like
from minixla_ops.programs.computations import total

_T = TypeVar("_T")
Triples = tuple[tuple[int, int, int], ...]


@register
class Slice(Operation):
    """Extract a box, taking every strides[d]-th element of dimension d. XLA: Slice.

    out[i...] = operand[start_indices[d] + i[d] * strides[d], ...]; indices are not clamped.

    Args:
        operand: an array.
        start_indices: the first index of each dimension.
        limit_indices: the end index of each dimension, exclusive.
        strides: the step of each dimension; default 1.

    Returns:
        An array with the sizes of the box.

    Checks:
        (C1) each list has one entry for each dimension.
        (C2) 0 <= start <= limit <= size.
        (C3) strides are >= 1.
        (C4) dynamic dimensions are taken whole.

    Example:
        >>> ops.slice(np.int32([1, 2, 3, 4]), (1,), (4,), (2,))
        Array([2, 4], dtype=int32)
    """

    stablehlo_name = "slice"
    operands = ("operand",)
    start_indices: Sequence[int] = attribute(Integers())
    limit_indices: Sequence[int] = attribute(Integers())
    strides: Sequence[int] = attribute(Integers(), default=None)
    linear_operands = dynamic_operands = (0,)

    @classmethod
    def _canonical(cls, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        values_by_name = super()._canonical(values, named)
        if values_by_name["strides"] is None:
            values_by_name["strides"] = (1,) * len(values_by_name["start_indices"])
        return values_by_name

    def _ranges(self) -> Iterable[tuple[int, int, int]]:
        """Return the start, limit and stride of each dimension."""
        return zip(self.start_indices, self.limit_indices, self.strides, strict=True)

    def shape(self, operand):
        if {*map(len, self.values.values())} != {operand.rank}:
            self.refuse_attribute("C1", f"each list must have {operand.rank} entries")
        sizes = []
        for at, (start, limit, stride) in enumerate(self._ranges()):
            size = operand.dimensions[at]
            if not 0 <= start <= limit <= size:
                problem = f"[{start}, {limit}) is not within dimension {at} of size {size}"
                advice = "0 <= start <= limit <= size must hold; only dynamic_slice clamps."
                self.refuse_attribute("C2", problem, advice)
            if stride < 1:
                advice = "Strides must be positive; use rev to reverse."
                self.refuse_attribute("C3", "a stride is less than 1", advice)
            sizes.append(-(-(limit - start) // stride))
            if operand.dynamic[at] and (sizes[at], stride) != (size, 1):
                advice = "Set its size back to the bound with set_dimension_size, which pads"
                advice += "with zeros, or use dynamic_slice."
                self.refuse("C4", f"dynamic dimension {at} must be taken whole", advice)
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(self, operand):
        return operand[box(self._ranges())]

    def stablehlo(self, emit, operands, shapes, results):
        ranges = ", ".join([f"{start}:{limit}:{stride}" for start, limit, stride in self._ranges()])
        return written(emit, f"stablehlo.slice {operands[0]} [{ranges}]", shapes, results[0])

    def hlo_attributes(self, shapes):
        return {"slice": tuple([f"[{one}:{other}:{by}]" for one, other, by in self._ranges()])}

    def transpose(self, cotangents, operands, linear):
        config, (whole, cut) = [], map(array_shape, (operands[0], cotangents))
        columns = zip(self._ranges(), whole.dimensions, cut.dimensions, strict=True)
        for (start, _, stride), size, count in columns:
            end = start + (count - 1) * stride + 1 if count else start
            config.append((start, size - end, stride - 1))
        return (pad_with_zeros(cotangents, config),)

    def batch(self, operands, dimensions):
        at = dimensions[0] or 0
        size = array_shape(operands[0]).dimensions[at]
        pairs = zip(self.values.values(), (0, size, 1), strict=True)
        return ops.slice(
            operands[0], *[inserted(numbers, at, whole) for numbers, whole in pairs]
        ), at

    def sharding_rule(self, operand):
        return self.sharding_factors((operand,)).resized(PERMUTATION).build()


def slice_in_dim(
    operand: ArrayLike, start: int, limit: int, dimension: int, stride: int = 1
) -> Array:
    """Slice one dimension to the indices [start, limit), taking every `stride`-th of them.

    XLA: SliceInDim.

    Args:
        operand: an array.
        start: the first index.
        limit: the end index, exclusive.
        dimension: the dimension to slice.
        stride: the step.

    Returns:
        An array with the operand's sizes except in that dimension.

    Raises:
        AttributeValueError: see Slice.

    Example:
        >>> ops.slice_in_dim(np.int32([[1, 2, 3], [4, 5, 6]]), 1, 3, 1)
        Array([[2, 3],
               [5, 6]], dtype=int32)
    """
    (shape,) = Slice((), ()).array_shapes([shape_of(operand, "slice_in_dim")])
    sizes = shape.dimensions
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    is_integer = isinstance(dimension, (int, np.integer))
    if not is_integer or dimension not in range(-len(sizes), len(sizes)):
        problem = f"{dimension!r} is not a dimension of the operand"
        advice = f"dimension must be in [0, {len(sizes)}); a scalar has no dimension."
        raise explain(AttributeValueError, "slice_in_dim", problem, [f"operand {shape}"], advice)
    starts[dimension], limits[dimension], strides[dimension] = start, limit, stride
    return ops.slice(operand, tuple(starts), tuple(limits), tuple(strides))


def box(ranges: Iterable[Sequence[int]]) -> tuple[EllipsisType | slice, ...]:
    """Return the index of a NumPy array for a box: (start, limit[, stride]) of each dimension."""
    return (..., *[slice(*limits) for limits in ranges])


def inserted(values: Sequence[_T], position: int, value: _T) -> tuple[_T, ...]:
    """Insert `value` at `position`, as a batch dimension does in a list of sizes."""
    return (*values[:position], value, *values[position:])


@register
class Pad(Operation):
    """Insert a value around and between the elements, or remove edges. XLA: Pad.

    In each dimension, `interior` values are inserted between neighbors, then `low` before the
    first and `high` after the last element. A negative `low` or `high` removes elements instead.

    Args:
        operand: an array.
        padding_value: a scalar of the same element type.
        padding_config: for each dimension (low, high, interior).

    Returns:
        An array with the operand's element type.

    Checks:
        (C1) padding_value is a scalar of the operand's element type.
        (C2) one triple (low, high, interior) for each dimension.
        (C3) interior paddings are >= 0.
        (C4) no size of the result is negative.

    Example:
        >>> ops.pad(np.int32([1, 2, 3]), np.int32(0), [(1, 0, 1)])
        Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """

    stablehlo_name = "pad"
    operands = "operand", "padding_value"
    padding_config: Triples = attribute(kinds.Sequence(Integers()))
    linear_operands = (0, 1)
    dynamic_operands = (0,)

    def shape(self, operand, padding_value):
        config = self.padding_config
        if padding_value is not Shape(operand.element_type):
            self.refuse(
                "C1", f"padding_value must be a scalar of element type {operand.element_type}"
            )
        if len(config) != operand.rank or any(len(entry) != 3 for entry in config):
            problem = f"padding_config must have {operand.rank} triples (low, high, interior)"
            self.refuse_attribute("C2", problem)
        sizes = []
        pairs = zip(operand.dimensions, config, strict=True)
        for at, (size, (low, high, interior)) in enumerate(pairs):
            if interior < 0:
                problem = f"the interior padding of dimension {at} is negative"
                advice = "Only edges can be removed; use slice to take every n-th element."
                self.refuse_attribute("C3", problem, advice)
            sizes.append(low + size + max(size - 1, 0) * interior + high)
            if sizes[-1] < 0:
                self.refuse_attribute("C4", f"dimension {at} would have size {sizes[-1]}")
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(self, operand, padding_value):
        spread, inside, kept = [], [], []
        for size, (low, high, interior) in zip(operand.shape, self.padding_config, strict=True):
            first, dilated = max(low, 0), size + max(size - 1, 0) * interior
            spread.append(first + dilated + max(high, 0))
            inside.append((first, first + dilated, interior + 1))
            kept.append((max(-low, 0), spread[-1] - max(-high, 0)))
        result = np.full(spread, padding_value, operand.dtype)
        result[box(inside)] = operand
        return result[box(kept)]

    def stablehlo(self, emit, operands, shapes, results):
        low, high, interior = ([entry[k] for entry in self.padding_config] for k in range(3))
        config = f"low = {low}, high = {high}, interior = {interior}"
        return written(emit, f"stablehlo.pad {', '.join(operands)}, {config}", shapes, results[0])

    def hlo(self, emit, operands, shapes, result):
        if not self.padding_config:  # HLO text cannot pad a scalar
            return emit.instruction("copy", operands[:1], result)
        padding = "x".join(["_".join(map(str, entry)) for entry in self.padding_config])
        return emit.instruction("pad", operands, result, padding=padding)

    def transpose(self, cotangents, operands, linear):
        whole, config = array_shape(operands[0]), self.padding_config
        of_operand = None
        if linear[0]:  # zero where an edge was removed
            inside = pad_with_zeros(cotangents, [(-low, -high, 0) for low, high, _ in config])
            sizes, strides = array_shape(inside).dimensions, [entry[2] + 1 for entry in config]
            of_operand = ops.slice(inside, (0,) * whole.rank, sizes, strides)
        if not linear[1]:
            return of_operand, None
        # Do not subtract two sums: the difference cancels, and is NaN if both are infinite.
        padding = ops.select(_is_padding(whole, config), cotangents, zeros_like(cotangents))
        return of_operand, total(padding)

    def batch(self, operands, dimensions):
        (operand, padding_value), (at, value_at) = operands, dimensions
        if value_at is None:
            return ops.pad(operand, padding_value, inserted(self.padding_config, at, (0, 0, 0))), at
        (size,) = array_shape(padding_value).dimensions
        operand, config = move_batch(operand, at, 0, size), ((0, 0, 0), *self.padding_config)
        whole = array_shape(operand)
        padded = pad_with_zeros(operand, config)
        values = ops.broadcast_in_dim(padding_value, array_shape(padded).dimensions, (0,))
        return ops.select(_is_padding(whole, config), values, padded), 0

    def sharding_rule(self, operand, padding_value):
        return self.sharding_factors((operand, padding_value)).resized(PERMUTATION).build()


def pad_with_zeros(operand: Array, padding_config: Sequence[Sequence[int]]) -> Array:
    """Pad an array with zeros, or False, around and between its elements."""
    return ops.pad(operand, zeros(array_shape(operand).with_dimensions(())), padding_config)


def _is_padding(operand: Shape, padding_config: Triples) -> Array:
    """Return a mask that is true where the result of `pad` has the padding value."""
    inside = splat(False, Shape("pred", operand.dimensions))
    return ops.pad(inside, splat(True, Shape("pred")), padding_config)


@register
class ConcatInDim(Operation):
    """Join arrays along one dimension, in order. XLA: ConcatInDim.

    Args:
        operands: one or more arrays of equal element type, with equal sizes except in `dimension`.
        dimension: the dimension to join along.

    Returns:
        An array; its size in that dimension is the sum of the operands' sizes.

    Checks:
        (C1) there is at least one operand.
        (C2) dimension is one of the operands' dimensions; scalars have no dimension.
        (C3) operands have equal element types, ranks and sizes, except in `dimension`.

    Example:
        >>> ops.concat_in_dim([np.int32([1, 2]), np.int32([3])], 0)
        Array([1, 2, 3], dtype=int32)
    """

    hlo_name = "concatenate"
    stablehlo_name = "concatenate"
    operands = ("operands...",)
    dimension: int = attribute(kinds.Dimension(), hlo="dimensions")
    linear_operands = dynamic_operands = EVERY_OPERAND

    def shape(self, *shapes):
        at = self.dimension
        if not shapes:
            self.refuse("C1", "at least one operand is required")
        first = shapes[0]
        if not 0 <= at < first.rank:
            problem = f"dimension {at} is out of range for operands of rank {first.rank}"
            scalars = "Scalars cannot be joined: give each a dimension of size 1 with reshape."
            advice = f"It must be in [0, {first.rank})." if first.rank else scalars
            self.refuse_attribute("C2", problem, advice)

        def rest(shape: Shape) -> tuple[object, ...]:
            sizes = shape.dimensions
            return shape.element_type, shape.rank, sizes[:at], sizes[at + 1 :]

        for index, shape in enumerate(shapes):
            if rest(shape) != rest(first):
                self.refuse("C3", f"operands {index} and 0 differ in element type, rank or a size")
        sizes = list(first.dimensions)
        sizes[at] = sum(shape.dimensions[at] for shape in shapes)
        dynamic = map(any, zip(*[shape.dynamic for shape in shapes], strict=True))
        return Shape(first.element_type, sizes, dynamic)

    def reference(self, *operands):
        # If one operand is dynamic, the others may be longer in a dimension that is not joined.
        least = np.min([operand.shape for operand in operands], axis=0)
        kept = [np.s_[:size] for size in least]
        kept[self.dimension] = np.s_[:]
        return np.concatenate([operand[tuple(kept)] for operand in operands], self.dimension)

    def stablehlo(self, emit, operands, shapes, results):
        if not any(shape.is_dynamic for shape in shapes):
            # XLA:TPU aborts on some derivatives of joins with empty operands.
            parts = list(zip(operands, shapes, strict=True))
            parts = [part for part in parts if part[1].dimensions[self.dimension]] or parts[:1]
            if len(parts) == 1:
                return [parts[0][0]]
            operands, shapes = zip(*parts, strict=True)
        return super().stablehlo(emit, operands, shapes, results)

    def transpose(self, cotangents, operands, linear):
        at = self.dimension
        if array_shape(cotangents).dynamic[at]:
            return dynamic_parts(cotangents, operands, linear, at)
        ends = [0, *accumulate([array_shape(operand).dimensions[at] for operand in operands])]
        return [
            ops.slice_in_dim(cotangents, start, limit, at) if wanted else None
            for (start, limit), wanted in zip(pairwise(ends), linear, strict=True)
        ]

    def batch(self, operands, dimensions):
        aligned, at = align_batches(operands, dimensions)
        return ops.concat_in_dim(aligned, self.dimension + (self.dimension >= at)), at

    def sharding_rule(self, *operands):
        rule, kinds = self.sharding_factors(operands), {self.dimension: NEED_REPLICATION}
        return rule.pointwise(rule.result_sizes[0], kinds).build()
