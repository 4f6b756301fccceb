"""What the second half of a reverse derivative takes from the first."""

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.derived import vjp_graphs

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def kept(function, *arguments):
    """The shapes of the residuals, and the operations that the second half begins with."""
    graph = mx.make_graph(function)(*arguments)
    halves = vjp_graphs(graph, (True,) * len(graph.inputs))
    residuals = halves.forward.outputs[len(graph.outputs) :]
    assert len(halves.backward.inputs) == len(residuals) + sum(halves.active_outputs)
    return [str(value.shape) for value in residuals], halves


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        # 1 - y and 1 + y are made of y again.
        (lambda x: mx.numpy.tanh(x), ["f32[3,4]"]),
        # Of GELU's five factors the argument and the tanh remain.
        (lambda x: mx.nn.gelu(x), ["f32[3,4]", "f32[3,4]"]),
        # What is broadcast is kept in its own size.
        (lambda x: x * mx.numpy.exp(x.sum(1, keepdims=True)), ["f32[3,1]", "f32[3,4]"]),
        (lambda x: mx.numpy.where(x > 0, x, 2 * x), ["pred[3,4]"]),
        # A logarithm is not computed again.
        (lambda x: mx.numpy.log(x) * (x * x), ["f32[3,4]", "f32[3,4]"]),
        # The type that a program computes in is not wider than what it was given.
        (lambda x: x.astype("bfloat16").astype("float32") ** 2, ["bf16[3,4]"]),
    ],
)
def test_what_is_kept(function, wanted):
    assert sorted(kept(function, X)[0]) == sorted(wanted)


def test_the_derivative_is_the_same_to_the_bit():
    jitted = mx.jit(mx.nn.gelu)
    slope = mx.reference(mx.grad(lambda x: jitted(x).sum()))(X)
    np.testing.assert_array_equal(slope, mx.reference(mx.grad(lambda x: mx.nn.gelu(x).sum()))(X))
    second = mx.grad(lambda x: mx.grad(lambda x: jitted(x).sum())(x).sum())(X)
    wanted = jax.grad(lambda x: jax.grad(lambda x: jax.nn.gelu(x).sum())(x).sum())(X)
    np.testing.assert_allclose(second, wanted, rtol=2e-5, atol=2e-6)


def test_large_constants_are_not_written_again():
    # Each is an operand of the compiled program.
    large = np.linspace(0, 1, 3000, dtype=np.float32)
    shapes, halves = kept(lambda x: x * large * x, large)
    assert shapes == ["f32[3000]"] * 2
    assert sum(step.op.name == "Constant" for step in halves.backward.instructions) == 1


def test_scalars_empty_arrays_and_values_without_derivative():
    assert kept(lambda x: mx.numpy.tanh(x), np.float32(1))[0] == ["f32[]"]
    assert kept(lambda x: mx.numpy.tanh(x) + np.float32(0), np.ones((0, 2), np.float32))[0]
    assert kept(lambda x: (x * 2).astype("int32"), X)[0] == []


def test_a_dynamic_size_is_kept():
    def function(x, size):
        return ops.tanh(ops.set_dimension_size(x, size, 0)) * ops.set_dimension_size(x, size, 0)

    shapes, _ = kept(function, np.ones(4, np.float32), np.int32(3))
    assert "f32[<=4]" in shapes


def test_loops_keep_less():
    def loss(x):
        return mx.scan(lambda x, _: (mx.nn.gelu(x), None), x, None, length=5)[0].sum()

    graph = mx.make_graph(mx.grad(loss))(X)
    first = next(step for step in graph.instructions if step.op.name == "Call")
    assert list(map(str, first.shapes)) == ["f32[3,4]", "f32[5,3,4]", "f32[5,3,4]"]
