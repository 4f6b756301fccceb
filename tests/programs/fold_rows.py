"""Rows of folds and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Literal
from minixla.core.shapes import Shape
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.computations import identity_of
from tests.programs.domains import (
    ANY,
    FLOATS,
    INTEGERS,
    KINDS,
    ORDERED,
    PRED,
    REALS,
    Domain,
    small,
    summed,
)
from tests.programs.draft import Draft
from tests.programs.rows import Call, row


def monoid(d: Draft, kind: str, count: int) -> tuple[Callable[..., Any], np.ndarray, Domain]:
    """A computation, its identity, and what it combines `count` of exactly."""
    dtype = Shape(kind).dtype
    names = {
        "pred": ("or", "and", "xor", "max", "min"),
        "float": ("add", "max", "min", "mul"),
        "complex": ("add",),
    }.get(Shape(kind).element_type.kind, ("add", "mul", "max", "min", "and", "or", "xor"))
    name = d.choice(names)
    identity = {"max": "or", "min": "and"}.get(name, name) if kind == "pred" else name
    domain = {"add": summed(count), "mul": small(-1, 1)}.get(name, ORDERED)
    domain = domain if Shape(kind).element_type.is_inexact else ANY
    function = getattr(ops, name, None) or getattr(ops, f"{name}_")
    if d.chance(4):
        return (lambda x, y: function(x, y)), identity_of(identity, dtype), domain
    return function, identity_of(identity, dtype), domain


def scalar(array: np.ndarray) -> Any:
    return Literal(array, Shape(array.dtype))


@row("reduce")
def _reduce(d: Draft) -> Call:
    kind = d.kind(KINDS)
    function, identity, domain = monoid(d, kind, 64)
    value = d.array((kind,), domain)
    dimensions = d.shuffled(d.subset(range(array_shape(value).rank)))
    if d.chance(4) and not Shape(kind).element_type.is_complex:
        return _argmax(d, value, dimensions)
    return (value, ops.constant(scalar(identity)), function, dimensions), {}


def _argmax(d: Draft, value: Any, dimensions: Sequence[int]) -> Call:
    """Two operands: the largest number of those that come first."""
    if not array_shape(value).element_type.is_integer:
        value = d.array(INTEGERS)
        dimensions = d.subset(range(array_shape(value).rank))
    places = d.like(value, kinds=("s32",))
    least = identity_of("max", array_shape(value).dtype)

    def larger(x: Any, at: Any, y: Any, other: Any) -> Any:
        wins = ops.or_(ops.gt(x, y), ops.and_(ops.eq(x, y), ops.le(at, other)))
        return ops.select(wins, x, y), ops.select(wins, at, other)

    inits = [ops.constant(scalar(least)), ops.constant(scalar(np.array(2**31 - 1, np.int32)))]
    return ([value, places], inits, larger, dimensions), {}


@row("reduce_window")
def _reduce_window(d: Draft) -> Call:
    kind = d.kind(KINDS)
    function, identity, domain = monoid(d, kind, 27)
    value = d.array((kind,), domain)
    rank = array_shape(value).rank

    def each(low: int, high: int) -> list[int]:
        return [d.integer(low, high) for _ in range(rank)]

    padding = d.choice(("VALID", "SAME", None)) or [(d.integer(0, 2), d.integer(0, 2))] * rank
    keywords = {}
    if d.chance() and not isinstance(padding, str):
        keywords = {"base_dilations": each(1, 2), "window_dilations": each(1, 2)}
    init = ops.constant(scalar(identity))
    return (value, init, function, each(1, 3), each(1, 2), padding), keywords


@row("select_and_scatter")
def _select_and_scatter(d: Draft) -> Call | None:
    kind = d.kind((*INTEGERS, *FLOATS))
    value = d.array((kind,), ORDERED, ranks=(1, 2), least=1)
    shape = array_shape(value)
    window = [d.integer(1, size) for size in shape.dimensions]
    strides = [d.integer(1, 2) for _ in window]
    sizes = [(s - w) // t + 1 for s, w, t in zip(shape.dimensions, window, strides, strict=True)]
    # The interpreter adds the initial value twice.
    zero = ops.constant(Literal(np.zeros((), shape.dtype), Shape(kind)))
    source = d.array((kind,), summed(16), sizes=sizes)
    return (value, ops.ge, window, strides, "VALID", source, zero, ops.add), {}


@row("sort")
def _sort(d: Draft) -> Call:
    value = d.array((*REALS, *PRED), ORDERED, ranks=(1, 2, 3))
    dimension = d.integer(-1, array_shape(value).rank - 1)
    direction = d.choice((ops.lt, ops.gt))
    if d.chance():
        return (value, direction, dimension, d.chance()), {}
    values = [value, *[d.like(value, kinds=KINDS) for _ in range(d.integer(1, 2))]]
    return (values, lambda x, y, *others: direction(x, y), dimension), {"is_stable": True}


@row("top_k")
def _top_k(d: Draft) -> Call:
    value = d.array(REALS, ORDERED, ranks=(1, 2))
    return (value, d.integer(0, array_shape(value).dimensions[-1])), {"largest": d.chance()}
