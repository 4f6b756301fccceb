"""Deep and wide programs: no recursion over depth, and time in proportion to the size."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.graph import hoist_constants
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.reference_evaluation import reference_graph

SCALAR = Shape("f32")
DEEP = 100_000


def deep(x, count=DEEP):
    for _ in range(count // 2):
        x = ops.neg(ops.sin(x))
    return x


def traced(function, count=DEEP):
    return trace_to_graph(lambda x: [function(x, count)], [SCALAR])[0]


def pulled(x, count=DEEP):
    value, pullback = mx.vjp(lambda y: deep(y, count), x)
    return pullback(ops.neg(value))[0]


def pushed(x, count=DEEP):
    return mx.jvp(lambda y: deep(y, count), (x,), (x,))[1]


@pytest.fixture(scope="module")
def graph():
    return traced(deep)


@pytest.fixture(autouse=True)
def little_recursion():
    """Python's limit, as close as the test runner lets it be."""
    before = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 150)
    yield
    sys.setrecursionlimit(before)


def test_tracing(graph):
    assert len(graph.instructions) == DEEP


def test_pruning_and_side_effects(graph):
    assert len(graph.pruned().instructions) == DEEP
    assert not graph.has_side_effect


def test_pruning_what_is_not_needed():
    unused, _ = trace_to_graph(lambda x: [deep(x), x][1:], [SCALAR])
    assert len(unused.instructions) == DEEP
    assert len(unused.pruned().instructions) == 0


def test_equality(graph):
    other = traced(deep)
    assert graph == other
    assert hash(graph) == hash(other)
    longer, _ = trace_to_graph(lambda x: [ops.sin(deep(x))], [SCALAR])
    assert graph != longer


def test_texts(graph):
    assert graph.stablehlo().count("stablehlo.sine") == DEEP // 2
    assert str(graph).count(" sine(") == DEEP // 2


def test_hoisting(graph):
    assert hoist_constants(graph) == (graph, [])


def test_reference(graph):
    (found,) = reference_graph(graph, [np.float32(1)])
    value = np.float32(1)
    for _ in range(DEEP // 2):
        value = -np.sin(value)
    np.testing.assert_array_equal(found, value)


def test_reverse_derivative():
    derivative = traced(pulled)
    # sin, neg and cos forwards, and a product and a negation backwards for each pair.
    assert len(derivative.pruned().instructions) >= 2 * DEEP


def test_forward_derivative():
    assert len(traced(pushed).instructions) >= 2 * DEEP


def test_derivatives_in_numpy():
    count = 2000
    expected = jax.grad(
        lambda x: jax.lax.fori_loop(0, count // 2, lambda _, y: -jax.numpy.sin(y), x)
    )
    slope = mx.reference(mx.grad(lambda x: deep(x, count)))(0.5)
    np.testing.assert_allclose(slope, expected(0.5), rtol=1e-4)


def test_batching():
    batched, _ = trace_to_graph(lambda x: [mx.vmap(deep)(x)], [Shape("f32", (3,))])
    assert len(batched.instructions) == DEEP


WIDE = 5_000


def test_a_wide_program():
    graph, _ = trace_to_graph(lambda *xs: [ops.neg(x) for x in xs], [SCALAR] * WIDE)
    assert len(graph.outputs) == WIDE
    found = reference_graph(graph, [np.float32(n) for n in range(WIDE)])
    assert found[-1] == -np.float32(WIDE - 1)
    assert graph == trace_to_graph(lambda *xs: [ops.neg(x) for x in xs], [SCALAR] * WIDE)[0]
    assert f"%{WIDE - 1} = stablehlo.negate %arg{WIDE - 1}" in graph.stablehlo()


def test_a_wide_call_and_its_derivative():
    def wide(*xs):
        return [x * x for x in xs]

    def loss(*xs):
        return mx.vjp(lambda *ys: mx.jit(wide)(*ys), *xs)[1](list(xs))

    found = mx.reference(loss)(*[np.float32(n) for n in range(WIDE)])
    assert found[3] == 2 * 3 * 3
    assert found[-1] == np.float32(2) * (WIDE - 1) ** 2


def test_many_uses_of_one_value():
    def loss(x):
        total = x
        for _ in range(WIDE):
            total = total + x
        return total

    assert mx.reference(mx.grad(loss))(1.0) == WIDE + 1
