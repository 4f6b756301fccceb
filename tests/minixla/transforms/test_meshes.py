"""Our meshes and JAX's work in the same functions, with every type of axes."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import minixla as mx
import minixla.numpy as mnp
from minixla.engine import ENGINE
from minixla.sharding import NamedSharding
from tests.selection import diagonal

P, SHAPE, NAMES = mx.P, (2, 2), ("x", "y")
DEVICES = np.array(jax.devices()[:4]).reshape(SHAPE)
MESHES = {
    "ours": mx.sharding.Mesh(DEVICES, NAMES),
    "ours without devices": mx.sharding.Mesh(None, NAMES, SHAPE),
    "JAX's": jax.sharding.Mesh(DEVICES, NAMES),
    "made": mx.make_mesh(SHAPE, NAMES),
    "automatic axes": jax.make_mesh(SHAPE, NAMES, axis_types=(AxisType.Auto,) * 2),
    "explicit axes": jax.make_mesh(SHAPE, NAMES, axis_types=(AxisType.Explicit,) * 2),
}
X = np.arange(32, dtype=np.float32).reshape(8, 4)
SUMS = X[:, :2] + X[:, 2:]


def summed(**mesh):
    """Sum pairs of columns that lie on two devices."""
    specs = {"in_specs": (P("x", "y"),), "out_specs": P("x")}
    return mx.shard_map(lambda a: mx.psum(a, "y"), **specs, **mesh)


def put():
    return mx.device_put(X, P("x", "y"))


# Functions that run under `set_mesh`, and their results.
UNDER = {
    "shard_map": (lambda: summed()(X), SUMS),
    "shard_map of an array there": (lambda: summed()(put()), SUMS),
    "jit of shard_map": (lambda: mx.jit(summed())(put()), SUMS),
    "grad of shard_map": (lambda: mx.grad(lambda x: summed()(x).sum())(put()), np.ones_like(X)),
    "jit, in_shardings": (
        lambda: mx.jit(lambda x: 2 * x, in_shardings=P("x"), out_shardings=P("x"))(X),
        2 * X,
    ),
    "constrain": (lambda: mx.jit(lambda x: mx.sharding.constrain(2 * x, P("x")))(X), 2 * X),
    # Over explicit axes JAX does not choose where a product of `x.T @ x` lies.
    "jit": (lambda: mx.jit(lambda x: (x * x).sum())(put()), (X * X).sum()),
    "eager": (lambda: mnp.square(put()), X * X),
    "grad": (lambda: mx.jit(mx.grad(lambda x: (x**2).sum()))(put()), 2 * X),
    "vmap": (lambda: mx.vmap(lambda x: x.sum())(put()), X.sum(1)),
    "scan": (lambda: mx.scan(lambda c, x: (c + x.sum(), x), 0.0, put())[1], X),
}


@pytest.mark.parametrize(("name", "mesh"), diagonal([*UNDER], [*MESHES]))
def test_programs_run_under_a_mesh(mesh, name):
    run, expected = UNDER[name]
    with mx.set_mesh(MESHES[mesh]):
        np.testing.assert_array_equal(run(), expected)


@pytest.mark.parametrize("mesh", MESHES)
def test_a_mesh_is_an_argument(mesh):
    mesh = MESHES[mesh]
    sharding = mx.NamedSharding(mesh, P("x", "y"))
    assert type(sharding) is jax.sharding.NamedSharding and isinstance(sharding, NamedSharding)
    assert isinstance(sharding, mx.NamedSharding) and not isinstance(mesh, mx.NamedSharding)
    there = mx.device_put(X, sharding)
    assert len(there.sharding.device_set) == 4
    np.testing.assert_array_equal(summed(mesh=mesh)(there), SUMS)
    np.testing.assert_array_equal(mx.jit(lambda x: 2 * x, in_shardings=sharding)(X), 2 * X)
    np.testing.assert_array_equal(mx.jit(lambda x: x + x, in_shardings=P("x"), mesh=mesh)(X), 2 * X)

    def constrained(x):
        return mx.sharding.constrain(3 * x, P("x"), mesh=mesh)

    np.testing.assert_array_equal(mx.jit(constrained)(X), 3 * X)


def test_a_mesh_is_set_and_removed():
    with mx.set_mesh(MESHES["ours"]):
        assert dict(mx.sharding.get_abstract_mesh().shape) == {"x": 2, "y": 2}
    assert mx.sharding.get_abstract_mesh().empty
    for abstract in (
        mx.sharding.Mesh(None, ("z",), (64,)),
        mx.sharding.AbstractMesh((64,), ("z",), axis_types=(mx.sharding.AxisType.Auto,)),
    ):
        with mx.sharding.use_abstract_mesh(abstract):
            assert mx.eval_shape(lambda x: mx.sharding.constrain(x, P("z")), X).shape == X.shape


def test_what_is_no_mesh_is_refused():
    with pytest.raises(ValueError, match="mesh"):
        mx.set_mesh("x")
    with pytest.raises(mx.ShardingError, match="a mesh needs 4096 devices"):
        mx.set_mesh(mx.sharding.Mesh(None, ("x",), (4096,)))


def test_constants_made_under_a_mesh_stay_there():
    """A constant that the engine caches for derivative rules is not on the devices of a mesh."""
    value, explicit = np.broadcast_to(np.float32(7.25), (5, 7)), (jax.sharding.AxisType.Explicit,)
    with mx.set_mesh(jax.make_mesh((4,), ("x",), axis_types=explicit)):
        ENGINE.lift(value)
    assert len(ENGINE.lift(value).devices()) == 1
