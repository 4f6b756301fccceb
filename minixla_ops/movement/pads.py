"""Pad: a value put around and between the elements of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Integers, attribute
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.operation import Operation, register
from minixla.core.shapes import Shape
from minixla_ops.movement.slicing import box, inserted
from minixla_ops.programs.computations import sum_over
from minixla_ops.vocabulary.batch_dimensions import move_batch
from minixla_ops.vocabulary.shorthand import array_shape, splat, written, zeros_like

Triples = tuple[tuple[int, int, int], ...]


@register
class Pad(Operation):
    """Puts a value around and between the elements, or takes edges away. XLA: Pad.

    In each dimension `interior` values are put between neighbours, then `low` before the first and
    `high` after the last element; a negative `low` or `high` removes that many instead.

    Args:
        operand: an array.
        padding_value: a scalar of the same element type.
        padding_config: for each dimension (low, high, interior).

    Returns:
        An array of the operand's element type.

    Checks:
        (C1) padding_value is a scalar of the operand's element type.
        (C2) one triple for each dimension.
        (C3) interior paddings are >= 0.
        (C4) no size of the result is negative.
    """

    stablehlo_name = "pad"
    operands = "operand", "padding_value"
    padding_config: Triples = attribute(SequenceOf(Integers()))
    linear_operands = (0, 1)
    dynamic_operands = (0,)

    def shape(self, operand, padding_value):
        operand, padding_value = self.array_shapes([operand, padding_value])
        config = self.padding_config
        if padding_value is not Shape(operand.element_type):
            problem = f"padding_value is not a scalar of type {operand.element_type}"
            self.refuse("C1", problem, "Give a scalar of the operand's element type.")
        if len(config) != operand.rank or any(len(each) != 3 for each in config):
            problem = f"padding_config is not {operand.rank} triples"
            self.refuse_attribute("C2", problem, "Give (low, high, interior) for each dimension.")
        sizes = []
        for at, (size, (low, high, interior)) in enumerate(
            zip(operand.dimensions, config, strict=True)
        ):
            if interior < 0:
                problem = f"the interior padding of dimension {at} is negative"
                advice = "Only edges can be removed; take every n-th element with slice."
                self.refuse_attribute("C3", problem, advice)
            sizes.append(low + size + max(size - 1, 0) * interior + high)
            if sizes[-1] < 0:
                problem = f"dimension {at} would have size {sizes[-1]}"
                self.refuse_attribute("C4", problem, "No more can be removed than there is.")
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
        low, high, interior = ([each[k] for each in self.padding_config] for k in range(3))
        return written(
            emit,
            f"stablehlo.pad {operands[0]}, {operands[1]}, low = {low}, high = {high}, "
            f"interior = {interior} : ({shapes[0].stablehlo}, {shapes[1].stablehlo})"
            f" -> {results[0].stablehlo}",
        )

    def hlo(self, emit, operands, shapes, result):
        if not self.padding_config:  # HLO's notation has no pad of a scalar
            return emit.instruction("copy", operands[:1], result)
        padding = "x".join(["_".join(map(str, each)) for each in self.padding_config])
        return emit.instruction("pad", operands, result, padding=padding)

    def transpose(self, cotangents, operands, linear):
        whole, config = array_shape(operands[0]), self.padding_config
        of_operand = _unpad(cotangents, whole, config) if linear[0] else None
        if not linear[1]:
            return of_operand, None
        # Not two sums' difference, as elsewhere: it cancels, and is NaN where both are infinite.
        padding = ops.select(_is_padding(whole, config), cotangents, zeros_like(cotangents))
        return of_operand, sum_over(padding, range(whole.rank))

    def batch(self, operands, dimensions):
        (operand, padding_value), (at, value_at) = operands, dimensions
        if value_at is None:
            return ops.pad(operand, padding_value, inserted(self.padding_config, at, (0, 0, 0))), at
        return _pad_with_each(operand, padding_value, at, self.padding_config)


def _unpad(cotangent: Any, operand: Shape, padding_config: Triples) -> Any:
    """What of a result of `pad` came from the operand; zero where an edge was removed."""
    edges = tuple([(-low, -high, 0) for low, high, _ in padding_config])
    inside = ops.pad(cotangent, splat(0, Shape(operand.element_type)), edges)
    strides = tuple([interior + 1 for _, _, interior in padding_config])
    return ops.slice(inside, (0,) * operand.rank, array_shape(inside).dimensions, strides)


def _is_padding(operand: Shape, padding_config: Triples) -> Any:
    """A mask, where a result of `pad` has the padding value."""
    inside = splat(False, Shape("pred", operand.dimensions))
    return ops.pad(inside, splat(True, Shape("pred")), padding_config)


def _pad_with_each(
    operand: Any, padding_value: Any, at: int | None, padding_config: Triples
) -> tuple[Any, int]:
    """Pad over a batch of padding values."""
    (size,) = array_shape(padding_value).dimensions
    operand = move_batch(operand, at, 0, size)
    config = ((0, 0, 0), *padding_config)
    whole = array_shape(operand)
    padded = ops.pad(operand, splat(0, Shape(whole.element_type)), config)
    values = ops.broadcast_in_dim(padding_value, array_shape(padded).dimensions, (0,))
    return ops.select(_is_padding(whole, config), values, padded), 0
