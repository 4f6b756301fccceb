"""Operations that rearrange dimensions: Reshape, Transpose, Rev."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, Shape, register, shape_of
from minixla.core.attributes import Field, Integers, attribute
from minixla.core.builders import builds
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.sharding_rule import ABSENT, PERMUTATION, RuleBuilder, ShardingRule
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import on_bounds
from minixla_ops.helpers.batch_dimensions import batch_size, move_dimension, shifted
from minixla_ops.helpers.checks import check_dimensions
from minixla_ops.helpers.shorthand import array_shape, listed, written

_RUN = Field(Integers(), name="dimensions")


@register
class Reshape(Operation):
    """Reshape an array in row-major order. XLA: Reshape.

    Dynamic dimensions are kept; use `dynamic_reshape` to split or merge them.

    Args:
        operand: an array.
        dimensions: the sizes of the result's dimensions.

    Returns:
        An array with those sizes.

    Checks:
        (C1) the result and the operand have the same number of elements.
        (D1) no dynamic dimension is split or merged.

    Example:
        >>> ops.reshape(np.int32([1, 2, 3, 4]), (2, 2))
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """

    spec_names = ("Reshape", "Reshape (explicit)", "Collapse")
    stablehlo_name = "reshape"
    is_cheap = True
    operands = ("operand",)
    dimensions: Sequence[int] = attribute(Integers(minimum=0), stablehlo=None, hlo=None)
    linear_operands = (0,)

    def shape(self, operand):
        result = operand.with_dimensions(self.dimensions)
        if result.size != operand.size:
            problem = f"an operand of {operand.size} elements cannot fill {result.size} elements"
            advice = "The product of the sizes must stay the same; -1 is not supported."
            self.refuse("C1", problem, advice)
        return result

    def reference(self, operand):
        return operand.reshape(self.dimensions)

    def stablehlo(self, emit, operands, shapes, results):
        return written(emit, f"stablehlo.reshape {operands[0]}", shapes, results[0])

    def transpose(self, cotangents, operands, linear):
        return (ops.reshape(cotangents, array_shape(operands[0]).dimensions),)

    def batch(self, operands, dimensions):
        size = batch_size(operands, dimensions)
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        return ops.reshape(operand, (size, *self.dimensions)), 0

    def sharding_rule(self, operand):
        return common_factors(self.sharding_factors((operand,))) if operand.size else None


@builds(Reshape)
def reshape(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    operation = Reshape(listed(dimensions))
    shape: Any = shape_of(operand, operation.builder_name)
    if not shape.is_dynamic:
        return operation(operand)
    kept = _kept_dimensions(shape, operation.dimensions)
    if any(flag and at is None for flag, at in zip(shape.dynamic, kept, strict=True)):
        problem = f"a dynamic dimension of operand {shape} is split or merged"
        advice = "Keep dynamic dimensions whole, with the same sizes before or after them, or use"
        operation.refuse("D1", problem, f"{advice} dynamic_reshape.")
    return on_bounds(operation, operand, kept)


def _kept_dimensions(operand: Shape, dimensions: Sequence[int]) -> list[int | None]:
    """Map the operand's dimensions to the result's, matching from both ends and ignoring size 1."""
    own = [index for index, size in enumerate(operand.dimensions) if size != 1]
    new = [index for index, size in enumerate(dimensions) if size != 1]
    kept: list[int | None] = [None] * operand.rank
    for step in (1, -1):
        for source, target in zip(own[::step], new[::step], strict=False):
            if operand.dimensions[source] != dimensions[target]:
                break
            kept[source] = target
    return kept


def common_factors(rule: RuleBuilder) -> ShardingRule:
    """Fill the rule of a reshape with the factors that both shapes consist of.

    From the major dimension on, the common divisor of the next dimensions is one factor while the
    products of the preceding sizes agree. Otherwise, factors belong to one side until they do.
    """
    rest = [[*rule.operand_sizes[0]], [*rule.result_sizes[0]]]
    at, before = [0, 0], [1, 1]

    def take(size: int, sides: Sequence[int]) -> None:
        source, target = (at[side] if side in sides else ABSENT for side in (0, 1))
        rule.add([source], [target], size)
        for side in sides:
            rest[side][at[side]] //= size
            before[side] *= size
            at[side] += rest[side][at[side]] == 1

    while any(index < len(sizes) for index, sizes in zip(at, rest, strict=True)):
        pair = [(*sizes, 0)[index] for index, sizes in zip(at, rest, strict=True)]
        common, behind = math.gcd(*pair), int(before[0] > before[1])
        if 1 in pair:
            take(1, [pair.index(1)])
        elif before[0] != before[1]:
            size = pair[behind]
            lacking, odd = divmod(before[1 - behind], before[behind])
            reaches = not odd and size % lacking == 0
            take(lacking if reaches else size // common if size > common else size, [behind])
        elif common > 1:
            take(common, [0, 1])
        else:
            take(pair[0], [0])
            take(pair[1], [1])
    return rule.build()


@register
class Transpose(Operation):
    """Permute the dimensions. XLA: Transpose.

    Dimension i of the result is dimension permutation[i] of the operand.

    Args:
        operand: an array.
        permutation: for each dimension of the result, its dimension in the operand.

    Returns:
        An array with the operand's dimensions in that order.

    Checks:
        (C1) permutation lists each dimension of the operand exactly once.

    Example:
        >>> ops.transpose(np.int32([[1, 2], [3, 4]]), (1, 0))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """

    stablehlo_name = "transpose"
    operands = ("operand",)
    permutation: Sequence[int] = attribute(Integers(), hlo="dimensions")
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand):
        if sorted(self.permutation) != list(range(operand.rank)):
            advice = f"Pass 0 ... {operand.rank - 1} in some order."
            advice = advice if operand.rank else "A scalar takes the empty permutation."
            problem = "permutation must list each dimension exactly once"
            self.refuse_attribute("C1", problem, advice)
        sizes = [operand.dimensions[dimension] for dimension in self.permutation]
        return Shape(operand.element_type, sizes, [operand.dynamic[i] for i in self.permutation])

    def reference(self, operand):
        return operand.transpose(self.permutation)

    def stablehlo(self, emit, operands, shapes, results):
        text = f"stablehlo.transpose {operands[0]}, dims = {list(self.permutation)}"
        return written(emit, text, shapes, results[0])

    def transpose(self, cotangents, operands, linear):
        order = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return (ops.transpose(cotangents, order),)

    def batch(self, operands, dimensions):
        at = dimensions[0] or 0
        return ops.transpose(operands[0], (at, *shifted(self.permutation, at))), 0

    def sharding_rule(self, operand):
        rule = self.sharding_factors((operand,))
        for index, source in enumerate(self.permutation):
            rule.add([source], [index], operand.dimensions[source])
        return rule.build()


@register
class Rev(Operation):
    """Reverse the order of the elements along dimensions. XLA: Rev.

    Along each listed dimension of size N, index i moves to N - 1 - i.

    Args:
        operand: an array.
        dimensions: the dimensions to reverse.

    Returns:
        An array with the operand's shape.

    Checks:
        (C1) each entry is a dimension of the operand, without repeats.

    Example:
        >>> ops.rev(np.int32([1, 2, 3]), [0])
        Array([3, 2, 1], dtype=int32)
    """

    hlo_name = "reverse"
    stablehlo_name = "reverse"
    operands = ("operand",)
    dimensions: tuple[int, ...] = attribute(Integers(minimum=0, unique=True))
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand):
        check_dimensions(self, "C1", operand, *self.dimensions)
        return operand

    def reference(self, operand):
        return np.flip(operand, self.dimensions)

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)

    def batch(self, operands, dimensions):
        at = dimensions[0] or 0
        return ops.rev(operands[0], shifted(self.dimensions, at)), at

    def sharding_rule(self, operand):
        kinds = dict.fromkeys(self.dimensions, PERMUTATION)
        return self.sharding_factors((operand,)).pointwise(operand.dimensions, kinds).build()


def reshape_explicit(shape: Shape, operand: ArrayLike) -> Array:
    """Reshape `operand`, in row-major order, to `shape`. XLA: ReshapeExplicit.

    Args:
        shape: the result's shape, with the operand's element type.
        operand: an array.

    Returns:
        An array with that shape.

    Raises:
        ShapeError: the shape has another number of elements or element type (C1), or other
            dynamic dimensions than the result of `reshape` (C2).

    Example:
        >>> ops.reshape_explicit(mx.Shape("s32", (2, 2)), np.int32([1, 2, 3, 4]))
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    (before,) = Reshape(()).array_shapes([shape_of(operand, "reshape_explicit")])
    wanted = before.element_type, before.size
    if not isinstance(shape, Shape) or (shape.element_type, shape.size) != wanted:
        problem = "(C1) shape must have the operand's element type and number of elements"
        advice = "Convert with convert_element_type first, or change the sizes."
    else:
        result = ops.reshape(operand, shape.dimensions)
        if array_shape(result) is shape:
            return result
        problem = f"(C2) the result is {shape_of(result)}"
        advice = "reshape keeps dynamic dimensions; change them with set_dimension_size."
    details = [f"operand {before}", f"shape {shape}"]
    raise explain(ShapeError, "reshape_explicit", problem, details, advice)


def collapse(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Merge consecutive dimensions into one, in row-major order.

    XLA: Collapse.

    Args:
        operand: an array.
        dimensions: consecutive dimensions, in increasing order.

    Returns:
        An array with the same elements; the new size is the product of the merged sizes.

    Raises:
        AttributeValueError: dimensions are not consecutive (C1).

    Example:
        >>> ops.collapse(np.int32([[[1, 2], [3, 4]]]), (1, 2))
        Array([[1, 2, 3, 4]], dtype=int32)
    """
    run, shape_given = _RUN.checked("collapse", dimensions), shape_of(operand, "collapse")
    (shape,) = Reshape(()).array_shapes([shape_given])
    first, last = (run[0], run[-1] + 1) if run else (0, 0)
    if run != tuple(range(first, last)) or first < 0 or last > shape.rank:
        problem = "(C1) dimensions must be consecutive"
        details = [f"operand {shape}", f"dimensions {run}"]
        advice = "Pass consecutive dimensions in increasing order; transpose the operand first."
        raise explain(AttributeValueError, "collapse", problem, details, advice)
    sizes = shape.dimensions
    merged = (*sizes[:first], math.prod(sizes[first:last]), *sizes[last:])
    return ops.reshape(operand, merged if run else sizes)
