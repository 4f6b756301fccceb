"""pure_callback: values, batches, what it refuses."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla.numpy as mnp
from minixla.core.errors import AttributeValueError, DerivativeError, TransformError

X = np.array([0.3, -1.2, 0.7], np.float32)
BATCH = np.stack([X, 2 * X])
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


def called(x, scale=2.0, vmap_method=None):
    """NumPy's sine and the number of positive elements, for the last dimension."""

    def function(x, options):
        return {"sin": np.sin(x) * options["scale"][..., None], "count": (x > 0).sum(-1)}

    shapes = {
        "sin": mx.ShapeDtypeStruct(x.shape, x.dtype),
        "count": mx.ShapeDtypeStruct(x.shape[:-1], np.int32),
    }
    return mx.pure_callback(function, shapes, x, {"scale": scale}, vmap_method=vmap_method)


def check(found, x, scale=2.0):
    np.testing.assert_allclose(found["sin"], np.sin(x) * np.asarray(scale), rtol=1e-6)
    np.testing.assert_array_equal(found["count"], (x > 0).sum(-1))
    assert found["sin"].dtype == np.float32
    assert found["count"].dtype == np.int32


@pytest.mark.parametrize("transform", [lambda f: f, mx.jit, mx.reference, jax.jit])
def test_the_function_is_called_with_values(transform):
    check(transform(called)(X), X)


@pytest.mark.parametrize("method", METHODS)
def test_batches(method):
    function = mx.vmap(lambda x: called(x, vmap_method=method))
    check(mx.jit(function)(BATCH), BATCH)
    check(mx.reference(function)(BATCH), BATCH)


def test_methods_say_what_the_function_gets():
    shapes = []

    def function(x, y):
        shapes.append((x.shape, y.shape))
        return x + y

    def summed(x, y, method):
        declared = mx.ShapeDtypeStruct((3,), np.float32)
        return mx.pure_callback(function, declared, x, y, vmap_method=method)

    for method in METHODS:
        batched = mx.vmap(lambda x, y, m=method: summed(x, y, m), (0, None))
        np.testing.assert_array_equal(mx.reference(batched)(BATCH, X), BATCH + X)
    one = ((3,), (3,))
    assert shapes == [one, one, one, one, ((2, 3), (1, 3)), ((2, 3), (2, 3))]


def test_inside_a_loop_and_a_branch():
    def step(x, _):
        return mx.cond(x[0] > 0, lambda x: called(x)["sin"], lambda x: x, x), x[0]

    found, first = mx.jit(lambda x: mx.scan(step, x, None, length=3))(X)
    expected = X
    for each in first:
        assert each == expected[0]
        expected = np.sin(expected) * np.float32(2)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_on_several_devices_it_is_called_with_the_whole():
    sharding = mx.NamedSharding(mx.make_mesh((4,), ("i",)), P("i"))
    seen = []

    def function(x):
        seen.append(x.shape)
        return x * 2, x.sum()

    declared = mx.ShapeDtypeStruct((8,), np.float32), mx.ShapeDtypeStruct((), np.float32)
    x = mx.device_put(np.arange(8, dtype=np.float32), sharding)
    doubled, total = mx.jit(lambda x: mx.pure_callback(function, declared, x))(x)
    np.testing.assert_array_equal(doubled, 2 * np.arange(8))
    assert total == 28
    assert {*seen} == {(8,)}


def test_what_nobody_reads_is_not_called():
    calls = []
    shape = mx.ShapeDtypeStruct((), np.float32)
    mx.jit(lambda x: mx.pure_callback(lambda x: calls.append(x), shape, x) and x)  # traced by none
    assert mx.jit(lambda x: (mx.pure_callback(calls.append, shape, x), x)[1])(1.0) == 1.0
    assert calls == []


def test_a_derivative_needs_a_rule():
    function = mx.custom_jvp(lambda x: called(x)["sin"])
    function.defjvp(
        lambda primals, tangents: (function(*primals), 2 * mnp.cos(*primals) * tangents[0])
    )
    np.testing.assert_allclose(mx.grad(lambda x: function(x).sum())(X), 2 * np.cos(X), rtol=1e-6)
    for transform in (mx.grad, lambda f: mx.jit(mx.grad(f))):
        with pytest.raises(DerivativeError, match="pure_callback: the operation has no derivative"):
            transform(lambda x: called(x)["sin"].sum())(X)


def test_what_is_refused():
    shape = mx.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(TransformError, match="batching requires vmap_method"):
        mx.vmap(called)(BATCH)
    with pytest.raises(AttributeValueError, match="unknown vmap_method 'loop'"):
        called(X, vmap_method="loop")
    with pytest.raises(TransformError, match="expected a function"):
        mx.pure_callback(3, shape, X)
    with pytest.raises(mx.ShapeError, match=r"returned: f32\[2\]\n.*declared: f32\[3\]"):
        mx.reference(lambda x: mx.pure_callback(lambda x: x[:2], shape, x))(X)
    with pytest.raises(mx.ShapeError, match="result 0"):
        mx.pure_callback(np.sin, "f32[3]", X)
