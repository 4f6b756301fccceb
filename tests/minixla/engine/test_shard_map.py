"""Our functions inside jax.shard_map, with and without its check of what varies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla_ops as ops
from tests.harness import by_jax

X = np.arange(8, dtype=np.float32)
W = np.float32(2)
EVERYWHERE = {"replica_groups": [[0, 1, 2, 3]], "channel_id": 1, "use_global_device_ids": True}


def mapped(function, specs, check):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("i"), check_vma=check)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives(check):
    ours = mapped(lambda w, x: mx.numpy.sin(w * x) * x, (P(), P("i")), check)

    def theirs(w, x):
        return jnp.sin(w * x) * x

    def in_jax(w, x):
        gradients = jax.grad(lambda w, x: theirs(w, x).sum(), (0, 1))(w, x)
        return theirs(w, x), gradients, jax.jvp(theirs, (w, x), (w, x))[1]

    value, expected, slopes = by_jax(in_jax, W, X)
    np.testing.assert_allclose(ours(W, X), value, rtol=1e-5)

    @jax.jit
    def derivatives(w, x):
        pulled = jax.grad(lambda w, x: ours(w, x).sum(), (0, 1))(w, x)
        return pulled, jax.jvp(ours, (w, x), (w, x))[1]

    found, tangents = derivatives(W, X)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tangents, slopes, rtol=1e-5)


def test_forward_derivative_outside_of_jit():
    ours = mapped(lambda w, x: mx.numpy.sin(w * x) * x, (P(), P("i")), True)
    value, tangents = jax.jvp(ours, (W, X), (W, X))
    np.testing.assert_allclose(value, np.sin(W * X) * X, rtol=1e-5)
    slopes = 2 * W * X**2 * np.cos(W * X) + np.sin(W * X) * X
    np.testing.assert_allclose(tangents, slopes, rtol=1e-5)


@pytest.mark.parametrize("check", [True, False])
def test_collectives(check):
    def function(x):
        return ops.all_reduce(mx.numpy.sin(x), ops.add, **EVERYWHERE) * x

    def theirs(x):
        return (jnp.sin(x).reshape(4, 2).sum(0) * x.reshape(4, 2)).reshape(8)

    ours = mapped(function, P("i"), check)
    value, (expected,) = by_jax(lambda x: (theirs(x), jax.vjp(theirs, x)[1](jnp.ones(8))), X)
    np.testing.assert_allclose(ours(X), value, rtol=1e-5, atol=1e-5)
    found = jax.jit(jax.grad(lambda x: ours(x).sum()))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
