"""Broadcasting: XLA's rule for binary builders, and the operations Broadcast and BroadcastInDim."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register
from minixla.core.attributes import Field, Integers, attribute
from minixla.core.builders import builds
from minixla.core.errors import ShapeError, explain
from minixla.core.sharding_rule import ABSENT
from minixla.core.tracing import current_trace, host_array, shape_of
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import common_sizes, on_bounds
from minixla_ops.helpers.batch_dimensions import batch_size, move_dimension
from minixla_ops.helpers.shorthand import array_shape, listed, splat, written
from minixla_ops.programs.computations import sum_over

_MAPPING = Field(Integers(), None, name="broadcast_dimensions")


def broadcast_operands(
    operation: Operation, lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None
) -> Sequence[Any]:
    """Broadcast the operands of a binary builder to a common shape by XLA's rule (rule B).

    Operands of equal shape, and scalars, are always accepted. Equal ranks stretch dimensions of
    size 1. Different ranks need `broadcast_dimensions`. All else raises ShapeError (B1, E1 ... E9).
    """
    left, right = shape_of(lhs, operation.builder_name), shape_of(rhs, operation.builder_name)
    if broadcast_dimensions is not None:
        broadcast_dimensions = _MAPPING.checked(operation.builder_name, broadcast_dimensions)
    if left is right and not broadcast_dimensions:
        return lhs, rhs
    left, right = operation.array_shapes([left, right])
    details = [f"lhs {left}", f"rhs {right}"]
    if broadcast_dimensions is not None:
        details.append(f"broadcast_dimensions {broadcast_dimensions}")

    def reject(label: str, problem: str, advice: str) -> ShapeError:
        return explain(ShapeError, operation.builder_name, f"({label}) {problem}", details, advice)

    if left.element_type is not right.element_type:
        advice = "XLA does not promote: use convert_element_type on one side, or mx.numpy."
        raise reject("B1", "the element types of lhs and rhs differ", advice)
    lower, higher = (left, right) if left.rank <= right.rank else (right, left)
    mapping = _checked_mapping(lower.rank, higher.rank, broadcast_dimensions, reject)
    sizes = list(higher.dimensions)
    for index, (one, at) in enumerate(zip(lower.dimensions, mapping, strict=True)):
        other = sizes[at]
        if one != other and 1 not in (one, other):
            if lower.rank == higher.rank:
                label, problem = "E7", f"dimension {at} has sizes {one} and {other}"
            else:
                label, problem = "E6", f"dimension {index} of one operand has size {one}"
                problem = f"{problem}, dimension {at} of the other has {other}"
            raise reject(label, problem, "Sizes must be equal, or one of them must be 1.")
        # Do not take the larger size: a dimension of size 1 stretches to size 0, too.
        sizes[at] = other if one == 1 else one
    both = []
    for value, shape in ((lhs, left), (rhs, right)):
        if shape.dimensions != tuple(sizes):
            places = mapping if shape is lower else range(higher.rank)
            value = ops.broadcast_in_dim(value, sizes, places)
        both.append(value)
    return tuple(common_sizes(*both))


def _checked_mapping(
    lower: int,
    higher: int,
    dimensions: Sequence[int] | None,
    reject: Callable[[str, str, str], ShapeError],
) -> Sequence[int]:
    """Return, for each of `lower` dimensions, its dimension among the `higher` ones."""
    if lower == higher:
        identity = tuple(range(lower))
        if dimensions not in (None, identity, ()):
            problem = "broadcast_dimensions must be the identity for operands of equal rank"
            advice = (
                f"Omit it or pass {identity}; to permute dimensions, transpose the operand first."
            )
            raise reject("E8", problem, advice)
        return identity
    if dimensions is None:
        if lower == 0:
            return ()
        advice = "XLA does not align dimensions: pass, for each dimension of the lower-rank"
        advice += " operand, its dimension in the other operand, or use mx.numpy."
        raise reject(
            "E1",
            "operands of different ranks need broadcast_dimensions",
            advice,
        )
    if len(dimensions) != lower:
        problem = (
            f"broadcast_dimensions has {len(dimensions)} entries for an operand of rank {lower}"
        )
        advice = "Pass one entry for each dimension of the lower-rank operand."
        raise reject("E9" if lower == 0 else "E4", problem, advice)
    if any(not 0 <= dimension < higher for dimension in dimensions):
        raise reject(
            "E5",
            "an entry of broadcast_dimensions is out of range",
            f"Entries must be in [0, {higher}).",
        )
    for before, after in pairwise(dimensions):
        if before >= after:
            label, what = ("E3", "repeats a dimension") if before == after else ("E2", "decreases")
            advice = "Entries must increase strictly; transpose the operand first."
            raise reject(label, f"broadcast_dimensions {what}", advice)
    return dimensions


@register
class BroadcastInDim(Operation):
    """Repeat an array along new dimensions, and stretch dimensions of size 1.

    out[j] = operand[i] with i[k] = j[broadcast_dimensions[k]], or 0 if operand's size is 1.
    XLA: BroadcastInDim. HLO calls it broadcast, and size-1 dimensions are reshaped away first.

    Args:
        operand: an array.
        out_dim_size: the dimension sizes of the result.
        broadcast_dimensions: for each dimension of the operand, its dimension in the result.

    Returns:
        An array with those sizes.

    Checks:
        (C1) broadcast_dimensions has one entry for each operand dimension, without repeats.
        (C2) each entry is a dimension of the result.
        (C3) each operand size is 1 or the size of its dimension in the result.

    Example:
        >>> ops.broadcast_in_dim(np.int32([1, 2]), (2, 3), (0,))
        Array([[1, 1, 1],
               [2, 2, 2]], dtype=int32)
    """

    hlo_name = "broadcast"
    stablehlo_name = "broadcast_in_dim"
    is_cheap = True
    operands = ("operand",)
    out_dim_size: Sequence[int] = attribute(Integers(minimum=0), stablehlo=None)
    broadcast_dimensions: Sequence[int] = attribute(Integers())
    linear_operands = (0,)

    def shape(self, operand):
        sizes, mapping = self.out_dim_size, self.broadcast_dimensions
        if not len(set(mapping)) == len(mapping) == operand.rank:
            problem = f"broadcast_dimensions must name {operand.rank} different dimensions"
            self.refuse_attribute("C1", problem)
        for index, (size, dimension) in enumerate(zip(operand.dimensions, mapping, strict=True)):
            if not 0 <= dimension < len(sizes):
                problem = (
                    f"entry {dimension} of broadcast_dimensions is not a dimension of the result"
                )
                self.refuse_attribute("C2", problem, f"Entries must be in [0, {len(sizes)}).")
            if size not in (1, sizes[dimension]):
                problem = f"dimension {index} of size {size} cannot become {sizes[dimension]}"
                self.refuse("C3", problem)
        return operand.with_dimensions(sizes)

    def reference(self, operand):
        mapping, sizes = self.broadcast_dimensions, self.out_dim_size
        aligned = operand.transpose(sorted(range(operand.ndim), key=mapping.__getitem__))
        added = tuple(set(range(len(sizes))).difference(mapping))
        return np.broadcast_to(np.expand_dims(aligned, added), sizes)

    def stablehlo(self, emit, operands, shapes, results):
        dims = ", ".join(map(str, self.broadcast_dimensions))
        text = f"stablehlo.broadcast_in_dim {operands[0]}, dims = [{dims}]"
        return written(emit, text, shapes, results[0])

    def hlo(self, emit, operands, shapes, result):
        # HLO's broadcast adds dimensions and does not stretch, so drop those of size 1 first.
        (operand,), (shape,) = operands, shapes
        kept = self._kept(shape)
        if len(kept) != shape.rank:
            squeezed = shape.with_dimensions([self.out_dim_size[dimension] for dimension in kept])
            operand = emit.instruction("reshape", [operand], squeezed)
        return emit.instruction("broadcast", [operand], result, dimensions=tuple(kept))

    def _kept(self, operand: Shape) -> list[int]:
        """Return the positions in the result of the operand dimensions that are not stretched."""
        pairs = zip(operand.dimensions, self.broadcast_dimensions, strict=True)
        return [dimension for size, dimension in pairs if size == self.out_dim_size[dimension]]

    def transpose(self, cotangents, operands, linear):
        operand = array_shape(operands[0])
        kept = self._kept(operand)
        total = sum_over(cotangents, set(range(len(self.out_dim_size))).difference(kept))
        if kept != sorted(kept):
            total = ops.transpose(total, list(map(sorted(kept).index, kept)))
        if array_shape(total).dimensions == operand.dimensions:
            return (total,)
        return (ops.reshape(total, operand.dimensions),)

    def batch(self, operands, dimensions):
        size = batch_size(operands, dimensions)
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        mapping = (0, *[dimension + 1 for dimension in self.broadcast_dimensions])
        return ops.broadcast_in_dim(operand, (size, *self.out_dim_size), mapping), 0

    def sharding_rule(self, operand):
        rule, sources = self.sharding_factors((operand,)), self.broadcast_dimensions
        for index, size in enumerate(self.out_dim_size):
            source = sources.index(index) if index in sources else ABSENT
            if source != ABSENT and operand.dimensions[source] != size:
                rule.add([source], [ABSENT], 1)
                source = ABSENT
            rule.add([source], [index], size)
        return rule.build()


@builds(BroadcastInDim)
def broadcast_in_dim(
    operand: ArrayLike, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    operation = BroadcastInDim(listed(out_dim_size), listed(broadcast_dimensions))
    is_constant = isinstance(operand, (np.ndarray, np.generic, int, float, complex))
    if is_constant and (not np.ndim(operand) or not any(np.asarray(operand).strides)):
        # A repeated value stays a repeated value: a constant suffices.
        shape_given = array_shape(operand)
        shape: Any = operation.infer((shape_given,))
        array = host_array(operand, shape_given, operation.builder_name)
        value = array[(0,) * array.ndim] if array.size else 0
        return current_trace().lift(splat(value, shape))
    if not shape_of(operand, operation.builder_name).is_dynamic:
        return operation(operand)
    # Broadcast the bound; a stretched dynamic dimension of bound 1 loses its run-time size.
    return on_bounds(operation, operand, operation.broadcast_dimensions)


@register
class Broadcast(Operation):
    """Repeat an array along new leading dimensions. XLA: Broadcast.

    out[i..., j...] = operand[j...].

    Args:
        operand: an array.
        broadcast_sizes: the sizes of the new leading dimensions.

    Returns:
        An array with the sizes broadcast_sizes, followed by those of operand.

    Raises:
        AttributeValueError: a size is negative.

    Example:
        >>> ops.broadcast(np.int32([1, 2]), (3,))
        Array([[1, 2],
               [1, 2],
               [1, 2]], dtype=int32)
    """

    stablehlo_name = "broadcast"
    operands = ("operand",)
    broadcast_sizes: tuple[int, ...] = attribute(Integers(minimum=0))
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand):
        sizes = (*self.broadcast_sizes, *operand.dimensions)
        dynamic = (*[False] * len(self.broadcast_sizes), *operand.dynamic)
        return Shape(operand.element_type, sizes, dynamic)

    def reference(self, operand):
        return np.broadcast_to(operand, (*self.broadcast_sizes, *operand.shape))

    def hlo_attributes(self, shapes):
        first = len(self.broadcast_sizes)
        return {"dimensions": tuple(range(first, first + shapes[0].rank))}

    def transpose(self, cotangents, operands, linear):
        return (sum_over(cotangents, range(len(self.broadcast_sizes))),)

    def batch(self, operands, dimensions):
        return self(*operands), dimensions[0] + len(self.broadcast_sizes)
