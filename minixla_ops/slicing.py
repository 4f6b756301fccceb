"""Slice: boxes cut out of arrays."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integers, Optional
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.rules import array_shape, listed, splat

__all__ = ["box", "inserted", "slice", "slice_in_dim"]


@register
class Slice(Operation):
    """Cuts a box out of an array, taking every strides[d]-th element of dimension d. XLA: Slice.

    out[i...] = operand[start_indices[d] + i[d] * strides[d], ...]; nothing is clamped.

    Attributes:
        start_indices: the first index of each dimension.
        limit_indices: the index after the last of each dimension.
        strides: the step of each dimension; default 1.

    Checks:
        (C1) each list has one entry for each dimension.
        (C2) 0 <= start <= limit <= size.
        (C3) strides are >= 1.
        (C4) a dynamic dimension is taken whole.
    """

    stablehlo_name = "slice"
    operand_names = ("operand",)
    attributes = {
        "start_indices": Integers(),
        "limit_indices": Integers(),
        "strides": Optional(Integers()),
    }
    linear_operands = dynamic_operands = (0,)

    def canonical_attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        attributes = super().canonical_attributes(given)
        if attributes["strides"] is None:
            attributes["strides"] = (1,) * len(attributes["start_indices"])
        return attributes

    def shape(
        self,
        operand: Any,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [
            f"operand {operand}",
            f"start_indices {start_indices}",
            f"limit_indices {limit_indices}",
            f"strides {strides}",
        ]
        if {len(start_indices), len(limit_indices), len(strides)} != {operand.rank}:
            self.reject_attribute(
                "C1",
                f"a list does not have {operand.rank} entries",
                given,
                "Give one start, one limit and one stride for each dimension.",
            )
        for at, (start, limit, size) in enumerate(
            zip(start_indices, limit_indices, operand.dimensions, strict=True)
        ):
            if not 0 <= start <= limit <= size:
                self.reject_attribute(
                    "C2",
                    f"[{start}, {limit}) is not within dimension {at} of size {size}",
                    given,
                    "0 <= start <= limit <= size must hold; dynamic_slice clamps, slice does not.",
                )
        if any(stride < 1 for stride in strides):
            self.reject_attribute(
                "C3", "a stride is less than 1", given, "Reverse with rev, strides are positive."
            )
        sizes = [
            -(-(limit - start) // stride)
            for start, limit, stride in zip(start_indices, limit_indices, strides, strict=True)
        ]
        for at, flag in enumerate(operand.dynamic):
            if flag and (sizes[at], strides[at]) != (operand.dimensions[at], 1):
                self.reject(
                    "C4",
                    f"dimension {at} is dynamic, and not taken whole",
                    given,
                    "Set its size back to the bound with set_dimension_size, which fills up with "
                    "zeros, or use dynamic_slice.",
                )
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(
        self,
        operand: np.ndarray,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> np.ndarray:
        return operand[box(zip(start_indices, limit_indices, strides, strict=True))]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        ranges = zip(*attributes.values(), strict=True)
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.slice {operands[0]} "
            f"[{', '.join([f'{start}:{limit}:{stride}' for start, limit, stride in ranges])}]"
            f" : ({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo_attributes(self, shapes: Sequence[AnyShape], **attributes: Any) -> dict[str, Any]:
        ranges = zip(*attributes.values(), strict=True)
        return {"slice": tuple([f"[{start}:{limit}:{stride}]" for start, limit, stride in ranges])}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Sequence[Any]:
        from minixla_ops.padding import pad

        config = []
        whole, cut = array_shape(operands[0]), array_shape(cotangents)
        for start, stride, size, count in zip(
            start_indices, strides, whole.dimensions, cut.dimensions, strict=True
        ):
            end = start + (count - 1) * stride + 1 if count else start
            config.append((start, size - end, stride - 1))
        return (pad(cotangents, splat(0, Shape(whole.element_type)), config),)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> tuple[Any, int]:
        at = dimensions[0]
        assert at is not None
        size = array_shape(operands[0]).dimensions[at]
        cut = slice(
            operands[0],
            inserted(start_indices, at, 0),
            inserted(limit_indices, at, size),
            inserted(strides, at, 1),
        )
        return cut, at


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The box [start_indices, limit_indices) of `operand`, every strides[d]-th element of it.

    Args:
        operand: an array of N dimensions.
        start_indices: N first indices.
        limit_indices: N indices after the last.
        strides: N steps; default 1.

    Raises:
        AttributeValueError: see Slice.
    """
    return bind(
        Slice.instance,
        operand,
        start_indices=listed(start_indices),
        limit_indices=listed(limit_indices),
        strides=listed(strides),
    )


def slice_in_dim(operand: Any, start: int, limit: int, dimension: int, stride: int = 1) -> Any:
    """The indices [start, limit) of one dimension, every `stride`-th, and all of the others.

    Raises:
        AttributeValueError: see Slice.
    """
    (shape,) = Slice.instance.array_shapes([shape_of(operand, "slice_in_dim")])
    sizes = shape.dimensions
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    is_integer = isinstance(dimension, (int, np.integer))
    if not is_integer or dimension not in range(-len(sizes), len(sizes)):
        raise explain(
            AttributeValueError,
            "slice_in_dim",
            f"{dimension!r} is no dimension of the operand",
            [f"operand {shape}"],
            f"dimension must be in [0, {len(sizes)}); a scalar has no dimension.",
        )
    starts[dimension], limits[dimension], strides[dimension] = start, limit, stride
    return slice(operand, starts, limits, strides)


def box(ranges: Iterable[Sequence[int]]) -> tuple[Any, ...]:
    """The index of a NumPy array for a box: (start, limit[, stride]) of each dimension."""
    return (..., *[builtins.slice(*each) for each in ranges])


def inserted(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    """`values` with one more at `position`: what a batch dimension adds to a list of sizes."""
    return (*values[:position], value, *values[position:])
