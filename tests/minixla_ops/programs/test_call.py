"""Call: results, checks, derivatives, batching, nesting, printing, and what pruning may drop."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Shape, parse_shape
from minixla.core.errors import ShapeError, TransformError
from minixla.core.tracing import trace_to_graph
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.side_effects import marked

X = np.arange(1.0, 4.0, dtype=np.float32)
PAIR = np.array([2, 3], np.int32)


def body(x, i):
    return [ops.mul(x, x), i, ops.exp(x)]


def called(x, i):
    return ops.call(body, x, i)


def test_results():
    square, i, exponential = check_operation(called, [X, PAIR], ulp=2)
    np.testing.assert_array_equal(square, X * X)
    np.testing.assert_array_equal(i, PAIR)
    np.testing.assert_allclose(exponential, np.exp(X), rtol=1e-6)


def test_a_graph_is_called_as_it_is():
    graph, _ = trace_to_graph(body, [Shape("f32", (3,)), Shape("s32", (2,))], "body")
    caller = graph_of(lambda x, i: ops.call(graph, x, i), [X, PAIR])
    assert caller.instructions[0].op.computation == graph
    assert caller.input_shapes == graph.input_shapes


def test_no_operands_and_no_results():
    (seven,) = check_operation(lambda: ops.call(lambda: [np.float32(7)]), [])
    assert seven == 7
    assert ops.call(lambda: [np.float32(7)])[0] == 7
    check_operation(lambda x: [x, *ops.call(lambda y: [], x)], [X])


def test_eager_results_are_a_tuple():
    results = called(X, PAIR)
    assert isinstance(results, tuple)
    assert results[0].tolist() == [1, 4, 9]


def test_one_function_for_calls_of_one_graph():
    graph, _ = trace_to_graph(lambda x: [ops.mul(x, x)], [Shape("f32", (3,))], "square")
    caller = graph_of(lambda x: ops.call(graph, *ops.call(graph, x)), [X])
    assert caller.stablehlo().count("func.func private @square(") == 1
    assert str(caller).count("%square.") == 3  # its definition and two calls


def test_nested_calls():
    def inner(x):
        return [ops.mul(x, x)]

    def outer(x):
        (square,) = ops.call(inner, x)
        return [ops.add(square, ops.call(inner, square)[0])]

    (result,) = check_operation(lambda x: ops.call(outer, x), [X])
    np.testing.assert_array_equal(result, X**2 + X**4)
    check_derivatives(
        lambda x: ops.call(outer, x), [X.astype(np.float64)], lambda x: [x * x + x * x * x * x]
    )
    check_batching(lambda x: ops.call(outer, x), [X])


def test_derivatives():
    import jax.numpy as jnp

    check_derivatives(called, [X.astype(np.float64), PAIR], lambda x, i: (x * x, i, jnp.exp(x)))


def test_derivative_with_an_inactive_operand():
    check_derivatives(
        lambda x: ops.call(lambda a, b: [ops.mul(a, b), b], x, np.float64(3)),
        [np.float64(2)],
        lambda x: (x * 3, np.float64(3)),
    )


def test_batching():
    check_batching(called, [X, PAIR])
    check_batching(lambda x, y: ops.call(lambda a, b: [ops.sub(a, b), b], x, y), [X, X + 1])


def test_result_that_depends_on_no_batched_operand_is_not_batched():
    def function(x, y):
        return ops.call(lambda a, b: [a, b], x, y)

    rows, y = mx.vmap(function, in_axes=(0, None), out_axes=(0, None))(np.ones((4, 3)), X)
    assert (rows.shape, y.shape) == ((4, 3), (3,))


def test_tuples_as_operands_and_results():
    pair = parse_shape("(f32[3], s32[2])")

    def computation(p, x):
        a, i = ops.get_tuple_element(p, 0), ops.get_tuple_element(p, 1)
        return [ops.tuple([ops.mul(a, x), i]), x]

    graph, _ = trace_to_graph(computation, [pair, Shape("f32", (3,))])

    def function(x, i):
        result, same = ops.call(graph, ops.tuple([x, i]), x)
        return ops.mul(ops.get_tuple_element(result, 0), same)

    (cube,) = check_operation(function, [X, PAIR])
    np.testing.assert_array_equal(cube, X**3)
    assert function(X, PAIR).tolist() == [1, 8, 27]
    check_batching(function, [X, PAIR])
    slope = mx.jvp(lambda x: function(x, PAIR), (X,), (np.ones(3, np.float32),))[1]
    np.testing.assert_allclose(slope, 3 * X**2)


def test_printing():
    text = str(graph_of(called, [X, PAIR]))
    assert "(f32[3], s32[2], f32[3]) call(%arg0.1, %arg1.2), to_apply=%body." in text
    assert text.index("%body.") < text.index("ENTRY")
    assert "to_apply=%body" in _hlo.hlo_module_from_text(text).to_string()


# Effects.


def names(graph: Graph) -> list[str]:
    return [each.op.name for each in graph.pruned().instructions]


def effect(x):
    return [marked(x)]


def test_pruning_drops_pure_calls_and_keeps_effects():
    assert names(graph_of(lambda x: [x, ops.call(body, x, PAIR)][:1], [X])) == []
    assert names(graph_of(lambda x: [x, ops.call(effect, x)][:1], [X])) == ["Call"]


def test_pruning_keeps_effects_of_nested_calls():
    def nest(x):
        return ops.call(effect, x)

    assert names(graph_of(lambda x: [x, ops.call(nest, x)][:1], [X])) == ["Call"]


def test_derivative_and_batch_keep_effects():
    def function(x):
        ops.call(effect, x)
        return x

    assert "Call" in names(mx.make_graph(lambda x: mx.jvp(function, (x,), (x,)))(X))
    assert "Call" in names(mx.make_graph(lambda x: mx.vjp(function, x)[0])(X))
    assert "Call" in names(mx.make_graph(mx.vmap(function))(X))


# Rejections.

GRAPH, _ = trace_to_graph(body, [Shape("f32", (3,)), Shape("s32", (2,))])


@pytest.mark.parametrize(
    ("label", "function", "phrase"),
    [
        ("C1", lambda x: ops.call(GRAPH, x), "the call has 1 operands, the computation 2 inputs"),
        ("", lambda x: ops.call(lambda: [X], x), "the computation <lambda> does not take 1"),
        ("C2", lambda x: ops.call(GRAPH, x, x), "operand 1 has shape f32[3]"),
    ],
)
def test_rejected(label, function, phrase):
    check_rejected(function, [X], ShapeError, f"call: ({label})" if label else "call:", phrase)


def test_a_computation_must_be_closed():
    with pytest.raises(TransformError, match="reads a traced value"):
        graph_of(lambda x: ops.call(lambda: [x]), [X])
