"""Programs made from programs: which inputs and outputs are active, memos, closedness."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.derived import batched_graph, jvp_graph, vjp_graphs
from minixla.core.errors import TransformError
from minixla.core.shapes import Shape
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla.core.tracer import WrappingTracer
from minixla.core.tracing import Trace, current_trace, trace_to_graph, under
from minixla.reference_evaluator.trace import ReferenceTrace
from minixla_ops.programs.reference_evaluation import reference_graph

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
    assert derived.known == moving
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
        results, pullback = call_vjp_graphs(halves, [lift(X), lift(X + 1), lift(N)])
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
    assert batched.known == found
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


class Tracked(WrappingTracer):
    """A value of which are known the names of the arguments that it depends on."""

    __slots__ = ()


class Tracking(Trace):
    """A transformation that the library does not know: which results depend on which arguments."""

    prefix, memo_key = "tracked", "dependence"

    def again(self, parent):
        return Tracking(parent)

    def taken_apart(self, value):
        values, known = super().taken_apart(value)
        return values, known or frozenset()

    def put_together(self, values, known):
        return Tracked(self, values[0], known)

    def joined(self, known, other):
        return known | other

    def process(self, operation, operands):
        if operation.enter is not None:
            return operation.enter(self, operands)
        taken = [self.taken_apart(operand) for operand in operands]
        names = frozenset().union(*[known for _, known in taken])
        with under(self.parent):
            values = tuple([value for (value,), _ in taken])
            outcome = self.parent.process(operation, values)
        if type(outcome) is tuple:
            return tuple([Tracked(self, each, names) for each in outcome])
        return Tracked(self, outcome, names)


def late(a, b, c):
    """c reaches the first value only after two iterations."""
    return mx.fori_loop(0, 3, lambda i, v: (v[0] + v[1], v[1] * v[2], v[2], v[3]), (a, b, c, b))


TRACKED = {
    "jit": (mx.jit(lambda a, b, c: (a + b, c)), ["ab", "c"]),
    "cond": (lambda a, b, c: mx.cond(True, lambda x, y: x, lambda x, y: y, a, b), ["ab"]),
    "loop": (late, ["abc", "bc", "c", "b"]),
    "while": (
        lambda a, b, c: mx.while_loop(
            lambda v: (v[0] < 9).all(), lambda v: (v[0] + v[1], v[1]), (a, b)
        ),
        ["ab", "b"],
    ),
    "scan": (
        lambda a, b, c: mx.scan(lambda x, e: (x * b, x + e), a, mx.numpy.stack([c])),
        ["ab", "abc"],
    ),
    "jit in scan": (
        lambda a, b, c: mx.scan(
            lambda x, e: (mx.jit(mx.numpy.tanh)(x) * e, x), a, mx.numpy.stack([c])
        ),
        ["ac", "ac"],
    ),
}


@pytest.mark.parametrize("name", TRACKED)
def test_a_transformation_of_ones_own_enters_programs(name):
    function, expected = TRACKED[name]
    trace = Tracking(current_trace())
    with under(trace):
        arguments = [Tracked(trace, X * n, frozenset(letter)) for n, letter in enumerate("abc", 1)]
        results = jax.tree.leaves(function(*arguments))
    found = [trace.taken_apart(each) for each in results]
    assert ["".join(sorted(names)) for _, names in found] == expected
    plain = jax.tree.leaves(function(X, X * 2, X * 3))
    for (value,), each in zip([values for values, _ in found], plain, strict=True):
        np.testing.assert_allclose(value, each, rtol=1e-6)


def test_a_transformation_that_does_not_enter_programs_says_so():
    class Closed(Trace):
        def process(self, operation, operands):
            return operation.enter(self, operands)

    trace = Closed(current_trace())
    with (
        under(trace),
        pytest.raises(NotImplementedError, match="Closed does not enter programs: define the"),
    ):
        mx.jit(mx.numpy.tanh)(X)
