"""Reducers of pairs, an element and its index, that find the first min or max; NaN comes first."""

from collections.abc import Callable
from typing import Any

import minixla_ops as ops
from minixla.typing import Array
from minixla_ops.helpers.shorthand import array_shape, full_like
from minixla_ops.programs.computations import neutral_element


def first_greatest(x: Array, index: Array, y: Array, other: Array) -> list[Array]:
    """Return the pair with the greater element; of two equal ones that with the lower index."""
    return _first(ops.gt, x, index, y, other)


def first_least(x: Array, index: Array, y: Array, other: Array) -> list[Array]:
    """Return the pair with the lesser element; of two equal ones that with the lower index."""
    return _first(ops.lt, x, index, y, other)


def _first(is_before: Callable[..., Any], x: Any, index: Any, y: Any, other: Any) -> list[Array]:
    is_earlier, is_nan = ops.lt(index, other), ops.ne(x, x)
    is_first = ops.or_(is_before(x, y), ops.or_(is_nan, ops.and_(ops.eq(x, y), is_earlier)))
    is_first = ops.select(ops.ne(y, y), ops.and_(is_nan, is_earlier), is_first)
    return [ops.select(is_first, x, y), ops.select(is_first, index, other)]


def in_two_passes(
    x: Array, indices: Array, computation: Callable[..., Any], dimension: int
) -> list[Array]:
    """Return the min or max along a dimension and its first index, by a reduction for each.

    Args:
        x: the elements, at least one along the dimension.
        indices: the index of each element along the dimension.
        computation: `ops.min` or `ops.max`.
        dimension: the dimension to reduce.
    """
    shape, kind = array_shape(x), array_shape(indices).element_type
    start = neutral_element("max" if computation is ops.max else "min", shape.element_type)
    best = ops.reduce(x, start, computation, [dimension])
    kept = [at for at in range(shape.rank) if at != dimension]
    is_best = ops.eq(x, ops.broadcast_in_dim(best, shape.dimensions, kept))
    if shape.element_type.is_inexact:
        is_best = ops.or_(is_best, ops.ne(x, x))
    last = full_like(indices, shape.dimensions[dimension] - 1)
    candidates = ops.select(is_best, indices, last)
    first = ops.reduce(candidates, neutral_element("min", kind), ops.min, [dimension])
    return [best, first]


def pairs(x: Array, indices: Array, computation: Callable[..., Any], dimension: int) -> list[Array]:
    """Return the same as `in_two_passes`, by one reduction of pairs."""
    monoid, reducer = ("max", first_greatest) if computation is ops.max else ("min", first_least)
    kinds = [array_shape(operand).element_type for operand in (x, indices)]
    starts = [neutral_element(monoid, kinds[0]), neutral_element("add", kinds[1])]
    return list(ops.reduce([x, indices], starts, reducer, [dimension]))
