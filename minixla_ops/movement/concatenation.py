"""ConcatInDim: arrays joined along a dimension."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Dimension, attribute
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import Shape
from minixla_ops.dynamic_sizes.dimension_sizes import dynamic_parts
from minixla_ops.vocabulary.batch_dimensions import align_batches
from minixla_ops.vocabulary.casting import emit_widened
from minixla_ops.vocabulary.shorthand import array_shape


@register
class ConcatInDim(Operation):
    """Joins arrays along one dimension, in the given order. XLA: ConcatInDim.

    Args:
        operands: one array or more, of equal element type and of equal sizes but for `dimension`.
        dimension: the dimension to join along.

    Returns:
        An array whose size in that dimension is the sum of theirs.

    Checks:
        (C1) at least one operand.
        (C2) dimension is one of the operands' dimensions; scalars have none.
        (C3) operands have equal element types, ranks and, but for `dimension`, sizes.
    """

    hlo_name = "concatenate"
    stablehlo_name = "concatenate"
    operands = ("operands...",)
    dimension: int = attribute(Dimension(), hlo="dimensions")
    linear_operands = dynamic_operands = EVERY_OPERAND

    def shape(self, *operands):
        shapes, at = self.array_shapes(operands), self.dimension
        if not shapes:
            self.refuse("C1", "no operand was given", "Give one array or more.")
        first = shapes[0]
        if not 0 <= at < first.rank:
            problem = f"dimension {at} is no dimension of operands of rank {first.rank}"
            scalars = "Scalars cannot be joined: give each a dimension of size 1 with reshape."
            advice = f"It must be in [0, {first.rank})." if first.rank else scalars
            self.refuse_attribute("C2", problem, advice)

        def rest(shape: Shape) -> tuple[Any, ...]:
            sizes = shape.dimensions
            return shape.element_type, shape.rank, sizes[:at], sizes[at + 1 :]

        for index, shape in enumerate(shapes):
            if rest(shape) != rest(first):
                advice = "Element types, ranks and all sizes but the joined one must be equal."
                self.refuse("C3", f"operand {index} does not fit operand 0", advice)
        sizes = list(first.dimensions)
        sizes[at] = sum(shape.dimensions[at] for shape in shapes)
        dynamic = map(any, zip(*[shape.dynamic for shape in shapes], strict=True))
        return Shape(first.element_type, sizes, dynamic)

    def reference(self, *operands):
        # Where one is dynamic, the others may be longer in a dimension that is not joined.
        least = np.min([each.shape for each in operands], axis=0)
        kept = [np.s_[:size] for size in least]
        kept[self.dimension] = np.s_[:]
        return np.concatenate([each[tuple(kept)] for each in operands], self.dimension)

    def stablehlo(self, emit, operands, shapes, results):
        # XLA:CPU ends the process where it joins arrays of 2-bit integers.
        if emit.platform == "cpu" and results[0].element_type.bits == 2:  # type: ignore[union-attr]  # an array
            return emit_widened(emit, partial(self.stablehlo, emit), operands, shapes, results)
        return super().stablehlo(emit, operands, shapes, results)

    def transpose(self, cotangents, operands, linear):
        at = self.dimension
        if array_shape(cotangents).dynamic[at]:
            return dynamic_parts(cotangents, operands, linear, at)
        ends = [0, *accumulate([array_shape(each).dimensions[at] for each in operands])]
        return [
            ops.slice_in_dim(cotangents, start, limit, at) if wanted else None
            for (start, limit), wanted in zip(pairwise(ends), linear, strict=True)
        ]

    def batch(self, operands, dimensions):
        aligned, at = align_batches(operands, dimensions)
        return ops.concat_in_dim(aligned, self.dimension + (self.dimension >= at)), at
