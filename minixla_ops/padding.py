"""Pad: a value put around and between the elements of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Integers
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import move_batch
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.rules import array_shape, listed, splat, sum_over, zeros
from minixla_ops.selection import select
from minixla_ops.slicing import box, inserted, slice

__all__ = ["pad"]

Triples = tuple[tuple[int, int, int], ...]


@register
class Pad(Operation):
    """Puts a value around and between the elements, or takes edges away. XLA: Pad.

    In each dimension `interior` values are put between neighbours, then `low` before the first and
    `high` after the last element; a negative `low` or `high` removes that many instead.

    Attributes:
        padding_config: for each dimension (edge_padding_low, edge_padding_high, interior_padding).

    Checks:
        (C1) padding_value is a scalar of the operand's element type.
        (C2) one triple for each dimension.
        (C3) interior paddings are >= 0.
        (C4) no size of the result is negative.
    """

    stablehlo_name = "pad"
    operand_names = ("operand", "padding_value")
    attributes = {"padding_config": SequenceOf(Integers())}
    linear_operands = (0, 1)
    dynamic_operands = (0,)

    def shape(self, operand: Any, padding_value: Any, *, padding_config: Triples) -> Shape:
        operand, padding_value = self.array_shapes([operand, padding_value])
        given = [
            f"operand {operand}",
            f"padding_value {padding_value}",
            f"padding_config {padding_config}",
        ]
        if padding_value is not Shape(operand.element_type):
            self.reject(
                "C1",
                f"padding_value is not a scalar of type {operand.element_type}",
                given,
                "Give a scalar of the operand's element type.",
            )
        if len(padding_config) != operand.rank or any(len(each) != 3 for each in padding_config):
            self.reject_attribute(
                "C2",
                f"padding_config is not {operand.rank} triples",
                given,
                "Give (low, high, interior) for each dimension.",
            )
        sizes = []
        for at, (size, config) in enumerate(zip(operand.dimensions, padding_config, strict=True)):
            low, high, interior = config
            if interior < 0:
                self.reject_attribute(
                    "C3",
                    f"the interior padding of dimension {at} is negative",
                    given,
                    "Only edges can be removed; take every n-th element with slice.",
                )
            sizes.append(low + size + max(size - 1, 0) * interior + high)
            if sizes[-1] < 0:
                self.reject_attribute(
                    "C4",
                    f"dimension {at} would have size {sizes[-1]}",
                    given,
                    "No more can be removed than there is.",
                )
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(
        self, operand: np.ndarray, padding_value: np.ndarray, *, padding_config: Triples
    ) -> np.ndarray:
        spread, inside, kept = [], [], []
        for size, (low, high, interior) in zip(operand.shape, padding_config, strict=True):
            first, dilated = max(low, 0), size + max(size - 1, 0) * interior
            spread.append(first + dilated + max(high, 0))
            inside.append((first, first + dilated, interior + 1))
            kept.append((max(-low, 0), spread[-1] - max(-high, 0)))
        result = np.full(spread, padding_value, operand.dtype)
        result[box(inside)] = operand
        return result[box(kept)]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        padding_config: Triples,
    ) -> Sequence[str]:
        low, high, interior = ([each[k] for each in padding_config] for k in range(3))
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.pad {operands[0]}, {operands[1]}, low = {low}, high = {high}, "
            f"interior = {interior} : ({shapes[0].stablehlo}, {shapes[1].stablehlo})"
            f" -> {results[0].stablehlo}"
        )
        return [name]

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        *,
        padding_config: Triples,
    ) -> str:
        if not padding_config:  # HLO's notation has no pad of a scalar
            return emit.instruction("copy", operands[:1], result)
        padding = "x".join([f"{low}_{high}_{interior}" for low, high, interior in padding_config])
        return emit.instruction("pad", operands, result, padding=padding)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        padding_config: Triples,
    ) -> Sequence[Any]:
        whole = array_shape(operands[0])
        return [
            _unpad(cotangents, whole, padding_config) if linear[0] else None,
            _sum_of_padding(cotangents, whole, padding_config) if linear[1] else None,
        ]

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        padding_config: Triples,
    ) -> tuple[Any, int]:
        operand, padding_value = operands
        at, value_at = dimensions
        if value_at is None:
            assert at is not None
            return pad(operand, padding_value, inserted(padding_config, at, (0, 0, 0))), at
        return _pad_with_each(operand, padding_value, at, padding_config)


def _unpad(cotangent: Any, operand: Shape, padding_config: Triples) -> Any:
    """What of a result of `pad` came from the operand; zero where an edge was removed."""
    edges = [(-low, -high, 0) for low, high, _ in padding_config]
    inside = pad(cotangent, splat(0, Shape(operand.element_type)), edges)
    strides = [interior + 1 for _, _, interior in padding_config]
    return slice(inside, (0,) * operand.rank, array_shape(inside).dimensions, strides)


def _is_padding(operand: Shape, padding_config: Triples) -> Any:
    """A mask, where a result of `pad` has the padding value."""
    inside = splat(False, Shape("pred", operand.dimensions))
    return pad(inside, splat(True, Shape("pred")), padding_config)


def _sum_of_padding(cotangent: Any, operand: Shape, padding_config: Triples) -> Any:
    # Not the difference of two sums, as elsewhere: it cancels, and is NaN where both are infinite.
    mask = _is_padding(operand, padding_config)
    padding = select(mask, cotangent, zeros(array_shape(cotangent)))
    return sum_over(padding, range(operand.rank))


def _pad_with_each(
    operand: Any, padding_value: Any, at: int | None, padding_config: Triples
) -> tuple[Any, int]:
    """Pad over a batch of padding values."""
    (size,) = array_shape(padding_value).dimensions
    operand = move_batch(operand, at, 0, size)
    config = ((0, 0, 0), *padding_config)
    whole = array_shape(operand)
    padded = pad(operand, splat(0, Shape(whole.element_type)), config)
    values = broadcast_in_dim(padding_value, array_shape(padded).dimensions, (0,))
    return select(_is_padding(whole, config), values, padded), 0


def pad(operand: Any, padding_value: Any, padding_config: Sequence[Sequence[int]]) -> Any:
    """`operand` with `padding_value` around and between its elements, or with edges removed.

    Args:
        operand: an array.
        padding_value: a scalar of the same element type.
        padding_config: for each dimension (low, high, interior); low and high may be negative.

    Raises:
        ShapeError, AttributeValueError: see Pad.
    """
    config = listed(padding_config, 2)
    return bind(Pad.instance, operand, padding_value, padding_config=config)
