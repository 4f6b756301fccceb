"""Windows of a scatter that XLA skips."""

import math
from typing import Any

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.batch_dimensions import shifted
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple, zeros
from minixla_ops.indexing import index_numbers, window_bounds
from minixla_ops.indexing.index_numbers import ScatterDimensionNumbers
from minixla_ops.indexing.scatter import Scatter
from minixla_ops.indexing.scatter_computations import split


def _windows(operation: Scatter, operand: Shape, updates: Shape) -> tuple[int, ...]:
    numbers = operation.dimension_numbers
    return index_numbers.window_sizes(operand.dimensions, updates.dimensions, numbers)


def _may_leave(operation: Any, operands: Operands, target: Target) -> bool:
    windows = _windows(operation, operands[0].shape, operands[-1].shape)
    is_promised, numbers = operation.indices_in_bounds, operation.dimension_numbers
    return not is_promised and window_bounds.may_lie_partly_outside(numbers, windows)


@legalize(Scatter, "cpu", when=_may_leave)
@legalize(Scatter, "cuda", when=_may_leave)
@legalize(Scatter, "rocm", when=_may_leave)
@legalize(Scatter, "tpu", when=_may_leave)
def windows_partly_outside(operation: Scatter, operands: Operands, target: Target) -> Any:
    """XLA skips a window that lies partly outside; StableHLO skips only the elements outside.

    A frame around the arrays receives the elements outside.
    """
    arrays, indices, updates = split(operands)
    sizes, numbers = array_shape(arrays[0]).dimensions, operation.dimension_numbers
    windows = _windows(operation, array_shape(arrays[0]), array_shape(updates[0]))
    config, moved = window_bounds.into_padding(indices, numbers, sizes, windows)
    # In the frame, windows may overlap that have no target in common, and be in another order.
    inside = Scatter(numbers, operation.update_computation, indices_in_bounds=True)
    framed = [window_bounds.framed(array, config) for array in arrays]
    results = inside(*framed, moved, *updates)
    return as_results([window_bounds.unframed(result, config) for result in as_tuple(results)])


def _is_without_indices(operation: Any, operands: Operands, target: Target) -> bool:
    updates = operands[-1].shape
    windows = _windows(operation, operands[0].shape, updates)
    is_indexed = operation.dimension_numbers.scatter_dims_to_operand_dims
    return not is_indexed and updates.size > math.prod(windows)


@legalize(Scatter, "cpu", when=_is_without_indices)
@legalize(Scatter, "cuda", when=_is_without_indices)
@legalize(Scatter, "rocm", when=_is_without_indices)
@legalize(Scatter, "tpu", when=_is_without_indices)
def windows_without_indices(operation: Scatter, operands: Operands, target: Target) -> Any:
    """XLA may drop windows whose index vectors are empty, or refuse the program.

    One more dimension of the arrays gets the index 0.
    """
    arrays, indices, updates = split(operands)
    numbers = operation.dimension_numbers
    sizes, at = array_shape(arrays[0]).dimensions, numbers.index_vector_dim
    outer = index_numbers.without_vectors(array_shape(indices).dimensions, at)
    inserted, batching = (shifted(dimensions, 0) for dimensions in (numbers[1], numbers[4]))
    along = [d - (d > at) for d in numbers.scatter_indices_batching_dims]
    parts = (0, *inserted), (0,), len(outer), batching, along
    indexed = ScatterDimensionNumbers(numbers.update_window_dims, *parts)
    raised = [ops.reshape(array, (1, *sizes)) for array in arrays]
    start = zeros(Shape("s32", (*outer, 1)))
    inside = Scatter(indexed, operation.update_computation, indices_in_bounds=True)
    results = as_tuple(inside(*raised, start, *updates))
    return as_results([ops.reshape(result, sizes) for result in results])
