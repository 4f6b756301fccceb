"""Programs made from programs: which inputs and outputs are active, memos, closedness."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.derived import batched_graph, call_vjp_graphs, jvp_graph, vjp_graphs
from minixla.core.errors import TransformError
from minixla.core.shapes import Shape
from minixla.core.tracing import current_trace, trace_to_graph, under
from minixla.reference.trace import ReferenceTrace
from minixla_ops.evaluation import reference_graph

VECTOR, INTEGERS = Shape("f32", (3,)), Shape("s32", (3,))
X = np.array([0.5, -1.0, 2.0], np.float32)
N = np.arange(3, dtype=np.int32)


def program(x, y, n):
    return [ops.mul(x, y), ops.neg(y), ops.add(n, n), ops.neg(n)]


@pytest.fixture(scope="module")
def graph():
    return trace_to_graph(program, [VECTOR, VECTOR, INTEGERS], "program")[0]


FORWARD = [
    ((True, False, False), (True, False, False, False), 4),
    ((False, True, False), (True, True, False, False), 4),
    ((True, True, False), (True, True, False, False), 5),
    ((False, False, False), (False, False, False, False), 3),
]


@pytest.mark.parametrize(("active", "moving", "inputs"), FORWARD)
def test_forward(graph, active, moving, inputs):
    derived = jvp_graph(graph, active)
    assert derived.active_outputs == moving
    assert len(derived.graph.inputs) == inputs
    assert len(derived.graph.outputs) == 4 + sum(moving)
    assert derived.graph.name == "jvp_program"
    assert jvp_graph(graph, active) is derived


def test_forward_values(graph):
    derived = jvp_graph(graph, (True, True, False))
    found = reference_graph(derived.graph, [X, X + 1, N, X, X])
    np.testing.assert_array_equal(found[4], X * X + (X + 1) * X)
    np.testing.assert_array_equal(found[5], -X)


REVERSE = [
    ((True, False, False), (True, False, False, False), (True, False, False)),
    ((False, True, False), (True, True, False, False), (False, True, False)),
    ((True, True, True), (True, True, False, False), (True, True, False)),
    ((False, False, True), (False, False, False, False), (False, False, False)),
]


@pytest.mark.parametrize(("active", "outputs", "inputs"), REVERSE)
def test_reverse(graph, active, outputs, inputs):
    halves = vjp_graphs(graph, active)
    assert (halves.active_outputs, halves.active_inputs) == (outputs, inputs)
    assert len(halves.backward.outputs) == sum(inputs)
    residuals = len(halves.forward.outputs) - len(graph.outputs)
    assert len(halves.backward.inputs) == residuals + sum(outputs)
    assert vjp_graphs(graph, active) is halves


def test_reverse_values(graph):
    halves = vjp_graphs(graph, (True, True, False))
    with under(ReferenceTrace(current_trace())):
        lift = current_trace().lift
        results, pullback = call_vjp_graphs(halves, 4, [lift(X), lift(X + 1), lift(N)])
        np.testing.assert_array_equal(results[0].data, X * (X + 1))
        first, second, third = pullback({0: lift(X)})
        np.testing.assert_array_equal(first.data, X * (X + 1))
        np.testing.assert_array_equal(second.data, X * X)
        assert third is None


BATCHED = [
    ((0, None, None), (0, None, None, None)),
    ((None, 1, None), (1, 1, None, None)),
    ((None, None, 0), (None, None, 0, 0)),
    ((None, None, None), (None, None, None, None)),
]


@pytest.mark.parametrize(("dimensions", "found"), BATCHED)
def test_batched(graph, dimensions, found):
    batched = batched_graph(graph, dimensions, 4)
    assert batched.dimensions == found
    assert batched_graph(graph, dimensions, 4) is batched
    assert batched_graph(graph, dimensions, 5) is not batched
    for shape, dimension in zip(batched.graph.input_shapes, dimensions, strict=True):
        assert isinstance(shape, Shape)
        assert shape.rank == 1 + (dimension is not None)


def test_a_rule_that_reads_an_enclosing_function():
    def outer(w):
        custom = mx.custom_jvp(lambda x: ops.neg(x))
        custom.defjvp(lambda p, t: (ops.neg(p[0]), t[0] * w))
        inner, captured = trace_to_graph(lambda x: [custom(x)], [VECTOR], "inner")
        assert not captured
        for derive in (jvp_graph, vjp_graphs):
            with pytest.raises(TransformError) as caught:
                derive(inner, (True,))
            for phrase in ("inner: a custom derivative rule in it reads", "as an argument"):
                assert phrase in str(caught.value)
        return [w]

    trace_to_graph(outer, [VECTOR])
