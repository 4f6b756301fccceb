"""Our functions with collectives of `ops` inside jax.shard_map and jax.pmap, against JAX's."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla import ops
from tests.harness import compiled_together
from tests.minixla.transforms.collective_programs import Y, assert_same

X = Y.reshape(32, 3)[:16]
ALL = ((0, 1, 2, 3),)
#: The devices along each axis of the two-dimensional mesh: 0 1 / 2 3.
ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))
EVERYWHERE = {"replica_groups": ALL, "channel_id": 1, "use_global_device_ids": True}
PARTS = P("x")


def mesh(*sizes):
    names = "xy"[: len(sizes)]
    return jax.make_mesh(sizes, tuple(names), axis_types=(AxisType.Auto,) * len(sizes))


def sharded(fun, sizes=(4,), spec=PARTS, out=None):
    """A function of whole arrays, whose parts `fun` takes and gives."""
    return jax.shard_map(
        fun,
        mesh=mesh(*sizes),
        in_specs=spec,
        out_specs=spec if out is None else out,
        check_vma=False,
    )


# Ours, and the same in JAX, of a part f32[4,3].
PROGRAMS = {
    "all_reduce": (
        lambda x: ops.all_reduce(x * x, ops.add, **EVERYWHERE),
        lambda x: lax.psum(x * x, "x"),
    ),
    "all_gather": (
        lambda x: ops.all_gather(ops.sin(x), 1, 4, **EVERYWHERE),
        lambda x: lax.all_gather(lax.sin(x), "x", axis=1, tiled=True),
    ),
    "reduce_scatter": (
        lambda x: ops.reduce_scatter(ops.sin(x), ops.add, 0, 4, **EVERYWHERE),
        lambda x: lax.psum_scatter(lax.sin(x), "x", scatter_dimension=0, tiled=True),
    ),
    "all_to_all": (
        lambda x: ops.all_to_all(ops.sin(x), 0, 1, 4, ALL, channel_id=1),
        lambda x: lax.all_to_all(lax.sin(x), "x", 0, 1, tiled=True),
    ),
    "collective_permute": (
        lambda x: ops.collective_permute(x * x, [(0, 1), (1, 3)], channel_id=1),
        lambda x: lax.ppermute(x * x, "x", [(0, 1), (1, 3)]),
    ),
    "partition_id": (
        lambda x: x * ops.convert_element_type(ops.partition_id(), "f32"),
        lambda x: x * lax.axis_index("x"),
    ),
    "several channels": (
        lambda x: ops.all_gather(
            ops.all_reduce(x * x, ops.add, ALL, 7, use_global_device_ids=True),
            0,
            4,
            ALL,
            3,
            use_global_device_ids=True,
        ),
        lambda x: lax.all_gather(lax.psum(x * x, "x"), "x", tiled=True),
    ),
}


def value_and_gradient(fun):
    """Both for the whole of a function of a part."""
    mapped = sharded(fun)

    def program(x):
        value = mapped(x)
        weights = np.cos(np.arange(value.size, dtype=np.float32)).reshape(value.shape)
        return value, jax.grad(lambda x: (mapped(x) * weights).sum())(x)

    return program


@functools.cache
def values_and_gradients():
    """Ours and JAX's by name, each all in one program."""
    ours = {name: value_and_gradient(mx.jit(pair[0])) for name, pair in PROGRAMS.items()}
    theirs = {name: value_and_gradient(pair[1]) for name, pair in PROGRAMS.items()}
    return compiled_together(ours, X, jit=jax.jit), compiled_together(theirs, X, jit=jax.jit)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    ours, theirs = values_and_gradients()
    jax.tree.map(assert_same, ours(name), theirs(name))


@pytest.mark.parametrize("groups", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_groups_of_a_mesh_of_two_dimensions(groups):
    """Global ids are the places in the mesh, counted row by row."""
    axis = "y" if groups == ROWS else "x"

    def ours(x):
        return ops.all_reduce(x, ops.max, groups, 1, use_global_device_ids=True)

    place = {"sizes": (2, 2), "spec": P("x", "y")}
    x = np.repeat(X, 2, axis=1)
    expected = jax.jit(sharded(lambda x: lax.pmax(x, axis), **place))(x)
    assert_same(jax.jit(sharded(mx.jit(ours), **place))(x), expected)


def test_without_jit():
    """Operations alone, each a program on every device."""
    total = sharded(lambda x: ops.all_reduce(x, ops.add, **EVERYWHERE), out=P())(X)
    assert_same(total, X.reshape(4, 4, 3).sum(0))


def test_our_gradient_of_each_part():
    """mx.grad inside shard_map: what is sent to other devices comes back."""

    def loss(x, m):
        if m is mx:
            total = ops.all_reduce(x, ops.add, **EVERYWHERE)
        else:
            total = lax.psum(x, "x")
        return (x * total * total).sum()

    ours = sharded(mx.jit(mx.grad(functools.partial(loss, m=mx))))
    expected = sharded(jax.grad(functools.partial(loss, m=jax)))
    assert_same(jax.jit(ours)(X), jax.jit(expected)(X))


def test_jit_with_shardings():
    """Without collectives, XLA divides the work as the arguments say."""
    w = np.cos(np.arange(12, dtype=np.float32)).reshape(3, 4)
    four = mesh(4)
    fun = mx.jit(lambda x, w: mx.numpy.tanh(x @ w), out_shardings=NamedSharding(four, P("x")))
    found = fun(jax.device_put(X, NamedSharding(four, P("x"))), w)
    assert_same(found, np.tanh(X @ w))
    assert {shard.data.shape for shard in found.addressable_shards} == {(4, 4)}
    assert len(found.sharding.device_set) == 4


def test_inside_jax_pmap():
    def ours(x):
        return ops.all_reduce(mx.numpy.sin(x), ops.add, **EVERYWHERE)

    assert_same(jax.pmap(mx.jit(ours))(Y), np.stack([np.sin(Y).sum(0)] * 4))


def test_names_of_jax_axes_are_unknown():
    with pytest.raises(mx.TransformError, match="psum: the axis name 'x' is not bound"):
        sharded(lambda x: mx.psum(x, "x"))(X)
