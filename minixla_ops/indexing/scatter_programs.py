"""Scatters that XLA gets wrong, as programs of those that it gets right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla_ops.indexing.bounded_windows import (
    framed,
    into_padding,
    may_lie_partly_outside,
    unframed,
)
from minixla_ops.indexing.index_numbers import (
    ScatterDimensionNumbers,
    window_sizes,
    without_vectors,
)
from minixla_ops.indexing.scatter_computations import split
from minixla_ops.programs.computations import program_of
from minixla_ops.vocabulary.shorthand import array_shape, as_tuple, zeros

if TYPE_CHECKING:
    from minixla_ops.indexing.scatter import Scatter

Values = Sequence[Any]


def program_for_xla(operation: Scatter, shapes: tuple[Any, ...]) -> Graph | None:
    """What to run in the place of a scatter of arrays of `shapes`; None for the scatter itself."""
    operand, updates = shapes[0], shapes[-1]
    computation, numbers = operation.update_computation, operation.dimension_numbers
    windows = window_sizes(operand.dimensions, updates.dimensions, numbers)
    program: Callable[..., Values]
    if not operation.indices_in_bounds and may_lie_partly_outside(numbers, windows):
        program = _by_elements
    elif not numbers.scatter_dims_to_operand_dims and updates.size > math.prod(windows):
        program = _with_index_component
    else:
        return None

    def function(*values: Any) -> Values:
        return program(values, computation, numbers)

    return program_of(operation, computation, shapes, function, "scatter")


def _by_elements(values: Values, computation: Graph, numbers: ScatterDimensionNumbers) -> Values:
    """XLA skips windows that lie partly outside: here a frame catches what is outside."""
    operands, indices, updates = split(values)
    sizes = array_shape(operands[0]).dimensions
    windows = window_sizes(sizes, array_shape(updates[0]).dimensions, numbers)
    config, moved = into_padding(indices, numbers, sizes, windows)
    given = [framed(each, config) for each in operands]
    # In the frame, windows may meet that have no target in common, and be in another order.
    results = _scattered(given, moved, updates, computation, numbers)
    return [unframed(each, config) for each in results]


def _with_index_component(
    values: Values, computation: Graph, numbers: ScatterDimensionNumbers
) -> Values:
    """XLA:CPU may drop windows that no index leads to: here one more dimension has index 0."""
    operands, indices, updates = split(values)
    sizes, at = array_shape(operands[0]).dimensions, numbers.index_vector_dim
    outer = without_vectors(array_shape(indices).dimensions, at)
    indexed = ScatterDimensionNumbers(
        numbers.update_window_dims,
        (0, *(d + 1 for d in numbers.inserted_window_dims)),
        (0,),
        len(outer),
        tuple([d + 1 for d in numbers.operand_batching_dims]),
        tuple([d - (d > at) for d in numbers.scatter_indices_batching_dims]),
    )
    raised = [ops.reshape(each, (1, *sizes)) for each in operands]
    start = zeros(Shape("s32", (*outer, 1)))
    results = _scattered(raised, start, updates, computation, indexed)
    return [ops.reshape(each, sizes) for each in results]


def _scattered(
    operands: Values,
    indices: Any,
    updates: Values,
    computation: Graph,
    numbers: ScatterDimensionNumbers,
) -> Values:
    results = ops.scatter(operands, indices, updates, computation, numbers, indices_in_bounds=True)
    return as_tuple(results)
