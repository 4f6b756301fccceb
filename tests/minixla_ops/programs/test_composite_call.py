"""CompositeCall and OptimizationBarrier: results, texts, checks, derivatives, batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Shape
from minixla.core.errors import AttributeValueError, ShapeError, TransformError
from minixla.core.tracing import trace_to_graph
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)

X, PAIR = np.array([0.5, -2.0, 3.0]), np.array([2, 3], np.int32)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def decomposition(x, i):
    return [ops.sin(x) * x, i]


def composite(x, i):
    return ops.composite_call(decomposition, x, i, name="my.op", attributes={"n": 1}, version=2)


def test_results():
    result, pair = check_operation(composite, [X, PAIR], ulp=2)
    np.testing.assert_allclose(result, np.sin(X) * X)
    np.testing.assert_array_equal(pair, PAIR)
    one = ops.composite_call(lambda x: ops.neg(x), np.float32(2), name="my.neg")
    assert one == -2


def test_a_tuple_as_operand_and_result():
    def swap(t):
        return ops.tuple([ops.get_tuple_element(t, 1), ops.get_tuple_element(t, 0)])

    def function(x, i):
        result = ops.composite_call(swap, ops.tuple([x, i]), name="my.swap")
        return [ops.get_tuple_element(result, 0), ops.get_tuple_element(result, 1)]

    pair, x = check_operation(function, [X, PAIR])
    np.testing.assert_array_equal(pair, PAIR)
    np.testing.assert_array_equal(x, X)


def test_fact_hlo_form():
    attributes = "{n = 1 : i32, tensor = dense<1> : tensor<i32>}"
    graph = graph_of(
        lambda x: ops.composite_call(ops.neg, x, name="foo.bar", attributes=attributes, version=1),
        [np.float32(2)],
    )
    text = str(graph)
    frontend = f'composite.name="foo.bar",composite.attributes={attributes},composite.version="1"'
    assert "f32[] call(%arg0.1), to_apply=%neg" in text
    assert f"is_composite=true, frontend_attributes={{{frontend}}}" in text
    assert f"composite.attributes={attributes}" in _hlo.hlo_module_from_text(text).to_string()
    stablehlo = graph.stablehlo()
    assert (
        f'"stablehlo.composite"(%arg0) <{{name = "foo.bar", composite_attributes = {attributes}'
        in stablehlo
    )
    assert "decomposition = @neg, version = 1 : i32" in stablehlo


def test_attributes_from_a_dictionary():
    given = {"a": 1, "b": True, "c": 0.1, "d": 'x"y\\', "e f": -2, "g": 1e300, "h": float("inf")}

    def function(x):
        return ops.composite_call(ops.neg, x, name="my.op", attributes=given)

    text = graph_of(function, [X]).stablehlo()
    wanted = (
        r'{a = 1 : i64, b = true, c = 0.1 : f64, d = "x\"y\\", "e f" = -2 : i64, '
        "g = 1.0e+300 : f64, h = 0x7FF0000000000000 : f64}"
    )
    assert wanted in text
    check_operation(function, [X])
    assert (
        "composite_attributes = {}"
        in graph_of(lambda x: ops.composite_call(ops.neg, x, name="a.b"), [X]).stablehlo()
    )


def test_derivatives_and_batches_are_those_of_the_decomposition():
    check_derivatives(composite, [X, PAIR], lambda x, i: (jnp.sin(x) * x, i))
    check_batching(composite, [X, PAIR])

    @mx.custom_jvp
    def scaled(x):
        return x

    @scaled.defjvp
    def _(primals, tangents):
        return primals[0], ops.composite_call(ops.add, *tangents, *tangents, name="my.add")

    np.testing.assert_array_equal(mx.grad(lambda x: mx.numpy.sum(scaled(x)))(X), [2, 2, 2])


GRAPH, _ = trace_to_graph(lambda x: [x], [Shape("f32")])
REJECTED = {
    "C1": (lambda x: ops.composite_call(GRAPH, x, x, name="a.b"), ShapeError, "has 2 operands"),
    "C2": (lambda x: ops.composite_call(GRAPH, x, name="a.b"), ShapeError, "operand 0 has shape"),
    "C3": (lambda x: ops.composite_call(ops.neg, x, name="ab"), AttributeValueError, "'ab'"),
    "C3 text": (lambda x: ops.composite_call(ops.neg, x, name="a b.c"), AttributeValueError, "is"),
    "C4": (
        lambda x: ops.composite_call(ops.neg, x, name="a.b", attributes="n = 1"),
        AttributeValueError, "are not a dictionary",
    ),
    "C4 value": (
        lambda x: ops.composite_call(ops.neg, x, name="a.b", attributes={"n": [1]}),
        AttributeValueError, "of type list: [1]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    function, error, phrase = REJECTED[case]
    check_rejected(function, [X], error, f"composite_call: ({case[:2]})", phrase)


def test_other_rejections():
    with pytest.raises(AttributeValueError, match="must be >= 0"):
        ops.composite_call(ops.neg, X, name="a.b", version=-1)
    with pytest.raises(TransformError, match="reads a traced value"):
        graph_of(lambda x: ops.composite_call(lambda: x, name="a.b"), [X])


# OptimizationBarrier.


def test_barrier_in_every_form():
    def function(x, i):
        pair = ops.optimization_barrier(ops.tuple([x, i]))
        first, second = ops.optimization_barrier([x, i])
        return [
            ops.optimization_barrier(x), first, second,
            ops.get_tuple_element(pair, 0), ops.get_tuple_element(pair, 1),
        ]  # fmt: skip

    special = np.array([np.nan, -0.0, np.inf], np.float32)
    results = check_operation(function, [special, PAIR])
    for result, expected in zip(results, [special, special, PAIR, special, PAIR], strict=True):
        np.testing.assert_array_equal(result, expected)
    assert ops.optimization_barrier(np.float32(3)) == 3
    check_operation(ops.optimization_barrier, [np.zeros((0, 2), bool)])


def test_barrier_derivatives_and_batches():
    def function(x, i):
        y, j = ops.optimization_barrier([x, i])
        return [y * x, j]

    check_derivatives(function, [X, PAIR], lambda x, i: (x * x, i))
    check_batching(function, [X, PAIR])
    graph = mx.make_graph(mx.grad(lambda x: mx.numpy.sum(beside_exp(x))))(X)
    assert [each.op.name for each in graph.instructions].count("OptimizationBarrier") == 2


def beside_exp(x):
    return ops.optimization_barrier([x, ops.exp(x)])[0]


def test_barrier_printing():
    text = str(graph_of(lambda x, i: ops.optimization_barrier([x, i]), [X, PAIR]))
    assert "(f64[3], s32[2]) opt-barrier(%tuple.3)" in text
    assert "opt-barrier" in _hlo.hlo_module_from_text(text).to_string()
    alone = str(graph_of(ops.optimization_barrier, [X]))
    assert "f64[3] opt-barrier(%arg0.1)" in alone
    _hlo.hlo_module_from_text(alone)
