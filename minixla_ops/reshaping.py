"""Operations that rearrange dimensions: Reshape, Collapse, Transpose, Rev."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integers, ShapeAttribute
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.batching import batch_size, move_dimension
from minixla_ops.rules import array_shape, listed

__all__ = ["collapse", "reshape", "reshape_explicit", "rev", "transpose"]


class RowMajor(Operation):
    """Base class of the builders that cut the elements, in row-major order, into other dimensions.

    Members say by their `shape` what the new dimensions are.
    """

    hlo_name = "reshape"
    stablehlo_name = "reshape"
    operand_names = ("operand",)
    linear_operands = (0,)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        name = emit.name()
        types = f"({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        emit.line(f"{name} = stablehlo.reshape {operands[0]} : {types}")
        return [name]

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        return {}

    def transpose(
        self, cotangents: Any, operands: Sequence[Any], linear: Sequence[bool], /, **attributes: Any
    ) -> Sequence[Any]:
        return (reshape(cotangents, array_shape(operands[0]).dimensions),)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int]:
        size = batch_size(operands, dimensions)
        operand = move_dimension(operands[0], dimensions[0] or 0, 0)
        whole = array_shape(operand)
        member, _ = self.infer((whole.with_dimensions(whole.dimensions[1:]),), attributes)
        assert isinstance(member, Shape)
        return reshape(operand, (size, *member.dimensions)), 0


@register
class Reshape(RowMajor):
    """Cuts the elements, in row-major order, into other dimensions. XLA: Reshape.

    Attributes:
        dimensions: the sizes of the result's dimensions.

    Checks:
        (C1) the result has as many elements as the operand.
    """

    attributes = {"dimensions": Integers(minimum=0)}

    def shape(self, operand: Any, *, dimensions: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [f"operand {operand}", f"dimensions {dimensions}"]
        result = operand.with_dimensions(dimensions)
        if result.size != operand.size:
            self.reject(
                "C1",
                f"{operand.size} elements cannot fill dimensions of {result.size}",
                given,
                "The product of the sizes must stay the same; no size may be left open as -1.",
            )
        return result

    def reference(self, operand: np.ndarray, *, dimensions: tuple[int, ...]) -> np.ndarray:
        return operand.reshape(dimensions)


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
        ShapeError: a dynamic dimension is split or merged (D1); see dynamic_reshape.
    """
    attributes = {"dimensions": listed(dimensions)}
    shape = shape_of(operand, Reshape.builder_name)
    if not isinstance(shape, Shape) or not shape.is_dynamic:
        return bind(Reshape.instance, operand, **attributes)
    from minixla_ops.dynamic_sizes import on_bounds

    kept = _kept_dimensions(shape, attributes["dimensions"])
    if any(flag and at is None for flag, at in zip(shape.dynamic, kept, strict=True)):
        Reshape.instance.reject(
            "D1",
            "a dynamic dimension is split or merged",
            [f"operand {shape}", f"dimensions {tuple(dimensions)}"],
            "Keep dynamic dimensions whole, with the same sizes before or after them, or say what "
            "their sizes are with dynamic_reshape.",
        )
    return on_bounds(Reshape.instance, operand, attributes, kept)


@register
class Transpose(Operation):
    """Permutes the dimensions. XLA: Transpose.

    Dimension i of the result is dimension permutation[i] of the operand.

    Attributes:
        permutation: for each dimension of the result the operand's dimension that it is.

    Checks:
        (C1) permutation names each dimension of the operand once.
    """

    stablehlo_name = "transpose"
    operand_names = ("operand",)
    attributes = {"permutation": Integers()}
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand: Any, *, permutation: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        if sorted(permutation) != list(range(operand.rank)):
            self.reject_attribute(
                "C1",
                "permutation does not name each dimension once",
                [f"operand {operand}", f"permutation {permutation}"],
                f"Give the numbers 0 ... {operand.rank - 1} in some order."
                if operand.rank
                else "A scalar takes the empty permutation.",
            )
        sizes, dynamic = operand.dimensions, operand.dynamic
        return Shape(
            operand.element_type, [sizes[i] for i in permutation], [dynamic[i] for i in permutation]
        )

    def reference(self, operand: np.ndarray, *, permutation: tuple[int, ...]) -> np.ndarray:
        return operand.transpose(permutation)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        permutation: tuple[int, ...],
    ) -> Sequence[str]:
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.transpose {operands[0]}, dims = {list(permutation)}"
            f" : ({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo_attributes(
        self, shapes: Sequence[AnyShape], *, permutation: tuple[int, ...]
    ) -> dict[str, Any]:
        return {"dimensions": permutation}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        permutation: tuple[int, ...],
    ) -> Sequence[Any]:
        return (
            transpose(cotangents, sorted(range(len(permutation)), key=permutation.__getitem__)),
        )

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        permutation: tuple[int, ...],
    ) -> tuple[Any, int]:
        at = dimensions[0]
        assert at is not None
        shifted = [each + (each >= at) for each in permutation]
        return transpose(operands[0], [at, *shifted]), 0


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """`operand` with its dimensions in another order.

    Args:
        operand: an array.
        permutation: for each dimension of the result the operand's dimension that it is.

    Raises:
        AttributeValueError: `permutation` is not one (C1).
    """
    return bind(Transpose.instance, operand, permutation=listed(permutation))


@register
class Rev(Operation):
    """Reverses the order of the elements along dimensions. XLA: Rev.

    Along each listed dimension of size N, index i moves to N - 1 - i.

    Attributes:
        dimensions: the dimensions to reverse.

    Checks:
        (C1) each entry is a dimension of the operand, none is repeated.
    """

    hlo_name = "reverse"
    stablehlo_name = "reverse"
    operand_names = ("operand",)
    attributes = {"dimensions": Integers(minimum=0, unique=True)}
    linear_operands = dynamic_operands = (0,)

    def shape(self, operand: Any, *, dimensions: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        if any(each >= operand.rank for each in dimensions):
            self.reject_attribute(
                "C1",
                "an entry is no dimension of the operand",
                [f"operand {operand}", f"dimensions {dimensions}"],
                f"Entries must be in [0, {operand.rank}).",
            )
        return operand

    def reference(self, operand: np.ndarray, *, dimensions: tuple[int, ...]) -> np.ndarray:
        return np.flip(operand, dimensions)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        dimensions: tuple[int, ...],
    ) -> Sequence[Any]:
        return (rev(cotangents, dimensions),)

    def batch(
        self,
        operands: Sequence[Any],
        batch_dimensions: Sequence[int | None],
        *,
        dimensions: tuple[int, ...],
    ) -> tuple[Any, int]:
        at = batch_dimensions[0]
        assert at is not None
        return rev(operands[0], [each + (each >= at) for each in dimensions]), at


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` reversed along `dimensions`.

    Raises:
        AttributeValueError: an entry is no dimension of the operand or repeated (C1).
    """
    return bind(Rev.instance, operand, dimensions=listed(dimensions))


@register
class ReshapeExplicit(RowMajor):
    """Reshape with the result given as a Shape. XLA: Reshape (explicit).

    Attributes:
        shape: the result's shape.

    Checks:
        (C1) the shape has as many elements as the operand, and its element type.
        (C2) its dynamic dimensions are those of `reshape`'s result.
    """

    spec_names = ("Reshape (explicit)",)
    attributes = {"output_shape": ShapeAttribute()}

    def shape(self, operand: Any, *, output_shape: AnyShape) -> AnyShape:
        (operand,) = self.array_shapes([operand])
        given = [f"operand {operand}", f"shape {output_shape}"]
        wanted = operand.element_type, operand.size
        if (
            not isinstance(output_shape, Shape)
            or (output_shape.element_type, output_shape.size) != wanted
        ):
            self.reject(
                "C1",
                "the shape does not hold the operand's elements",
                given,
                "The number of elements and their type must stay the same.",
            )
        return output_shape

    def reference(self, operand: np.ndarray, *, output_shape: Shape) -> np.ndarray:
        return operand.reshape(output_shape.dimensions)


def reshape_explicit(shape: Shape, operand: Any) -> Any:
    """The elements of `operand`, in row-major order, in an array of `shape`.

    Raises:
        ShapeError: see ReshapeExplicit.
    """
    operation, before = ReshapeExplicit.instance, shape_of(operand)
    operation.shape(before, **operation.canonical_attributes({"output_shape": shape}))
    result = reshape(operand, shape.dimensions)
    if array_shape(result) is not shape:
        operation.reject(
            "C2",
            f"the result is {shape_of(result)}",
            [f"operand {before}", f"shape {shape}"],
            "reshape keeps dynamic dimensions as they are; see set_dimension_size.",
        )
    return result


@register
class Collapse(RowMajor):
    """Makes one dimension of a run of neighbouring ones, in row-major order. XLA: Collapse.

    Attributes:
        dimensions: the dimensions, each one more than the one before it.

    Checks:
        (C1) the dimensions are consecutive dimensions of the operand.
    """

    attributes = {"dimensions": Integers()}

    def shape(self, operand: Any, *, dimensions: tuple[int, ...]) -> Shape:
        (operand,) = self.array_shapes([operand])
        run = range(dimensions[0], dimensions[-1] + 1) if dimensions else range(0)
        if dimensions != tuple(run) or run.start < 0 or run.stop > operand.rank:
            self.reject_attribute(
                "C1",
                "the dimensions are not a run of consecutive dimensions",
                [f"operand {operand}", f"dimensions {dimensions}"],
                "Give neighbouring dimensions in increasing order; transpose first for others.",
            )
        return operand.with_dimensions(_merged(operand.dimensions, dimensions))

    def reference(self, operand: np.ndarray, *, dimensions: tuple[int, ...]) -> np.ndarray:
        return operand.reshape(_merged(operand.shape, dimensions))


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
    shape, _ = Collapse.instance.infer((given,), {"dimensions": listed(dimensions)})
    return reshape(operand, shape.dimensions)
