"""Rows of operations that run programs, and of those that the interpreter does not evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import (
    KINDS,
    PRED,
    small,
)
from tests.programs.draft import Draft
from tests.programs.rows import TABLE, Call, Row, row

_STEPS = (1, 3)


def _basic() -> list[Row]:
    return [each for each in TABLE.values() if each.is_basic and each.interpreted]


def _arrays(d: Draft, low: int, high: int) -> list[Any]:
    return [d.array() for _ in range(d.integer(low, high))]


def _body(d: Draft, operands: Sequence[Any], outputs: Sequence[Any]) -> Any:
    shapes = [array_shape(each) for each in operands]
    return d.inner(shapes, _basic(), d.integer(*_STEPS), outputs)


@row("call", is_basic=False)
def _call(d: Draft) -> Call:
    operands = _arrays(d, 0, 3)
    outputs = [Shape(d.kind(KINDS), d.sizes()) for _ in range(d.integer(1, 2))]
    return (_body(d, operands, outputs), *operands), {}


@row("composite_call", is_basic=False)
def _composite_call(d: Draft) -> Call:
    return _call(d)[0], {"name": "test.composite", "attributes": {"size": 3, "mode": "x"}}


@row("optimization_barrier", is_basic=False)
def _optimization_barrier(d: Draft) -> Call:
    return (_arrays(d, 1, 3),), {}


@row("conditional", is_basic=False)
def _conditional(d: Draft) -> Call:
    outputs = [Shape(d.kind(KINDS), d.sizes()) for _ in range(d.integer(1, 2))]
    if d.chance():
        sides = [_arrays(d, 1, 2) for _ in range(2)]
        bodies = [_body(d, side, outputs) for side in sides]
        return (d.array(PRED, sizes=()), sides[0], bodies[0], sides[1], bodies[1]), {}
    branches = [_arrays(d, 1, 2) for _ in range(d.integer(1, 3))]
    bodies = [_body(d, operands, outputs) for operands in branches]
    return (d.array(("s32",), small(-2, 6), sizes=()), bodies, branches), {}


@row("while_", is_basic=False)
def _while(d: Draft) -> Call:
    values = _arrays(d, 1, 3)
    counter = ops.constant(np.zeros((), np.int32))
    limit = d.integer(0, 4)
    body = _body(d, [counter, *values], [array_shape(each) for each in values])

    def next_values(count: Any, *others: Any) -> Any:
        return (ops.add(count, np.int32(1)), *ops.call(body, count, *others))

    def condition(count: Any, *others: Any) -> Any:
        return ops.lt(count, np.int32(limit))

    return (condition, next_values, [counter, *values]), {}


@row("scan", is_basic=False)
def _scan(d: Draft) -> Call:
    first = d.array(ranks=(1, 2), least=0)
    at = d.integer(0, array_shape(first).rank - 1)
    length = array_shape(first).dimensions[at]
    inputs = [first]
    if d.chance():
        sizes = [length if i == at else d.size() for i in range(at + 1)]
        inputs.append(d.array(sizes=sizes))
    carries = _arrays(d, 0, 2)
    elements = [array_shape(each).without_dimension(at) for each in inputs]
    shapes = [*elements, *map(array_shape, carries)]
    # An output's dimensions before the one that is scanned are those of the inputs.
    heads = [elements[0].dimensions[:at]]
    outputs = [Shape(d.kind(KINDS), (*heads[0], *d.sizes((0, 1)))) for _ in range(d.integer(0, 2))]
    body = d.inner(shapes, _basic(), d.integer(*_STEPS), [*outputs, *map(array_shape, carries)])
    return (inputs, carries, body, at), {"is_reverse": d.chance()}


@row("map", is_basic=False)
def _map(d: Draft) -> Call:
    first = d.array()
    operands = [first, *[d.like(first, kinds=KINDS) for _ in range(d.integer(0, 1))]]
    static = _arrays(d, 0, 1)
    scalars = [Shape(array_shape(each).element_type) for each in operands]
    shapes = [*scalars, *map(array_shape, static)]
    body = d.inner(shapes, _basic(), d.integer(*_STEPS), [Shape(d.kind(KINDS))])
    return (operands, body), {"static_operands": static}


# What the interpreter does not evaluate.


@row("rng_bit_generator", interpreted=False)
def _rng_bit_generator(d: Draft) -> Call:
    algorithm = d.choice(("rng_three_fry", "rng_philox"))
    state = d.array(("u64",), sizes=(2,))
    shape = Shape(d.choice(("u32", "u64", "u8", "s32", "u16", "f32")), d.sizes())
    return (algorithm, state, shape), {}


@row("replica_id", "partition_id", interpreted=False)
def _process_id(d: Draft) -> Call:
    return (), {}


_INEXACT = "it rounds: in the table of inexact programs"
