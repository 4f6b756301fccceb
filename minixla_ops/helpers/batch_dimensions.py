"""Helpers of batching rules: moving, adding and aligning batch dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import minixla_ops as ops
from minixla.core import AnyShape, Operation, shape_of
from minixla.core.registry import fill_role
from minixla.typing import Array
from minixla_ops.helpers.shorthand import Places, Values, array_shape, as_tuple, zeros

# Batches up to this size are unrolled when their elements are computed one by one.
_MOST_MEMBERS = 16


def batch_size(operands: Values, dimensions: Places) -> int:
    """Return the size of the batch."""
    for operand, dimension in zip(operands, dimensions, strict=True):
        if dimension is not None:
            return array_shape(operand).dimensions[dimension]
    raise ValueError("no operand is batched")


def member_shapes(operands: Values, dimensions: Places) -> tuple[AnyShape, ...]:
    """Return the operand shapes for one batch element."""
    shapes = zip(map(shape_of, operands), dimensions, strict=True)
    return tuple([shape if at is None else shape.without_dimension(at) for shape, at in shapes])  # type: ignore[union-attr]  # batched: an array


def move_dimension(value: Array, source: int, destination: int) -> Array:
    """`value` with dimension `source` moved to `destination`, the others in order."""
    if source == destination:
        return value
    order = [index for index in range(array_shape(value).rank) if index != source]
    order.insert(destination, source)
    return ops.transpose(value, order)


def merge_dimension(value: Array, source: int, destination: int) -> Array:
    """Merge `source` into `destination` (numbered without `source`) as its slower part."""
    moved = move_dimension(value, source, destination)
    sizes = array_shape(moved).dimensions
    merged = sizes[destination] * sizes[destination + 1]
    return ops.reshape(moved, (*sizes[:destination], merged, *sizes[destination + 2 :]))


def split_dimension(value: Array, dimension: int, count: int) -> Array:
    """Split `dimension` into `count` parts, and put the new dimension of size `count` first."""
    sizes = array_shape(value).dimensions
    parts = count, sizes[dimension] // count if count else 1
    return ops.reshape(value, (*sizes[:dimension], *parts, *sizes[dimension + 1 :]))


def add_batch(value: Array, size: int, position: int) -> Array:
    """`value` repeated `size` times along a new dimension at `position`."""
    sizes = array_shape(value).dimensions
    kept = shifted(range(len(sizes)), position)
    return ops.broadcast_in_dim(value, (*sizes[:position], size, *sizes[position:]), kept)


def shifted(dimensions: Iterable[int], at: int | None) -> tuple[int, ...]:
    """Shift dimension indices for a new dimension at `at`; None: no new dimension."""
    return tuple([dimension + (at is not None and dimension >= at) for dimension in dimensions])


def move_batch(value: Array, source: int | None, destination: int, size: int) -> Array:
    """`value` with its batch dimension at `destination`; an unbatched one is repeated."""
    if source is None:
        return add_batch(value, size, destination)
    return move_dimension(value, source, destination)


def to_front(operands: Values, dimensions: Places) -> tuple[list[Array], int]:
    """Move all batch dimensions to the front; return the operands and the size of the batch."""
    size = batch_size(operands, dimensions)
    return [move_batch(o, d, 0, size) for o, d in zip(operands, dimensions, strict=True)], size


def align_batches(operands: Values, dimensions: Places) -> tuple[Values, int]:
    """Give operands of equal shape one common batch dimension, and return its position."""
    wanted = next(dimension for dimension in dimensions if dimension is not None)
    if all(dimension == wanted for dimension in dimensions):
        return operands, wanted
    size = batch_size(operands, dimensions)
    pairs = zip(operands, dimensions, strict=True)
    return [move_batch(operand, at, wanted, size) for operand, at in pairs], wanted


def batch_by_loop(operation: Operation, operands: Values, dimensions: Places) -> tuple[Any, Any]:
    """Compute the batch elements one after the other, and stack their results in front.

    This is correct for every operation; it is used if an operation has no batching rule. Small
    batches are unrolled, larger ones become a loop.
    """
    results = operation.infer(member_shapes(operands, dimensions))
    size, pairs = batch_size(operands, dimensions), [*zip(operands, dimensions, strict=True)]
    if size > _MOST_MEMBERS:
        found = _members_in_loop(operation, operands, dimensions)
        return (found, (0,) * len(found)) if type(results) is tuple else (found[0], 0)
    members = [operation(*[batch_member(*pair, index) for pair in pairs]) for index in range(size)]
    if members:
        columns = zip(*map(as_tuple, members), strict=True)
        found = [ops.concat_in_dim([add_batch(x, 1, 0) for x in column], 0) for column in columns]
    else:
        found = [
            zeros(shape.with_dimensions((0, *shape.dimensions))) for shape in as_tuple(results)
        ]
    return (tuple(found), (0,) * len(found)) if type(results) is tuple else (found[0], 0)


def _members_in_loop(
    operation: Operation, operands: Values, dimensions: Places
) -> tuple[Array, ...]:
    """Compute the results for all batch elements in a loop."""
    pairs = [*zip(operands, dimensions, strict=True)]
    moved = [move_dimension(x, at, 0) for x, at in pairs if at is not None]
    shared = [x for x, at in pairs if at is None]

    def step(*values: Array) -> tuple[Array, ...]:
        elements, fixed = iter(values), iter(values[len(moved) :])
        results_of_member = operation(
            *[next(fixed if at is None else elements) for at in dimensions]
        )
        return (*as_tuple(results_of_member), *values[len(moved) :])

    scanned = ops.scan(moved, shared, step)
    return scanned[: len(scanned) - len(shared)]


def batch_member(operand: Array, dimension: int | None, index: int) -> Array:
    """Return batch element `index`; an unbatched operand is shared by all elements."""
    if dimension is None:
        return operand
    sizes = array_shape(operand).dimensions
    taken = ops.slice_in_dim(operand, index, index + 1, dimension)
    return ops.reshape(taken, sizes[:dimension] + sizes[dimension + 1 :])


fill_role("batch_by_loop", batch_by_loop)
fill_role("move_batch", move_batch)
