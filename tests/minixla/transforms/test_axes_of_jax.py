"""Our functions with collectives inside jax.shard_map, jax.pmap and jax.vmap, against JAX's."""

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
from tests.minixla.transforms.collective_programs import (
    INSIDE,
    Y,
    assert_same,
    both,
)
from tests.minixla.transforms.collective_programs import (
    PROGRAMS as NAMED,
)

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


#: Of the collectives by name, those whose gradient is compared inside the mapped function.
DIFFERENTIATED = ["psum", "pmean", "all_gather", "psum_scatter, tiled", "all_to_all, tiled"]

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


def over_members(fun, check=True, out=None):
    """A function of one member of Y as one of all of Y, each on its device, the axis named "i"."""
    return jax.shard_map(
        lambda y: fun(y[0])[None] if out is None else fun(y[0]),
        mesh=jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,)),
        in_specs=P("i"),
        out_specs=P("i") if out is None else out,
        check_vma=check,
    )


def value_and_pulled(mapped):
    """The value for Y and the gradient of its weighted sum, taken around the mapped function."""

    def program(y):
        value, pull = jax.vjp(mapped, y)
        weights = np.cos(np.arange(value.size, dtype=np.float32)).reshape(value.shape)
        return value, pull(weights)[0]

    return program


@functools.cache
def programs_by_name(check):
    """Ours and what is expected by name; JAX does not differentiate all of them, or wrongly."""
    ours = {name: value_and_pulled(over_members(mx.jit(both(name)[0]), check)) for name in NAMED}
    expected = {
        name: value_and_pulled(jax.vmap(both(name)[1], axis_name="i"))
        if name in INSIDE
        else value_and_pulled(mx.vmap(both(name)[0], axis_name="i"))
        for name in NAMED
    }
    return compiled_together(ours, Y, jit=jax.jit), compiled_together(expected, Y, jit=jax.jit)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", NAMED)
def test_collectives_by_name_over_an_axis_that_jax_has_bound(name, check):
    ours, expected = programs_by_name(check)
    jax.tree.map(assert_same, ours(name), expected(name))


def squares(m, name):
    return lambda x: (NAMED[name](lax if m is jax else m, x) ** 2).sum()


@functools.cache
def inner_gradients():
    """The gradient of each member's own result, of which the others' members are a part."""
    ours = {name: over_members(mx.grad(squares(mx, name)), False) for name in DIFFERENTIATED}
    jitted = {
        f"{name}, jitted": over_members(mx.jit(mx.grad(squares(mx, name))), False)
        for name in DIFFERENTIATED
    }
    theirs = {name: over_members(jax.grad(squares(jax, name)), False) for name in DIFFERENTIATED}
    own = compiled_together({**ours, **jitted}, Y, jit=jax.jit)
    return own, compiled_together(theirs, Y, jit=jax.jit)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_our_gradient_of_collectives_by_name(name):
    ours, expected = inner_gradients()
    assert_same(ours(name), expected(name))
    assert_same(ours(f"{name}, jitted"), expected(name))


def test_what_a_collective_makes_equal_everywhere_may_leave_as_one_value():
    """JAX's check of out_specs sees that a sum is the same on all devices."""
    total = over_members(mx.jit(lambda x: mx.psum(mx.numpy.sin(x), "i")), out=P())
    assert_same(total(Y), np.sin(Y).sum(0))


def test_our_reverse_derivative_of_a_sum_that_jax_counts_once_is_refused():
    for gradient in (mx.grad(squares(mx, "psum")), mx.jit(mx.grad(squares(mx, "psum")))):
        with pytest.raises(mx.DerivativeError, match="psum: its reverse derivative") as caught:
            over_members(gradient)(Y)
        assert "jax.grad" in str(caught.value)
        assert "check_vma=False" in str(caught.value)
        assert "test_shard_map.py" in str(caught.value) or "collective_programs" in str(
            caught.value
        )


def test_collectives_by_name_in_loops_and_branches():
    """There they are XLA's own, between the devices along one axis of the mesh."""

    def program(m, name):
        scan = mx.scan if m is mx else lax.scan

        def step(carry, _):
            moved = m.ppermute(carry, name, [(0, 1), (1, 0)]) * m.axis_index(name)
            return moved + m.pmean(carry, name), m.pmax(carry, name)

        return lambda x: scan(step, x, None, length=3)

    place = {"sizes": (2, 2), "spec": P("x", "y"), "out": (P("x", "y"), P(None, "x", "y"))}
    x = np.repeat(X, 2, axis=1)
    for name in "xy":
        ours = sharded(mx.jit(program(mx, name)), **place)
        theirs = sharded(program(lax, name), **place)
        jax.tree.map(assert_same, jax.jit(ours)(x), jax.jit(theirs)(x))

    def chosen(m):
        cond = mx.cond if m is mx else lax.cond
        return lambda x: cond(True, lambda x: m.psum(x, "i"), lambda x: x, x)

    ours, theirs = over_members(mx.jit(chosen(mx)), False), over_members(chosen(lax), False)
    assert_same(jax.jit(ours)(Y), jax.jit(theirs)(Y))


def test_reverse_derivative_of_a_loop_with_a_sum_over_devices():
    def loss(m, x):
        scan = mx.scan if m is mx else lax.scan
        return (scan(lambda c, _: (c * m.psum(c, "i"), None), x, None, length=2)[0]).sum()

    ours = over_members(mx.jit(mx.grad(functools.partial(loss, mx))), False)
    expected = over_members(jax.grad(functools.partial(loss, lax)), False)
    found, wanted = jax.jit(ours)(Y / 8), jax.jit(expected)(Y / 8)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mapping", [jax.pmap, jax.vmap])
def test_axes_of_pmap_and_vmap_of_jax(mapping):
    def ours(x):
        total = mx.psum(x * x, "i") + mx.fori_loop(0, 2, lambda _, c: mx.pmean(c, "i") + c, x)
        return total * mx.axis_index("i")

    def theirs(x):
        total = lax.psum(x * x, "i") + lax.fori_loop(0, 2, lambda _, c: lax.pmean(c, "i") + c, x)
        return total * lax.axis_index("i")

    expected = mapping(theirs, axis_name="i")(Y)
    assert_same(mapping(mx.jit(ours), axis_name="i")(Y), expected)


def test_a_nested_function_is_staged_again_for_an_axis_of_another_size():
    inner = mx.jit(lambda x: x * mx.axis_size("i"))
    outer = mx.jit(lambda x: inner(x) + 0)
    for size in (4, 2):
        assert_same(jax.vmap(outer, axis_name="i")(Y[:size]), Y[:size] * size)


def test_groups_and_several_axes():
    groups = [[0, 2], [1, 3]]
    ours = over_members(mx.jit(lambda x: mx.psum(x, "i", axis_index_groups=groups)), False)
    expected = over_members(lambda x: lax.psum(x, "i", axis_index_groups=groups), False)
    assert_same(jax.jit(ours)(Y), jax.jit(expected)(Y))
    place = {"sizes": (2, 2), "spec": P("x", "y")}
    x = np.repeat(X, 2, axis=1)

    def program(m):
        return lambda x: m.psum(x, ("x", "y")) + m.axis_index(("y", "x"))

    ours, expected = sharded(mx.jit(program(mx)), **place), sharded(program(lax), **place)
    assert_same(jax.jit(ours)(x), jax.jit(expected)(x))


def test_an_axis_that_nobody_binds():
    with pytest.raises(mx.TransformError, match="psum: the axis name 'y' is not bound") as caught:
        sharded(lambda x: mx.psum(x, "y"))(X)
    assert "bound here: 'x'" in str(caught.value)
    assert "jax.shard_map" in str(caught.value)
