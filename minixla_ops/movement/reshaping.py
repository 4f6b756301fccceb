"""Operations that rearrange dimensions: Reshape, Collapse, Transpose, Rev."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integers, ShapeAttribute, attribute
from minixla.core.builders import builder
from minixla.core.operation import Operation, register
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla_ops.dynamic_sizes.dimension_sizes import on_bounds
from minixla_ops.vocabulary.batch_dimensions import batch_size, move_dimension
from minixla_ops.vocabulary.shorthand import array_shape, listed


class RowMajor(Operation):
    """Base class of the builders that cut the elements, in row-major order, into other dimensions.

    Members say by their `shape` what the new dimensions are.
    """

    hlo_name = "reshape"
    stablehlo_name = "reshape"
    operands = ("operand",)
    linear_operands = (0,)

    def stablehlo(self, emit, operands, shapes, results):
        name = emit.name()
        types = f"({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        emit.line(f"{name} = stablehlo.reshape {operands[0]} : {types}")
        return [name]

    def transpose(self, cotangents, operands, linear):
        return (reshape(cotangents, array_shape(operands[0]).dimensions),)

    def batch(self, operands, dimensions):
        size = batch_size(operands, dimensions)
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        member = self.infer((array_shape(operand).without_dimension(0),))
        assert isinstance(member, Shape)
        return reshape(operand, (size, *member.dimensions)), 0


@register
class Reshape(RowMajor):
    """The elements of an array, in row-major order, in other dimensions. XLA: Reshape.

    Dynamic dimensions stay as they are; `dynamic_reshape` splits and merges them.

    Args:
        operand: an array.
        dimensions: the sizes of the result's dimensions.

    Returns:
        An array of those sizes.

    Checks:
        (C1) the result has as many elements as the operand.
        (D1) no dynamic dimension is split or merged.
    """

    dimensions: Sequence[int] = attribute(Integers(minimum=0), stablehlo=None, hlo=None)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        result = operand.with_dimensions(self.dimensions)
        if result.size != operand.size:
            problem = f"{operand.size} elements cannot fill dimensions of {result.size}"
            advice = "The product of the sizes must stay the same; no size may be left open as -1."
            self.refuse("C1", problem, advice)
        return result

    def reference(self, operand):
        return operand.reshape(self.dimensions)


def _kept_dimensions(operand: Shape, dimensions: Sequence[int]) -> list[int | None]:
    """Where dimensions of the operand are in the result: found from both ends, sizes 1 aside."""
    own = [index for index, size in enumerate(operand.dimensions) if size != 1]
    new = [index for index, size in enumerate(dimensions) if size != 1]
    kept: list[int | None] = [None] * operand.rank
    for step in (1, -1):
        for source, target in zip(own[::step], new[::step], strict=False):
            if operand.dimensions[source] != dimensions[target]:
                break
            kept[source] = target
    return kept


def reshape(operand: Any, dimensions: Sequence[int]) -> Any:
    """The elements of `operand`, in row-major order, in an array of other dimensions.

    Args:
        operand: an array.
        dimensions: the sizes of the result's dimensions.

    Raises:
        AttributeValueError, ShapeError: see Reshape.
    """
    operation = Reshape(listed(dimensions))
    shape: Any = shape_of(operand, operation.builder_name)
    if not shape.is_dynamic:
        return operation(operand)
    kept = _kept_dimensions(shape, operation.dimensions)
    if any(flag and at is None for flag, at in zip(shape.dynamic, kept, strict=True)):
        operation.refuse(
            "D1",
            f"a dynamic dimension is split or merged, of operand {shape}",
            "Keep dynamic dimensions whole, with the same sizes before or after them, or say what "
            "their sizes are with dynamic_reshape.",
        )
    return on_bounds(operation, operand, kept)


@register
class Transpose(Operation):
    """Permutes the dimensions. XLA: Transpose.

    Dimension i of the result is dimension permutation[i] of the operand.

    Args:
        operand: an array.
        permutation: for each dimension of the result the operand's dimension that it is.

    Returns:
        An array of the operand's dimensions in that order.

    Checks:
        (C1) permutation names each dimension of the operand once.
    """

    stablehlo_name = "transpose"
    operands = ("operand",)
    permutation: Sequence[int] = attribute(Integers(), hlo="dimensions")
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        if sorted(self.permutation) != list(range(operand.rank)):
            self.refuse_attribute(
                "C1",
                "permutation does not name each dimension once",
                f"Give the numbers 0 ... {operand.rank - 1} in some order."
                if operand.rank
                else "A scalar takes the empty permutation.",
            )
        sizes = [operand.dimensions[each] for each in self.permutation]
        return Shape(operand.element_type, sizes, [operand.dynamic[i] for i in self.permutation])

    def reference(self, operand):
        return operand.transpose(self.permutation)

    def stablehlo(self, emit, operands, shapes, results):
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.transpose {operands[0]}, dims = {list(self.permutation)}"
            f" : ({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def transpose(self, cotangents, operands, linear):
        permutation = self.permutation
        return (
            transpose(cotangents, sorted(range(len(permutation)), key=permutation.__getitem__)),
        )

    def batch(self, operands, dimensions):
        at = dimensions[0]
        assert at is not None
        return transpose(operands[0], (at, *_shifted(self.permutation, at))), 0


def _shifted(dimensions: Sequence[int], at: int) -> tuple[int, ...]:
    """Numbers of dimensions where there is one more, `at`."""
    return tuple([each + (each >= at) for each in dimensions])


@register
class Rev(Operation):
    """Reverses the order of the elements along dimensions. XLA: Rev.

    Along each listed dimension of size N, index i moves to N - 1 - i.

    Args:
        operand: an array.
        dimensions: the dimensions to reverse.

    Returns:
        An array of the operand's shape.

    Checks:
        (C1) each entry is a dimension of the operand, none is repeated.
    """

    hlo_name = "reverse"
    stablehlo_name = "reverse"
    operands = ("operand",)
    dimensions: tuple[int, ...] = attribute(Integers(minimum=0, unique=True))
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        if any(each >= operand.rank for each in self.dimensions):
            problem = "an entry is no dimension of the operand"
            self.refuse_attribute("C1", problem, f"Entries must be in [0, {operand.rank}).")
        return operand

    def reference(self, operand):
        return np.flip(operand, self.dimensions)

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)

    def batch(self, operands, dimensions):
        at = dimensions[0]
        assert at is not None
        return rev(operands[0], _shifted(self.dimensions, at)), at


@register
class ReshapeExplicit(RowMajor):
    """Reshape with the result given as a Shape. XLA: Reshape (explicit).

    Args:
        shape: the result's shape.
        operand: an array.

    Returns:
        An array of that shape.

    Checks:
        (C1) the shape has as many elements as the operand, and its element type.
        (C2) its dynamic dimensions are those of `reshape`'s result.
    """

    spec_names = ("Reshape (explicit)",)
    output_shape: Any = attribute(ShapeAttribute(), stablehlo=None, hlo=None)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        found = self.output_shape
        wanted = operand.element_type, operand.size
        if not isinstance(found, Shape) or (found.element_type, found.size) != wanted:
            problem = f"the shape does not hold the elements of the operand {operand}"
            self.refuse("C1", problem, "The number of elements and their type must stay the same.")
        return found

    def reference(self, operand):
        return operand.reshape(self.output_shape.dimensions)


def reshape_explicit(shape: Shape, operand: Any) -> Any:
    """The elements of `operand`, in row-major order, in an array of `shape`.

    Raises:
        ShapeError: see ReshapeExplicit.
    """
    operation, before = ReshapeExplicit(shape), shape_of(operand)
    operation.shape(before)
    result = reshape(operand, shape.dimensions)
    if array_shape(result) is not shape:
        advice = "reshape keeps dynamic dimensions as they are; see set_dimension_size."
        operation.refuse("C2", f"the result is {shape_of(result)} for the operand {before}", advice)
    return result


@register
class Collapse(RowMajor):
    """Makes one dimension of a run of neighbouring ones, in row-major order. XLA: Collapse.

    Checks:
        (C1) the dimensions are consecutive dimensions of the operand.
    """

    dimensions: Sequence[int] = attribute(Integers(), stablehlo=None, hlo=None)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        dimensions = self.dimensions
        run = range(dimensions[0], dimensions[-1] + 1) if dimensions else range(0)
        if dimensions != tuple(run) or run.start < 0 or run.stop > operand.rank:
            problem = "the dimensions are not a run of consecutive dimensions"
            advice = "Give neighbouring dimensions in increasing order; transpose first for others."
            self.refuse_attribute("C1", problem, advice)
        return operand.with_dimensions(_merged(operand.dimensions, dimensions))

    def reference(self, operand):
        return operand.reshape(_merged(operand.shape, self.dimensions))


def _merged(sizes: Sequence[int], run: Sequence[int]) -> Sequence[int]:
    """`sizes` with those of a run of dimensions replaced by their product."""
    if not run:
        return sizes
    product = math.prod([sizes[dimension] for dimension in run])
    return (*sizes[: run[0]], product, *sizes[run[-1] + 1 :])


def collapse(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` with a run of consecutive dimensions made into one.

    Args:
        operand: an array.
        dimensions: consecutive dimension numbers, increasing.

    Raises:
        AttributeValueError: they are not consecutive dimensions (C1).
    """
    given = shape_of(operand, Collapse.builder_name)
    shape: Any = Collapse(dimensions).infer((given,))
    return reshape(operand, shape.dimensions)


transpose = builder(Transpose)
rev = builder(Rev)
