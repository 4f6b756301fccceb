"""Rows of operations on shapes, and of those that make values."""

from __future__ import annotations

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Literal
from minixla.core.shapes import Shape
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import (
    ANY,
    KINDS,
    NUMERIC,
)
from tests.programs.draft import Draft
from tests.programs.rows import Call, row


@row("broadcast")
def _broadcast(d: Draft) -> Call:
    return (d.array(ranks=(1, 0, 2)), d.sizes((1, 0, 2))), {}


@row("broadcast_in_dim")
def _broadcast_in_dim(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 0))
    sizes = array_shape(value).dimensions
    rank = len(sizes) + d.integer(0, 1)
    places = d.shuffled(range(rank))[: len(sizes)]
    out = [d.size() for _ in range(rank)]
    for size, place in zip(sizes, places, strict=True):
        out[place] = size if size != 1 else out[place]
    return (value, out, places), {}


def _factors(d: Draft, count: int) -> list[int]:
    """Sizes of an array of `count` elements."""
    sizes = []
    while count > 1 and d.chance(3) is False:
        divisors = [each for each in range(2, count + 1) if count % each == 0]
        sizes.append(d.choice(divisors))
        count //= sizes[-1]
    sizes += [count] if count != 1 else []
    return d.shuffled(sizes + [1] * d.integer(0, 1))


@row("reshape")
def _reshape(d: Draft) -> Call:
    value = d.array()
    return (value, _factors(d, array_shape(value).size)), {}


@row("reshape_explicit")
def _reshape_explicit(d: Draft) -> Call:
    (value, sizes), _ = _reshape(d)
    return (Shape(array_shape(value).element_type, sizes), value), {}


@row("collapse")
def _collapse(d: Draft) -> Call:
    value = d.array(ranks=(2, 3, 1))
    rank = array_shape(value).rank
    first = d.integer(0, rank - 1)
    return (value, list(range(first, d.integer(first, rank - 1) + 1))), {}


@row("transpose")
def _transpose(d: Draft) -> Call:
    value = d.array(ranks=(2, 3, 1))
    return (value, d.shuffled(range(array_shape(value).rank))), {}


@row("rev")
def _rev(d: Draft) -> Call:
    value = d.array()
    return (value, d.subset(range(array_shape(value).rank))), {}


@row("slice")
def _slice(d: Draft) -> Call:
    value = d.array()
    sizes = array_shape(value).dimensions
    starts = [d.integer(0, size) for size in sizes]
    limits = [d.integer(start, size) for start, size in zip(starts, sizes, strict=True)]
    strides = None if d.chance() else [d.integer(1, 3) for _ in sizes]
    return (value, starts, limits, strides), {}


@row("slice_in_dim")
def _slice_in_dim(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 3))
    at = d.integer(0, array_shape(value).rank - 1)
    size = array_shape(value).dimensions[at]
    start = d.integer(0, size)
    return (value, start, d.integer(start, size), at), {"stride": d.integer(1, 3)}


@row("pad")
def _pad(d: Draft) -> Call:
    value = d.array()
    shape = array_shape(value)
    config = []
    for size in shape.dimensions:
        interior = d.integer(0, 1)
        whole_size = size + max(size - 1, 0) * interior
        low = d.integer(-1, 2)
        config.append((low, max(d.integer(-1, 2), -whole_size - low), interior))
    return (value, d.array((str(shape.element_type),), sizes=()), config), {}


@row("concat_in_dim")
def _concat(d: Draft) -> Call:
    first = d.array(ranks=(1, 2, 3))
    shape = array_shape(first)
    at = d.integer(0, shape.rank - 1)
    others = []
    for _ in range(d.integer(0, 2)):
        sizes = [d.size() if i == at else size for i, size in enumerate(shape.dimensions)]
        others.append(d.array((str(shape.element_type),), sizes=sizes))
    return ([first, *others], at), {}


@row("iota")
def _iota(d: Draft) -> Call:
    sizes = d.sizes((1, 2, 3))
    return (Shape(d.kind(NUMERIC), sizes), d.integer(0, len(sizes) - 1)), {}


@row("constant")
def _constant(d: Draft) -> Call:
    shape = Shape(d.kind(KINDS), d.sizes())
    array = ANY.sample(np.random.default_rng(d.integer(0, 99)), shape.dtype, shape.dimensions)
    return (Literal(array, shape),), {}


@row("parameter", is_basic=False)
def _parameter(d: Draft) -> Call | None:
    count = len(d.trace.inputs)
    if not count:
        return None
    number = d.integer(0, count - 1)
    return (number, d.trace.inputs[number].shape, d.choice(("", "x"))), {}


@row("get_dimension_size")
def _get_dimension_size(d: Draft) -> Call:
    value = d.array(ranks=(1, 2, 3))
    return (value, d.integer(0, array_shape(value).rank - 1)), {}


@row("tuple")
def _tuple(d: Draft) -> Call:
    return ([d.array() for _ in range(d.integer(0, 3))],), {}


@row("get_tuple_element")
def _get_tuple_element(d: Draft) -> Call:
    count = d.integer(1, 3)
    return (ops.tuple([d.array() for _ in range(count)]), d.integer(0, count - 1)), {}


@row("create_token")
def _create_token(d: Draft) -> Call:
    return (), {}


@row("after_all")
def _after_all(d: Draft) -> Call:
    return ([ops.create_token() for _ in range(d.integer(0, 2))],), {}
