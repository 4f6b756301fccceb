"""Scatter: combines updates with windows of arrays, at places that an array of indices gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from minixla.core.attributes import Boolean, Instance
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.calls import Call
from minixla_ops.computations import check_computation, computation_of
from minixla_ops.index_numbers import (
    NumbersAttribute,
    ScatterDimensionNumbers,
    batched_numbers,
    numbers_text,
    outer_dimensions,
    outer_place,
    window_sizes,
    without_vectors,
)
from minixla_ops.indexed_windows import IndexedWindows
from minixla_ops.numpy_scatter import apply_updates, target_places
from minixla_ops.rules import array_shape
from minixla_ops.scatter_derivatives import scatter_jvp, scatter_transpose, scatter_vjp
from minixla_ops.scatter_programs import program_for_xla

__all__ = ["scatter"]


@register
class Scatter(IndexedWindows):
    """Combines updates with N arrays, at places that an array of index vectors gives. XLA: Scatter.

    results = operands; then, for each index u of the updates, results[start(g) + window(u)] =
    update_computation(results[start(g) + window(u)]..., updates[u]...): g, the entries of u that
    are not in update_window_dims, selects an index vector of scatter_indices, whose component k is
    the start in operand dimension scatter_dims_to_operand_dims[k]; starts in
    operand_batching_dims are g's own entries, in the others 0. The entries of u in
    update_window_dims index into the window, of which inserted_window_dims and
    operand_batching_dims are left out. Elements outside of the operands are skipped.

    The order of updates is open. Here, and on XLA:CPU, windows follow each other as index vectors
    do. XLA skips windows that lie partly outside as a whole, where StableHLO skips elements; the
    StableHLO form is such that XLA skips elements, too.

    Attributes:
        update_computation: a Graph from N old values and N updates to N new values.
        dimension_numbers: a ScatterDimensionNumbers.
        indices_are_sorted: a promise that the starts ascend; the result is open if they do not.
        unique_indices: a promise that no element is updated twice; the result is open if one is.
        indices_in_bounds: a promise that no window has elements outside of the operands.

    Checks (windows are as IndexedWindows has them):
        (C1) ... (C10) see IndexedWindows.
        (C11) N >= 1 operands, the indices, N updates.
        (C12) operands have equal dimensions.
        (C13) updates have equal dimensions, and each the element type of its operand.
        (C14) the updates' rank is that of the indices without index_vector_dim plus the number of
            update_window_dims.
        (C15) windows are no larger than the operand.
        (C16) the other sizes of the updates are those of the indices without index_vector_dim.
        (C17) update_computation takes and gives scalars of the operands' element types.
    """

    stablehlo_name = "scatter"
    operand_names = ("operands...", "scatter_indices", "updates...")
    attributes = {
        "update_computation": Instance(Graph),
        "dimension_numbers": NumbersAttribute(ScatterDimensionNumbers),
        "indices_are_sorted": Boolean(default=False),
        "unique_indices": Boolean(default=False),
        "indices_in_bounds": Boolean(default=False),
    }

    def operand_labels(self, count: int) -> list[str]:
        half = count // 2
        operands = [f"operands[{index}]" for index in range(half)]
        return [*operands, "scatter_indices", *(f"updates[{i}]" for i in range(count - half - 1))]

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        # Of which update computations this is true its transpose rule knows.
        return not variables[len(variables) // 2]

    def shape(
        self,
        *shapes: Any,
        update_computation: Graph,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        indices_in_bounds: bool,
    ) -> Shape | tuple[Shape, ...]:
        shapes = tuple(self.array_shapes(shapes))
        labels = self.operand_labels(len(shapes))
        given = [f"{label} {shape}" for label, shape in zip(labels, shapes, strict=True)]
        given.append(str(dimension_numbers))
        count = len(shapes) // 2
        if len(shapes) % 2 == 0 or not count:
            self.reject_counts(count, len(shapes) - count - 1, given)
        operands, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
        self._check_arrays(operands, updates, given)
        self.check_numbers(operands[0], indices, dimension_numbers, given)
        self._check_updates(operands[0], indices, updates[0], dimension_numbers, given)
        scalars = [Shape(operand.element_type) for operand in operands]
        check_computation(
            self, "C17", "update_computation", update_computation, [*scalars, *scalars], scalars
        )
        return operands if count > 1 else operands[0]

    def reject_counts(self, operands: int, updates: int, given: Sequence[str]) -> NoReturn:
        """Raises ShapeError (C11) for numbers of operands and updates that do not fit."""
        self.reject(
            "C11",
            f"{operands} operands and {updates} updates",
            given,
            "Give one array of updates for each operand, at least one.",
        )

    def _check_arrays(
        self, operands: Sequence[Shape], updates: Sequence[Shape], given: Sequence[str]
    ) -> None:
        for index, (operand, update) in enumerate(zip(operands, updates, strict=True)):
            if operand.dimensions != operands[0].dimensions:
                self.reject(
                    "C12",
                    f"operands[0] and operands[{index}] differ in dimensions",
                    given,
                    "All operands must have the same dimensions.",
                )
            if update.dimensions != updates[0].dimensions:
                self.reject(
                    "C13",
                    f"updates[0] and updates[{index}] differ in dimensions",
                    given,
                    "All updates must have the same dimensions.",
                )
            if update.element_type is not operand.element_type:
                self.reject(
                    "C13",
                    f"operands[{index}] and updates[{index}] differ in element type",
                    given,
                    "Convert one of them with convert_element_type.",
                )

    def _check_updates(
        self,
        operand: Shape,
        indices: Shape,
        updates: Shape,
        numbers: ScatterDimensionNumbers,
        given: Sequence[str],
    ) -> None:
        outer = without_vectors(indices.dimensions, numbers.index_vector_dim)
        window_dims = numbers.update_window_dims
        if updates.rank != len(outer) + len(window_dims):
            self.reject(
                "C14",
                f"updates have rank {updates.rank}, not {len(outer)} + {len(window_dims)}",
                given,
                "They have a dimension for each one of the indices but index_vector_dim, and for "
                "each one in update_window_dims.",
            )
        for at, size in enumerate(window_sizes(operand.dimensions, updates.dimensions, numbers)):
            inserted = at in numbers.inserted_window_dims or at in numbers.operand_batching_dims
            if size > operand.dimensions[at] and not inserted:
                self.reject(
                    "C15",
                    f"windows have size {size} in dimension {at} of size {operand.dimensions[at]}",
                    given,
                    "Windows must be no larger than the operand.",
                )
        for at, size in zip(outer_dimensions(updates.rank, numbers), outer, strict=True):
            if updates.dimensions[at] != size:
                self.reject(
                    "C16",
                    f"dimension {at} of the updates has size {updates.dimensions[at]}, not {size}",
                    given,
                    "There must be a window for each index vector.",
                )

    def reference(
        self,
        *arrays: np.ndarray,
        update_computation: Graph,
        dimension_numbers: ScatterDimensionNumbers,
        **promises: bool,
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        count = len(arrays) // 2
        operands, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
        numbers, sizes = dimension_numbers, operands[0].shape
        windows = window_sizes(sizes, updates[0].shape, numbers)
        places, inside = target_places(indices, sizes, numbers, windows)
        order = [*outer_dimensions(updates[0].ndim, numbers), *numbers.update_window_dims]
        results = [operand.flatten() for operand in operands]
        values = [update.transpose(order)[inside] for update in updates]
        apply_updates(update_computation, results, places[inside], values)
        shaped = tuple([result.reshape(sizes) for result in results])
        return shaped if count > 1 else shaped[0]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        program = program_for_xla(tuple(shapes), **attributes)
        if program is not None:
            return Call(program).stablehlo(emit, operands, shapes, results)
        count = len(results)
        names, types = list(operands), list(shapes)
        names[count], types[count] = self.stablehlo_indices(emit, names[count], shapes[count])
        return emit.operation(
            "stablehlo.scatter",
            names,
            types,
            results,
            [emit.region(attributes["update_computation"])],
            scatter_dimension_numbers=numbers_text(attributes["dimension_numbers"]),
            indices_are_sorted=attributes["indices_are_sorted"],
            unique_indices=attributes["unique_indices"],
        )

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        *,
        update_computation: Graph,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        indices_in_bounds: bool,
    ) -> dict[str, Any]:
        return {
            **self.hlo_numbers(dimension_numbers),
            "indices_are_sorted": indices_are_sorted or None,
            "unique_indices": unique_indices or None,
            "to_apply": update_computation,
        }

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, **attributes: Any
    ) -> Any:
        count = len(primals) // 2
        given = results if count > 1 else (results,)
        moved = scatter_jvp(primals, tangents, given, **attributes)
        return moved if count > 1 else moved[0]

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        **attributes: Any,
    ) -> Sequence[Any]:
        given = cotangents if len(operands) > 3 else (cotangents,)
        return scatter_transpose(given, operands, linear, **attributes)

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        **attributes: Any,
    ) -> Sequence[Any]:
        if len(operands) == 3:
            cotangents, results = (cotangents,), (results,)
        return scatter_vjp(cotangents, operands, results, active, **attributes)

    def batch(
        self,
        operands: Sequence[Any],
        dimensions: Sequence[int | None],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        **attributes: Any,
    ) -> tuple[Any, Any]:
        count = len(operands) // 2
        size = batch_size(operands, dimensions)
        indices_at = dimensions[count]
        operand_at, updates_at = (
            next((at for at in part if at is not None), 0)
            for part in (dimensions[:count], dimensions[count + 1 :])
        )
        operand_rank, updates_rank = (
            array_shape(operands[each]).rank - (dimensions[each] is not None)
            for each in (0, count + 1)
        )
        ranks = operand_rank, updates_rank
        updates_at = outer_place(dimension_numbers, ranks, operand_at, indices_at, updates_at)
        moved = [
            move_batch(operand, at, operand_at if index < count else updates_at, size)
            if index != count
            else operand
            for index, (operand, at) in enumerate(zip(operands, dimensions, strict=True))
        ]
        results = bind(
            self,
            *moved,
            dimension_numbers=batched_numbers(
                dimension_numbers, operand_at, indices_at, updates_at
            ),
            indices_are_sorted=indices_are_sorted and indices_at is None,
            **attributes,
        )
        return (results, (operand_at,) * count) if count > 1 else (results, operand_at)


def scatter(
    operands: Any,
    scatter_indices: Any,
    updates: Any,
    update_computation: Graph | Callable[..., Any],
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    indices_in_bounds: bool = False,
) -> Any:
    """`operands`, with `updates` combined into windows that `scatter_indices` gives the places of.

    Args:
        operands: an array, or a sequence of N arrays of equal dimensions.
        scatter_indices: an array of integers that holds index vectors along one dimension.
            Elements of windows outside of the operands are skipped.
        updates: an array, or N arrays, of the operands' element types: a window for each index
            vector.
        update_computation: a Graph, or a function such as `add`, from N old values and N updates,
            all scalars, to N new values. Old values come first.
        dimension_numbers: how the dimensions of the arrays belong together.
        indices_are_sorted: a promise that the starts of windows ascend.
        unique_indices: a promise that no element is updated twice.
        indices_in_bounds: a promise that no element of a window is outside of the operands; it
            saves the derivatives, and windows in which a start moves, the work that those need.

    Returns:
        An array like the operand, or a tuple of N.

    Raises:
        ShapeError, AttributeValueError: see Scatter.
        TransformError: the function reads traced values of the enclosing function.
    """
    operands = operands if isinstance(operands, (list, tuple)) else [operands]
    updates = updates if isinstance(updates, (list, tuple)) else [updates]
    instance: Scatter = Scatter.instance
    if not operands or len(operands) != len(updates):
        given = [f"{len(operands)} operands", f"{len(updates)} updates"]
        instance.reject_counts(len(operands), len(updates), given)
    values = [*operands, scatter_indices, *updates]
    shapes = instance.array_shapes([shape_of(value) for value in values])
    scalars = [Shape(shape.element_type) for shape in shapes[: len(operands)]]
    return bind(
        instance,
        *values,
        update_computation=computation_of(update_computation, [*scalars, *scalars], "scatter"),
        dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        indices_in_bounds=indices_in_bounds,
    )
