"""Slice: boxes cut out of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Integers, attribute
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import Operation, register
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla_ops.vocabulary.shorthand import array_shape, splat, written


@register
class Slice(Operation):
    """Cuts a box out of an array, taking every strides[d]-th element of dimension d. XLA: Slice.

    out[i...] = operand[start_indices[d] + i[d] * strides[d], ...]; nothing is clamped.

    Args:
        operand: an array.
        start_indices: the first index of each dimension.
        limit_indices: the index after the last of each dimension.
        strides: the step of each dimension; default 1.

    Returns:
        An array of the box's sizes.

    Checks:
        (C1) each list has one entry for each dimension.
        (C2) 0 <= start <= limit <= size.
        (C3) strides are >= 1.
        (C4) a dynamic dimension is taken whole.
    """

    stablehlo_name = "slice"
    operands = ("operand",)
    start_indices: Sequence[int] = attribute(Integers())
    limit_indices: Sequence[int] = attribute(Integers())
    strides: Sequence[int] = attribute(Integers(), default=None)
    linear_operands = dynamic_operands = (0,)

    @classmethod
    def _canonical(cls, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        found = super()._canonical(values, named)
        if found["strides"] is None:
            found["strides"] = (1,) * len(found["start_indices"])
        return found

    def _ranges(self) -> Iterable[tuple[int, int, int]]:
        """Start, limit and stride of each dimension."""
        return zip(self.start_indices, self.limit_indices, self.strides, strict=True)

    def shape(self, operand):
        (operand,) = self.array_shapes([operand])
        if {*map(len, self.values.values())} != {operand.rank}:
            advice = "Give one start, one limit and one stride for each dimension."
            self.refuse_attribute("C1", f"a list does not have {operand.rank} entries", advice)
        sizes = []
        for at, (start, limit, stride) in enumerate(self._ranges()):
            size = operand.dimensions[at]
            if not 0 <= start <= limit <= size:
                self.refuse_attribute(
                    "C2",
                    f"[{start}, {limit}) is not within dimension {at} of size {size}",
                    "0 <= start <= limit <= size must hold; dynamic_slice clamps, slice does not.",
                )
            if stride < 1:
                advice = "Reverse with rev, strides are positive."
                self.refuse_attribute("C3", "a stride is less than 1", advice)
            sizes.append(-(-(limit - start) // stride))
            if operand.dynamic[at] and (sizes[at], stride) != (size, 1):
                self.refuse(
                    "C4",
                    f"dimension {at} is dynamic, and not taken whole",
                    "Set its size back to the bound with set_dimension_size, which fills up with "
                    "zeros, or use dynamic_slice.",
                )
        return Shape(operand.element_type, sizes, operand.dynamic)

    def reference(self, operand):
        return operand[box(self._ranges())]

    def stablehlo(self, emit, operands, shapes, results):
        ranges = ", ".join([f"{start}:{limit}:{stride}" for start, limit, stride in self._ranges()])
        types = f"({shapes[0].stablehlo}) -> {results[0].stablehlo}"
        return written(emit, f"stablehlo.slice {operands[0]} [{ranges}] : {types}")

    def hlo_attributes(self, shapes):
        return {"slice": tuple([f"[{one}:{other}:{by}]" for one, other, by in self._ranges()])}

    def transpose(self, cotangents, operands, linear):
        config = []
        whole, cut = array_shape(operands[0]), array_shape(cotangents)
        for start, stride, size, count in zip(
            self.start_indices, self.strides, whole.dimensions, cut.dimensions, strict=True
        ):
            end = start + (count - 1) * stride + 1 if count else start
            config.append((start, size - end, stride - 1))
        return (ops.pad(cotangents, splat(0, Shape(whole.element_type)), tuple(config)),)

    def batch(self, operands, dimensions):
        at = dimensions[0] or 0
        size = array_shape(operands[0]).dimensions[at]
        pairs = zip(self.values.values(), (0, size, 1), strict=True)
        return ops.slice(operands[0], *[inserted(each, at, whole) for each, whole in pairs]), at


def slice_in_dim(operand: Any, start: int, limit: int, dimension: int, stride: int = 1) -> Any:
    """The indices [start, limit) of one dimension, every `stride`-th, and all of the others.

    Raises:
        AttributeValueError: see Slice.
    """
    (shape,) = Slice((), ()).array_shapes([shape_of(operand, "slice_in_dim")])
    sizes = shape.dimensions
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    is_integer = isinstance(dimension, (int, np.integer))
    if not is_integer or dimension not in range(-len(sizes), len(sizes)):
        problem = f"{dimension!r} is no dimension of the operand"
        advice = f"dimension must be in [0, {len(sizes)}); a scalar has no dimension."
        raise explain(AttributeValueError, "slice_in_dim", problem, [f"operand {shape}"], advice)
    starts[dimension], limits[dimension], strides[dimension] = start, limit, stride
    return ops.slice(operand, tuple(starts), tuple(limits), tuple(strides))


def box(ranges: Iterable[Sequence[int]]) -> tuple[Any, ...]:
    """The index of a NumPy array for a box: (start, limit[, stride]) of each dimension."""
    return (..., *[slice(*each) for each in ranges])


def inserted(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    """`values` with one more at `position`: what a batch dimension adds to a list of sizes."""
    return (*values[:position], value, *values[position:])
