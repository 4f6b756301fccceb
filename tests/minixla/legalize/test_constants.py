"""Which values count as constants: they depend on no input, or XLA's simplifier knows them."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.legalize.constants import CONSTANT, NOTHING, Constants, is_same, literal_of, splat_of

X = np.int32([1, 2, 3])


def one(x):
    return ops.constant(np.int32([1, 1, 1]))


def zero(x):
    return ops.constant(np.int32([0, 0, 0]))


#: Functions of an argument of s32[3], and whether XLA may know the result.
TABLE = {
    "argument": (lambda x: x, False),
    "constant": (one, True),
    "sum of constants": (lambda x: one(x) + one(x), True),
    "sum with an argument": (lambda x: one(x) + x, False),
    "behind a barrier": (lambda x: ops.optimization_barrier(one(x)), False),
    "x - x": (lambda x: ops.sub(x, x), True),
    "x ^ x": (lambda x: ops.xor(x, x), True),
    "x == x": (lambda x: ops.eq(x, x), True),
    "x % x": (lambda x: ops.rem(x, x), True),
    "x % 1": (lambda x: ops.rem(x, one(x)), True),
    "x * 0": (lambda x: ops.mul(x, zero(x)), True),
    "x & 0": (lambda x: ops.and_(zero(x), x), True),
    "x | -1": (lambda x: ops.or_(x, ops.not_(zero(x))), False),
    "x * 1": (lambda x: ops.mul(x, one(x)), False),
    "(x + 1) - (x + 1)": (lambda x: ops.sub(x + one(x), x + one(x)), True),
    "x - x of floats": (lambda x: ops.sub(x / 2, x / 2), False),
    "choice of constants": (lambda x: ops.select(ops.eq(one(x), one(x)), one(x), x), True),
    "choice of one value": (lambda x: ops.select(ops.eq(x, one(x)), one(x), one(x)), True),
    "choice by an argument": (lambda x: ops.select(ops.eq(x, one(x)), one(x), x), False),
    "what a call returns": (lambda x: mx.jit(one)(x), True),
    "what a call makes of an argument": (lambda x: mx.jit(lambda y: y + 1)(x), False),
    "what a call makes of a constant": (lambda x: mx.jit(lambda y: y + y)(one(x)), True),
    "what both branches return": (lambda x: mx.cond(x[0] > 0, one, one, x), True),
    "a constant of a loop": (
        lambda x: ops.while_(
            lambda i, c, y: i < y[0], lambda i, c, y: (i + 1, c, y), [x[0], one(x), x]
        )[1],
        True,
    ),
    "what a loop changes": (
        lambda x: ops.while_(
            lambda i, c, y: i < y[0], lambda i, c, y: (i + 1, c + y, y), [x[0], one(x), x]
        )[1],
        False,
    ),
    "element of a tuple": (lambda x: ops.get_tuple_element(ops.tuple([x, one(x)]), 0), False),
    "element of a tuple of constants": (
        lambda x: ops.get_tuple_element(ops.tuple([one(x), one(x)]), 1),
        True,
    ),
    "sum of nothing": (lambda x: ops.reduce(ops.slice(x, (0,), (0,)), 0, ops.add, (0,)), True),
}


@pytest.mark.parametrize("name", TABLE)
def test_constants(name):
    function, expected = TABLE[name]
    graph = mx.make_graph(function)(X)
    assert Constants(graph, [NOTHING])(graph.outputs[0]) == expected


def test_an_input_may_be_a_constant_where_the_graph_is_called():
    graph = mx.make_graph(lambda x: x + x)(X)
    assert Constants(graph, [CONSTANT])(graph.outputs[0])
    assert Constants(graph, [CONSTANT]).array(graph.outputs[0]) is None
    known = Constants(graph, [CONSTANT._replace(number=np.int32(4).tobytes())])
    np.testing.assert_array_equal(known.array(graph.outputs[0]), [8, 8, 8])


def test_numbers_of_constants():
    graph = mx.make_graph(lambda x: (one(x) + one(x)) * x)(X)
    known = Constants(graph, [NOTHING])
    lhs, rhs = graph.outputs[0].instruction.operands
    np.testing.assert_array_equal(known.array(lhs), [2, 2, 2])
    assert known.array(rhs) is None


def test_literals_behind_moves():
    graph = mx.make_graph(
        lambda x: ops.reshape(ops.broadcast(ops.constant(np.int32(7)), (3,)), (3, 1))
    )(X)
    assert splat_of(graph.outputs[0]) == 7
    assert literal_of(graph.outputs[0]) is not None
    assert literal_of(graph.inputs[0]) is None


def test_numbers_do_not_depend_on_what_was_asked_before():
    def function(x):
        large = ops.broadcast(ops.constant(np.float32(1e38)), (100_000,))
        return ops.reshape(large, (1, 100_000)), large + x, large

    graph = mx.make_graph(function)(np.ones(100_000, np.float32))
    known = Constants(graph, [NOTHING])
    reshaped, total, large = graph.outputs
    assert known.array(total) is None
    for value in (large, reshaped):
        array = known.array(value)
        assert array is not None and array.flat[0] == np.float32(1e38)


def test_values_that_are_computed_alike():
    graph = mx.make_graph(lambda x: (x + one(x), x + one(x), x + zero(x)))(X)
    first, second, third = graph.outputs
    assert is_same(first, second)
    assert not is_same(first, third)


def test_zeros_of_both_signs_do_not_repeat_one_number():
    zeros = np.float32([-0.0, 0.0])
    graph = mx.make_graph(lambda: ops.constant(zeros))()
    assert splat_of(graph.outputs[0]) is None
    found = Constants(graph, []).array(graph.outputs[0])
    np.testing.assert_array_equal(np.signbit(found), [True, False])
