"""ConcatInDim, and by its side what else moves elements: slices, padding, reshapes, transposes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from minixla.core.attributes import Integer
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import align_batches
from minixla_ops.casting import emit_widened
from minixla_ops.padding import pad
from minixla_ops.reshaping import reshape, transpose
from minixla_ops.rules import array_shape, operand_list
from minixla_ops.slicing import slice, slice_in_dim

__all__ = ["concat_in_dim", "pad", "reshape", "slice", "slice_in_dim", "transpose"]


@register
class ConcatInDim(Operation):
    """Joins arrays along one dimension, in the given order. XLA: ConcatInDim.

    Attributes:
        dimension: the dimension to join along.

    Checks:
        (C1) at least one operand.
        (C2) dimension is one of the operands' dimensions; scalars have none.
        (C3) operands have equal element types, ranks and, but for `dimension`, sizes.
    """

    hlo_name = "concatenate"
    stablehlo_name = "concatenate"
    operand_names = ("operands...",)
    attributes = {"dimension": Integer()}

    linear_operands = dynamic_operands = EVERY_OPERAND

    def shape(self, *operands: Any, dimension: int) -> Shape:
        shapes = self.array_shapes(operands)
        given = [f"operand {i}: {shape}" for i, shape in enumerate(shapes)]
        given.append(f"dimension {dimension}")
        if not shapes:
            self.reject("C1", "no operand was given", given, "Give one array or more.")
        first = shapes[0]
        if not 0 <= dimension < first.rank:
            self.reject_attribute(
                "C2",
                f"dimension {dimension} is no dimension of operands of rank {first.rank}",
                given,
                f"It must be in [0, {first.rank})."
                if first.rank
                else "Scalars cannot be joined: give each a dimension of size 1 with reshape.",
            )
        for index, shape in enumerate(shapes):
            if not _joins(first, shape, dimension):
                self.reject(
                    "C3",
                    f"operand {index} does not fit operand 0",
                    given,
                    "Element types, ranks and all sizes but the joined one must be equal.",
                )
        total = sum(shape.dimensions[dimension] for shape in shapes)
        sizes = (*first.dimensions[:dimension], total, *first.dimensions[dimension + 1 :])
        dynamic = map(any, zip(*[shape.dynamic for shape in shapes], strict=True))
        return Shape(first.element_type, sizes, dynamic)

    def reference(self, *operands: np.ndarray, dimension: int) -> np.ndarray:
        # Where one is dynamic, the others may be longer in a dimension that is not joined.
        least = np.min([each.shape for each in operands], axis=0)
        kept = [np.s_[:size] for size in least]
        kept[dimension] = np.s_[:]
        return np.concatenate([each[tuple(kept)] for each in operands], dimension)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        dimension: int,
    ) -> Sequence[str]:
        # XLA:CPU ends the process where it joins arrays of 2-bit integers.
        if emit.platform == "cpu" and shapes[0].element_type.bits == 2:  # type: ignore[union-attr]
            write = partial(self.stablehlo, emit, dimension=dimension)
            return emit_widened(emit, write, operands, shapes, results)
        return emit.operation(
            "stablehlo.concatenate", operands, shapes, results, dimension=dimension
        )

    def hlo_attributes(self, shapes: Sequence[AnyShape], *, dimension: int) -> dict[str, Any]:
        return {"dimensions": (dimension,)}

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        dimension: int,
    ) -> Sequence[Any]:
        if array_shape(cotangents).dynamic[dimension]:
            from minixla_ops.dynamic_sizes import dynamic_parts

            return dynamic_parts(cotangents, operands, linear, dimension)
        result: list[Any] = []
        start = 0
        for operand, wanted in zip(operands, linear, strict=True):
            limit = start + array_shape(operand).dimensions[dimension]
            result.append(slice_in_dim(cotangents, start, limit, dimension) if wanted else None)
            start = limit
        return result

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], *, dimension: int
    ) -> tuple[Any, int]:
        aligned, at = align_batches(operands, dimensions)
        return concat_in_dim(aligned, dimension + (dimension >= at)), at


def _joins(first: Shape, other: Shape, dimension: int) -> bool:
    if first.element_type is not other.element_type or first.rank != other.rank:
        return False
    pairs = enumerate(zip(first.dimensions, other.dimensions, strict=True))
    return all(one == two or at == dimension for at, (one, two) in pairs)


def concat_in_dim(operands: Sequence[Any], dimension: int) -> Any:
    """The operands joined along `dimension`.

    Args:
        operands: one array or more, of equal element type and of equal sizes but for `dimension`.
        dimension: the dimension to join along.

    Raises:
        ShapeError, AttributeValueError: see ConcatInDim.
    """
    members = operand_list(operands, "concat_in_dim", "operands")
    return bind(ConcatInDim.instance, *members, dimension=dimension)
