"""Gather: copies windows out of an array, from places that an array of indices gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Boolean, Integers
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.batching import batch_size
from minixla_ops.index_numbers import (
    GatherDimensionNumbers,
    NumbersAttribute,
    ScatterDimensionNumbers,
    batched_numbers,
    interleaved,
    numbers_text,
    outer_place,
    window_dimensions,
    without_vectors,
)
from minixla_ops.indexed_windows import IndexedWindows, window_starts
from minixla_ops.rules import array_shape, listed, zeros

__all__ = ["gather"]


@register
class Gather(IndexedWindows):
    """Copies slices of an array, from starts that an array of index vectors gives. XLA: Gather.

    out[g..., o...] = operand[start(g) + offset(o)]: g, the result's dimensions that are not in
    offset_dims, selects an index vector of start_indices, whose component k is the start in
    operand dimension start_index_map[k]; starts in operand_batching_dims are g's own entries, in
    the others 0. o indexes into the slice, of which collapsed_slice_dims and
    operand_batching_dims are left out. As dynamic_slice does, it clamps starts to
    [0, operand size - slice size].

    Attributes:
        dimension_numbers: a GatherDimensionNumbers.
        slice_sizes: the slice's size in each dimension of the operand.
        indices_are_sorted: a promise that the starts ascend; the result is open if they do not.

    Checks:
        (C1) ... (C10) see IndexedWindows.
        (C11) one slice size for each dimension of the operand.
        (C12) 0 <= slice size <= operand size.
        (C13) slice sizes in collapsed_slice_dims and operand_batching_dims are 1; an empty result
            may have 0 there.
    """

    stablehlo_name = "gather"
    operand_names = ("operand", "start_indices")
    attributes = {
        "dimension_numbers": NumbersAttribute(GatherDimensionNumbers),
        "slice_sizes": Integers(),
        "indices_are_sorted": Boolean(default=False),
    }
    linear_operands = (0,)
    dynamic_operands = (1,)

    def shape(
        self,
        operand: Any,
        start_indices: Any,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> Shape:
        operand, start_indices = self.array_shapes([operand, start_indices])
        given = [
            f"operand {operand}",
            f"start_indices {start_indices}",
            str(dimension_numbers),
            f"slice_sizes {slice_sizes}",
        ]
        self.check_numbers(operand, start_indices, dimension_numbers, given)
        self._check_slice(operand, slice_sizes, given)
        window = [slice_sizes[d] for d in window_dimensions(operand.rank, dimension_numbers)]
        sizes, dynamic = (
            interleaved(
                without_vectors(each, dimension_numbers.index_vector_dim),
                of_window,
                dimension_numbers.offset_dims,
            )
            for each, of_window in [
                (start_indices.dimensions, window),
                (start_indices.dynamic, [False] * len(window)),
            ]
        )
        result = Shape(operand.element_type, sizes, dynamic)
        self._check_collapsed(result, dimension_numbers, slice_sizes, given)
        return result

    def _check_slice(self, operand: Shape, slice_sizes: Sequence[int], given: list[str]) -> None:
        if len(slice_sizes) != operand.rank:
            self.reject_attribute(
                "C11",
                f"{len(slice_sizes)} slice sizes for an operand of rank {operand.rank}",
                given,
                "Give one size for each dimension of the operand, collapsed ones too.",
            )
        for at, (part, size) in enumerate(zip(slice_sizes, operand.dimensions, strict=True)):
            if not 0 <= part <= size:
                self.reject_attribute(
                    "C12",
                    f"a slice of size {part} is not within dimension {at} of size {size}",
                    given,
                    "0 <= slice size <= operand size must hold.",
                )

    def _check_collapsed(
        self,
        result: Shape,
        numbers: GatherDimensionNumbers,
        slice_sizes: Sequence[int],
        given: list[str],
    ) -> None:
        for at in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims):
            if slice_sizes[at] > 1 or (slice_sizes[at] == 0 and result.size):
                self.reject_attribute(
                    "C13",
                    f"the result lacks dimension {at}, but its slice size is {slice_sizes[at]}",
                    given,
                    "Slice sizes in collapsed_slice_dims and operand_batching_dims must be 1.",
                )

    def reference(
        self,
        operand: np.ndarray,
        start_indices: np.ndarray,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> np.ndarray:
        numbers = dimension_numbers
        windows = window_dimensions(operand.ndim, numbers)
        # Dimensions in which no start moves are cut first and then copied in whole rows.
        fixed = [d for d in windows if d not in numbers.start_index_map]
        moving = [d for d in range(operand.ndim) if d not in fixed]
        spread = [d for d in windows if d in moving]
        outer, starts = window_starts(start_indices, operand.shape, numbers)
        sizes = (*outer, *(slice_sizes[d] for d in spread))
        rows = operand.transpose([*moving, *fixed])
        rows = rows[(..., *(slice(slice_sizes[d]) for d in fixed))]
        if 0 in sizes:
            gathered = np.empty([*sizes, *rows.shape[len(moving) :]], operand.dtype)
        elif not moving:
            gathered = np.broadcast_to(rows, [*sizes, *rows.shape])
        else:
            places = []
            for d in moving:
                place = np.clip(starts[d], 0, operand.shape[d] - slice_sizes[d])
                place = np.expand_dims(place, tuple(range(len(outer), len(sizes))))
                if d in spread:
                    after = len(spread) - spread.index(d) - 1
                    place = place + np.arange(slice_sizes[d]).reshape(-1, *[1] * after)
                places.append(np.broadcast_to(place, sizes))
            gathered = rows[tuple(places)]
        window_axes = [len(outer) + [*spread, *fixed].index(d) for d in windows]
        return gathered.transpose(interleaved(range(len(outer)), window_axes, numbers.offset_dims))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> Sequence[str]:
        indices, shape = self.stablehlo_indices(emit, operands[1], shapes[1])
        return emit.operation(
            "stablehlo.gather",
            [operands[0], indices],
            [shapes[0], shape],
            results,
            dimension_numbers=numbers_text(dimension_numbers),
            slice_sizes=slice_sizes,
            indices_are_sorted=indices_are_sorted,
        )

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> dict[str, Any]:
        return {
            **self.hlo_numbers(dimension_numbers),
            "slice_sizes": slice_sizes,
            "indices_are_sorted": indices_are_sorted or None,
        }

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> Sequence[Any]:
        from minixla_ops.binary import add
        from minixla_ops.gather_scatter import clamped_starts
        from minixla_ops.scatter import scatter

        operand, indices = operands
        shape = array_shape(operand)
        if not array_shape(cotangents).size:
            return None, None
        total = scatter(
            zeros(shape),
            clamped_starts(indices, dimension_numbers, shape.dimensions, slice_sizes),
            cotangents,
            add,
            ScatterDimensionNumbers(*dimension_numbers),
            # Clamping keeps the order of single components, but not that of whole vectors.
            indices_are_sorted and len(dimension_numbers.start_index_map) == 1,
            indices_in_bounds=True,
        )
        return total, None

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool,
    ) -> tuple[Any, int]:
        operand_at, indices_at = dimensions
        sizes = list(slice_sizes)
        if operand_at is not None:
            size = batch_size(operands, dimensions)
            sizes.insert(operand_at, size if indices_at is None else min(size, 1))
        rank = array_shape(operands[1]).rank - (indices_at is not None)
        outer = without_vectors(range(rank), dimension_numbers.index_vector_dim)
        ranks = len(slice_sizes), len(dimension_numbers.offset_dims) + len(outer)
        wanted = operand_at if indices_at is None else indices_at
        out = outer_place(dimension_numbers, ranks, operand_at, indices_at, wanted or 0)
        numbers = batched_numbers(dimension_numbers, operand_at, indices_at, out)
        is_sorted = indices_are_sorted and indices_at is None
        return gather(operands[0], operands[1], numbers, sizes, is_sorted), out


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> Any:
    """Slices of `operand`, from starts that the index vectors in `start_indices` give.

    Args:
        operand: an array of any element type.
        start_indices: an array of integers that holds index vectors along one dimension. Starts
            are clamped so that each slice is inside the operand.
        dimension_numbers: how the dimensions of the arrays belong together.
        slice_sizes: the size of a slice in each dimension of the operand.
        indices_are_sorted: a promise that the starts ascend.

    Returns:
        An array of the operand's element type: a slice for each index vector.

    Raises:
        ShapeError, AttributeValueError: see Gather.
    """
    return bind(
        Gather.instance,
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=listed(slice_sizes),
        indices_are_sorted=indices_are_sorted,
    )
