"""Constant and Iota: every element type, sizes 0 and 1, and how constants enter programs."""

from __future__ import annotations

import functools
import gc
import weakref

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import Literal, Shape, parse_shape
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    Together,
    check_operation,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.oracles import ALL_TYPES, edge_values, random_values, run_stablehlo, run_xla

# What XLA:CPU of jaxlib 0.10.2 cannot hold: "Invalid XLA PrimitiveType".
NOT_ON_XLA_CPU = ("f6E2M3FN", "f6E3M2FN")
TYPES = dict(ALL_TYPES)


def constants_of(name):
    """As a list, as bytes, as one repeated value, and every value that may break a printer."""
    dtype = TYPES[name]
    return [
        random_values(dtype, (2, 3), 0),
        random_values(dtype, (7, 9), 1),
        np.broadcast_to(random_values(dtype, (), 2), (4, 5)),
        edge_values(dtype),
        random_values(dtype, (0, 2), 3),
        random_values(dtype, (), 4),
        *edge_values(dtype)[:20],
    ]


@functools.cache
def constants_by(run):
    """What an oracle gives for the constants of each type."""

    def program(name):
        return lambda: [ops.constant(array) for array in constants_of(name)]

    names = [name for name in TYPES if run is run_stablehlo or name not in NOT_ON_XLA_CPU]
    with jax.enable_x64(True):
        return results_together(run, {name: (program(name), []) for name in names})


@pytest.mark.parametrize("name", TYPES)
def test_constant_of_every_type(name):
    outcomes = [constants_by(run_stablehlo)[name]]
    if name not in NOT_ON_XLA_CPU:
        outcomes.append(constants_by(run_xla)[name])
    for results in map(unwrapped, outcomes):
        for result, array in zip(results, constants_of(name), strict=True):
            assert result.dtype == TYPES[name]
            assert result.shape == np.shape(array)
            # Bit for bit, NaN payloads and signs of zero included.
            assert result.tobytes() == np.ascontiguousarray(array).tobytes()


def test_constant_gives_jax_arrays_eagerly():
    value = ops.constant(np.arange(3, dtype=np.int8))
    assert isinstance(value, jax.Array)
    assert (value.dtype, value.tolist()) == (np.int8, [0, 1, 2])


def test_constant_narrows_64_bits_as_jax_does():
    assert ops.constant(np.arange(3)).dtype == np.int32
    with jax.enable_x64(True):
        assert ops.constant(np.arange(3)).dtype == np.int64


def test_constant_takes_a_literal():
    literal = Literal.splat(3, Shape("u8", (2, 2)))
    assert mx.reference(lambda: ops.constant(literal))().tolist() == [[3, 3], [3, 3]]


def test_constant_keeps_no_array_alive():
    def trace_with_array():
        array = np.arange(10.0, dtype=np.float32)
        graph_of(lambda: ops.constant(array), [])
        return weakref.ref(array)

    watch = trace_with_array()
    gc.collect()
    assert watch() is None


def test_constant_rejects_what_is_no_array():
    with pytest.raises(AttributeValueError, match="literal"):
        ops.constant("three")


def test_graphs_with_equal_constants_are_equal():
    def graph(value):
        return graph_of(lambda x: ops.add(x, ops.constant(value)), [np.zeros(2, np.float32)])

    assert graph(np.ones(2, np.float32)) == graph(np.ones(2, np.float32))
    assert graph(np.ones(2, np.float32)) != graph(np.zeros(2, np.float32))
    assert graph(np.zeros(2, np.float32)) != graph(-np.zeros(2, np.float32))


# Iota.

SHAPES = [
    ((5,), 0),
    ((4, 8), 0),
    ((4, 8), 1),
    ((1,), 0),
    ((0,), 0),
    ((2, 0, 3), 2),
    ((2, 3, 1, 4), 3),
]


def iota(shape, dimension):
    return lambda: ops.iota(shape, dimension)


IOTAS = Together({row: (iota(Shape("s32", row[0]), row[1]), [], {}) for row in SHAPES})


@pytest.mark.parametrize(("sizes", "dimension"), SHAPES)
def test_iota(sizes, dimension):
    (result,) = IOTAS.check((sizes, dimension))
    np.testing.assert_array_equal(result, np.indices(sizes)[dimension])


def test_fact_iota():
    rows = mx.reference(lambda: ops.iota(parse_shape("s32[4,8]"), 0))()
    assert rows.tolist() == [[r] * 8 for r in range(4)]
    columns = mx.reference(lambda: ops.iota(parse_shape("s32[4,8]"), 1))()
    assert columns.tolist() == [list(range(8))] * 4


# 300 is past the range of 8 bits: integers wrap, floats round or overflow as a conversion does.
IOTAS_OF_TYPES = Together(
    {
        name: (
            iota(Shape(dtype, (2, 300)), 1),
            [],
            # f8E8M0FNU has no 0: XLA gives NaN, the interpreter the smallest number.
            {"xla": name not in NOT_ON_XLA_CPU, "interpreter": name != "f8E8M0FNU"},
        )
        for name, dtype in TYPES.items()
        if name != "i1"
    }
)


@pytest.mark.parametrize("name", IOTAS_OF_TYPES.rows)
def test_iota_of_every_type(name):
    IOTAS_OF_TYPES.check(name)


@pytest.mark.parametrize("name", ["bf16", "f16", "f8E4M3FN", "f8E5M2", "i16"])
def test_iota_is_counted_in_integers_and_then_converted(name):
    check_operation(lambda: ops.iota(Shape(TYPES[name], (70000,)), 0), [])


@pytest.mark.full
def test_iota_is_rounded_once():
    # Between two of bf16, and in f32 a tie of them.
    last = 2**24 + 2**16 + 1
    found = mx.reference(lambda: ops.iota(Shape("bf16", (last + 1,)), 0))()
    assert float(found[last]) == 2**24 + 2**17


@pytest.mark.parametrize(
    ("shape", "dimension", "error", "phrases"),
    [
        ("pred[3]", 0, ShapeError, ["(C1)", "pred[3]"]),
        ("token[]", 0, ShapeError, ["(C1)", "token[]"]),
        ("(s32[3])", 0, ShapeError, ["(C1)", "(s32[3])"]),
        ("s32[3]", 1, AttributeValueError, ["(C2)", "[0, 1)"]),
        ("s32[]", 0, AttributeValueError, ["(C2)", "scalar"]),
        ("s32[3]", -1, AttributeValueError, ["must be >= 0"]),
    ],
)
def test_iota_rejected(shape, dimension, error, phrases):
    check_rejected(lambda: ops.iota(parse_shape(shape), dimension), [], error, *phrases)


def test_iota_and_constant_have_no_derivative_and_no_batch():
    def function(x):
        return ops.mul(x, ops.add(ops.iota(Shape("f32", (3,)), 0), ops.constant(np.float32(2))))

    x = np.ones(3, np.float32)
    _, slope = mx.reference(lambda x: mx.jvp(function, (x,), (x,)))(x)
    assert slope.tolist() == [2, 3, 4]
    rows = mx.reference(mx.vmap(function))(np.ones((2, 3), np.float32))
    assert rows.tolist() == [[2, 3, 4]] * 2
