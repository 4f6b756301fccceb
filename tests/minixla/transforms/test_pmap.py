"""pmap on four CPU devices: values, axes, options, nesting and collectives, against jax.vmap."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
from tests.harness import QUICKLY, by_jax, compiled_together
from tests.minixla.transforms.collective_programs import (
    INSIDE,
    ON_DEVICES,
    PERMUTATION,
    PROGRAMS,
    WITHOUT_DERIVATIVE,
    W,
    Y,
    assert_same,
    both,
    gradients_in_jax,
    of_squares,
    together_on_devices,
    value_and_derivatives,
)
from tests.selection import quick_rows


def on_devices(array):
    """The ids of the devices that have the first and the following members."""
    shards = sorted(array.addressable_shards, key=lambda each: each.index[0].start or 0)
    return [each.device.id for each in shards]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name):
    """The members together are one function, whose derivative is JAX's of its vmap."""
    ON_DEVICES.check(name)


def test_results_stay_on_the_devices():
    found = mx.pmap(lambda x: x + 1)(Y)
    assert found.dtype == np.float32
    assert on_devices(found) == [0, 1, 2, 3]


GROUPED = {
    "psum": lambda x, groups: mx.psum(x, "i", axis_index_groups=groups),
    "pmean": lambda x, groups: mx.pmean(x, "i", axis_index_groups=groups),
    "pmax": lambda x, groups: mx.pmax(x, "i", axis_index_groups=groups),
    "all_gather": lambda x, groups: mx.all_gather(x, "i", axis_index_groups=groups),
    "psum_scatter": lambda x, groups: mx.psum_scatter(x[:2], "i", axis_index_groups=groups),
    "all_to_all": lambda x, groups: mx.all_to_all(x[:2], "i", 0, 1, axis_index_groups=groups),
}


def grouped(name):
    """The program of a member."""
    return lambda x: GROUPED[name](x, [[0, 2], [3, 1]])


@functools.cache
def on_each():
    """What members get by pmap alone: gradients, and results of groups."""
    gradients = {name: of_squares(mx, both(name)[0]) for name in INSIDE}
    return together_on_devices(gradients | {f"{name} of groups": grouped(name) for name in GROUPED})


@pytest.mark.parametrize("name", INSIDE)
def test_gradient_of_each_member(name):
    """What a member's gradient sends to the others, they get."""
    assert_same(on_each()(name), gradients_in_jax()(name))


LACKING = [*WITHOUT_DERIVATIVE, "all_to_all"]
TIED = Y.copy()
TIED[2, :4] = TIED[1, :4]  # of equal members each has its share


def derivatives(transformation, name):
    return value_and_derivatives(mx, transformation(both(name)[0], axis_name="i"))


@functools.cache
def compiled_derivatives():
    return compiled_together({name: derivatives(mx.pmap, name) for name in LACKING}, TIED)


@pytest.mark.parametrize("name", LACKING)
def test_derivatives_that_jax_lacks(name):
    expected = mx.reference(derivatives(mx.vmap, name))(TIED)
    for found in (compiled_derivatives()(name), mx.reference(derivatives(mx.pmap, name))(TIED)):
        jax.tree.map(assert_same, found, expected)


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    expected = mx.reference(mx.vmap(grouped(name), axis_name="i"))(Y)
    assert_same(on_each()(f"{name} of groups"), expected)
    assert_same(mx.reference(mx.pmap(grouped(name), axis_name="i"))(Y), expected)


def test_members_that_get_nothing():
    sent = mx.pmap(lambda x: mx.ppermute(x, "i", PERMUTATION[:2]), axis_name="i")
    np.testing.assert_array_equal(sent(Y), np.stack([0 * Y[0], Y[0], 0 * Y[0], Y[1]]))


TREE = {"a": Y, "b": (np.arange(12, dtype=np.int32).reshape(3, 4), W)}

# name: function, arguments, in_axes, out_axes
AXES = {
    "last in, middle out": (lambda x: x * 2, (np.moveaxis(Y, 0, 2),), 2, 1),
    "negative": (lambda x: x * 2, (np.moveaxis(Y, 0, 2),), -1, -2),
    "one not mapped": (lambda x, w: x @ w, (Y, W), (0, None), 0),
    "a list": (lambda x, w: x @ w, (Y, W), [0, None], 1),
    "a tree": (
        lambda tree, n: {"out": tree["a"] * n, "sum": tree["b"][0] + 1, "w": tree["b"][1]},
        (TREE, np.float32(2)),
        ({"a": 0, "b": (1, None)}, None),
        {"out": 2, "sum": 0, "w": 1},
    ),
    "results that are the same": (lambda x, w: (x, w + 1), (Y, W), (0, None), (0, None)),
    "scalars": (lambda x: x + 1, (np.arange(4, dtype=np.int32),), 0, 0),
    "no elements": (lambda x: x + 1, (np.zeros((4, 0, 2), np.float32),), 0, 1),
}


@functools.cache
def expected_axes():
    """What JAX's vmap gives, by name."""
    functions = {
        name: jax.vmap(fun, tuple(axes) if isinstance(axes, list) else axes, out_axes)
        for name, (fun, _, axes, out_axes) in AXES.items()
    }
    return by_jax(
        lambda given: {name: f(*given[name]) for name, f in functions.items()},
        {name: row[1] for name, row in AXES.items()},
    )


@pytest.mark.parametrize("name", AXES)
def test_axes(name):
    fun, arguments, in_axes, out_axes = AXES[name]
    ours = mx.pmap(fun, in_axes=in_axes, out_axes=out_axes)
    expected = expected_axes()[name]
    for found in (ours(*arguments), mx.reference(ours)(*arguments)):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        jax.tree.map(assert_same, found, expected)


def test_keywords_are_mapped_over_their_first_axis():
    ours = mx.pmap(lambda x, scale: x * scale, in_axes=1)
    scale = np.arange(4, dtype=np.float32)
    assert_same(ours(np.moveaxis(Y, 0, 1), scale=scale), Y * scale[:, None, None])


def test_axis_size():
    alone = mx.pmap(lambda: mx.axis_index("i"), axis_name="i", axis_size=3)()
    assert alone.dtype == np.int32
    np.testing.assert_array_equal(alone, [0, 1, 2])
    unmapped = mx.pmap(lambda x: x + mx.axis_index("i"), "i", in_axes=None, axis_size=2)
    np.testing.assert_array_equal(unmapped(np.int32(5)), [5, 6])


def test_result_of_the_first_device():
    ours = mx.pmap(lambda x: (x.sum(), mx.psum(x.sum(), "i")), "i", out_axes=None)
    for found in (ours(Y), mx.reference(ours)(Y)):
        assert_same(found[0], Y[0].sum())
        assert_same(found[1], Y.sum())
    gradient = mx.grad(lambda y: ours(y)[0] + 2 * ours(y)[1])(Y)
    assert_same(gradient, 2 + np.float32([1, 0, 0, 0])[:, None, None] * np.ones_like(Y))


def test_derivative_of_what_is_not_mapped():
    """Parameters on every device: their gradient is the sum of all members'."""

    def loss(m, collectives):
        def member(w, x):
            return collectives.pmean(((x @ w) ** 3).sum(), "i")

        if m is jax:
            return jax.vmap(member, (None, 0), None, axis_name="i")
        return mx.pmap(member, "i", in_axes=(None, 0), out_axes=None)

    def derivatives(m, collectives):
        gradient = m.grad(loss(m, collectives), (0, 1))
        return lambda w, x: m.jvp(gradient, (w, x), (0 * w, x))

    expected = by_jax(derivatives(jax, lax), W, Y)
    ours = derivatives(mx, mx)
    for found in (mx.jit(ours, compiler_options=QUICKLY)(W, Y), mx.reference(ours)(W, Y)):
        jax.tree.map(
            lambda *each: np.testing.assert_allclose(*each, rtol=1e-4, atol=1e-4), found, expected
        )
    assert_same(mx.grad(loss(mx, mx))(W, Y), expected[0][0])


def test_static_arguments():
    traced = []

    def member(power, x, kind):
        traced.append((power, kind))
        return x**power if kind == "power" else x

    ours = mx.pmap(member, in_axes=(None, 0, None), static_broadcasted_argnums=(0, -1))
    assert_same(ours(2, Y, "power"), Y**2)
    assert_same(ours(2, 2 * Y, "power"), 4 * Y**2)
    assert_same(ours(3, Y, "power"), Y**3)
    assert_same(ours(3, Y, "other"), Y)
    assert traced == [(2, "power"), (3, "power"), (3, "other")]
    with pytest.raises(mx.TransformError, match="static argument 0 is not hashable"):
        ours([2], Y, "power")


def test_traced_once():
    shapes = []

    def member(x):
        shapes.append(x.shape)
        return x * 2

    ours = mx.pmap(member)
    for _ in range(2):
        ours(Y)
        mx.grad(lambda y: ours(y).sum())(Y)
        mx.reference(ours)(Y)
    assert shapes == [(8, 3)]
    ours(Y[:2])
    ours(Y[:, :1])
    assert shapes == [(8, 3), (8, 3), (1, 3)], "the axis has another size; the shape is another"


def test_values_from_outside():
    """Arrays and traced values that the function reads go to all devices."""
    w = jnp.asarray(W)

    def loss(scale):
        return mx.pmap(lambda x: mx.psum((x @ w * scale).sum(), "i"), "i")(Y)[0]

    scales = np.float32([1, 2])
    gradient, batch = mx.jit(lambda s: (mx.grad(loss)(s[0]), mx.vmap(loss)(s)))(scales)
    assert_same([gradient, mx.grad(loss)(scales[0])], [(Y @ W).sum()] * 2)
    assert_same(batch, (Y @ W).sum() * scales)
    reads = mx.pmap(lambda x: x * state["scale"])
    for scale in (1.0, 2.0):
        state = {"scale": np.float32(scale)}
        gradient = mx.grad(lambda s: reads(Y).sum() * s)
        assert_same(gradient(np.float32(1)), Y.sum())


def test_donated_arguments():
    ours = mx.pmap(
        lambda n, x, y: (x + n, y * 2),
        in_axes=(None, 0, 0),
        static_broadcasted_argnums=0,
        donate_argnums=(1,),
    )
    place = mx.pmap(lambda x: x + 0)
    x, y = place(Y), place(Y)
    found = ours(1, x, y)
    assert_same(found[0], Y + 1)
    assert x.is_deleted()
    assert not y.is_deleted()
    last = mx.pmap(lambda x, y: (x * 1, y * 2), donate_argnums=-1)
    x, y = place(Y), place(Y)
    last(x, y)
    assert y.is_deleted()
    assert not x.is_deleted()


def test_devices():
    chosen = [jax.devices()[number] for number in (3, 1)]
    ours = mx.pmap(lambda x: (x, mx.axis_index("i"), mx.psum(x, "i")), "i", devices=chosen)
    x, numbers, total = ours(Y[:2])
    assert on_devices(x) == [3, 1]
    np.testing.assert_array_equal(x, Y[:2])
    np.testing.assert_array_equal(numbers, [0, 1])
    assert_same(total, np.stack([Y[:2].sum(0)] * 2))
    # What lives on other devices, is moved.
    again = mx.pmap(lambda x: x + 1, devices=chosen[::-1])(x)
    assert on_devices(again) == [1, 3]
    assert_same(again, Y[:2] + 1)
    bound = jax.device_put(Y, jax.devices()[2])
    assert_same(mx.pmap(lambda x: x + 1, backend="cpu")(bound), Y + 1)


def test_decorator():
    @mx.pmap
    def plain(x):
        """Twice."""
        return 2 * x

    @mx.pmap(axis_name="i", in_axes=1)
    def with_options(x):
        return mx.psum(x, "i")

    @functools.partial(mx.pmap, out_axes=1)
    def partial(x):
        return 2 * x

    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Twice."
    assert_same(plain(Y), 2 * Y)
    assert_same(with_options(Y[:, :4]), np.stack([Y[:, :4].sum(1)] * 4))
    assert_same(partial(Y), np.moveaxis(2 * Y, 0, 1))


def test_program_as_text():
    text = str(mx.make_graph(mx.pmap(lambda x: mx.psum(x, "i"), "i"))(Y))
    assert "all-reduce(" in text
    assert "in_shardings=\"<@mesh, [{'devices'}, {}, {}]>\"" in text
    assert 'manual_axes="devices"' in text
    assert "test_pmap.py" in text


def two_lists_of_devices():
    few = mx.pmap(lambda x: x, devices=jax.devices()[:2])
    return mx.jit(lambda y: few(mx.pmap(lambda x: x)(y)[:2]))(Y)


def inside_jax():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    inner = mx.pmap(lambda x: x)
    return jax.shard_map(inner, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)(Y)


ERRORS = {
    "too few devices": (
        lambda: mx.pmap(lambda x: x)(np.ones(5)),
        [
            "pmap: the mapped axis has size 5, but there are 4 devices",
            "devices: cpu:0, cpu:1, cpu:2, cpu:3",
            'jax.config.update("jax_num_cpu_devices", 5)',
            "XLA_FLAGS=--xla_force_host_platform_device_count=5",
        ],
    ),
    "too few devices of those given": (
        lambda: mx.pmap(lambda x: x, devices=jax.devices()[:2])(Y),
        ["the mapped axis has size 4, but there are 2 devices", "devices: cpu:0, cpu:1"],
    ),
    "sizes": (
        lambda: mx.pmap(lambda x, y: x)(np.ones(4, "f"), np.ones((3, 2), "f")),
        ["the mapped axes must have equal sizes", ": f32[3,2], axis 0 of size 3"],
    ),
    "axis_size": (
        lambda: mx.pmap(lambda x: x, axis_size=3)(Y),
        ["the mapped axes must have equal sizes", "axis_size = 3"],
    ),
    "unknown size": (
        lambda: mx.pmap(lambda x: x, in_axes=None)(Y),
        ["pmap: no argument is mapped, so the size of the axis is unknown", "axis_size"],
    ),
    "no such axis": (
        lambda: mx.pmap(lambda x: x, in_axes=3)(Y),
        ["in_axes maps axis 3, which the argument lacks", "f32[4,8,3]"],
    ),
    "a scalar": (
        lambda: mx.pmap(lambda x, y: x)(Y, 1.0),
        ["in_axes maps axis 0, which the argument lacks"],
    ),
    "no such axis in the result": (
        lambda: mx.pmap(lambda x: x.sum(), out_axes=1)(Y),
        ["out_axes has axis 1 for a result of rank 1", "an axis in [-1, 1), or None."],
    ),
    "a tree that does not fit": (
        lambda: mx.pmap(lambda x, y: x, in_axes=(0,))(Y, Y),
        ["pmap: in_axes does not match the structure that it describes"],
    ),
    "a result tree that does not fit": (
        lambda: mx.pmap(lambda x: x, out_axes={"a": 0})(Y),
        ["pmap: out_axes does not match the structure that it describes"],
    ),
    "a tuple": (
        lambda: mx.pmap(lambda x: mx.ops.tuple([x, x]))(Y),
        ["pmap: a result is not an array", "(f32[8,3], f32[8,3])"],
    ),
    "two lists of devices in a program": (
        two_lists_of_devices,
        ["the meshes of a program must have the same devices", "devices: cpu:0, cpu:1\n"],
    ),
    "inside JAX's": (
        inside_jax,
        ["a function that JAX maps over the mesh {'x': 4} uses another mesh", "Use vmap inside"],
    ),
    "unbound": (
        lambda: mx.pmap(lambda x: mx.psum(x, "i"))(Y),
        ["psum: the axis name 'i' is not bound", "bound here: none"],
    ),
    "no function": (lambda: mx.pmap(Y), ["pmap: expected a function, got ndarray"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, phrases = ERRORS[name]
    with pytest.raises((mx.TransformError, mx.ShardingError)) as caught:
        call()
    for phrase in (*phrases, "test_pmap.py"):
        assert phrase in str(caught.value)


def test_a_failed_call_leaves_no_axis_behind():
    with pytest.raises(ZeroDivisionError):
        mx.pmap(lambda x: 1 // 0, "i")(Y)
    with pytest.raises(mx.TransformError, match="bound here: none"):
        mx.psum(Y, "i")


def test_one_device():
    device = jax.devices()[2]
    ours = mx.pmap(lambda x: mx.psum(x, "i") + mx.axis_index("i"), "i", devices=[device])
    for found in (ours(Y[:1]), mx.jit(ours)(Y[:1]), mx.reference(ours)(Y[:1])):
        assert_same(found, Y[:1])
    assert mx.jit(ours)(Y[:1]).devices() == {device}


# Of a member; whether its result differs between members.
ALONE = {
    "own": (lambda x: x.sum(), True),
    "own numbers": (lambda x: mx.axis_index("i") + 7, True),
    "own truth value": (lambda x: x.sum() > 0, True),
    "sent": (lambda x: mx.ppermute(x, "i", PERMUTATION), True),
    "part of a sum": (lambda x: mx.psum_scatter(x[:4], "i"), True),
    "sum": (lambda x: mx.psum(x, "i") * 2, False),
    "gathered": (lambda x: mx.all_gather(x, "i"), False),
    "sum by a jitted function": (lambda x: mx.jit(lambda x: mx.pmean(x, "i"))(x), False),
    "constant": (lambda x: mx.numpy.sin(np.float32(2)), False),
}


@pytest.mark.parametrize("name", quick_rows(ALONE, [*ALONE][::2]))
def test_an_unmapped_result_is_the_first_devices_for_all_that_follows(name):
    """Programs go on with it on each device: were it each one's own, they would mix them."""
    member, differs = ALONE[name]
    ours = mx.pmap(member, "i", out_axes=None)

    def program(y):
        return ours(y), ours(y)[..., None] * y.sum((1, 2))

    expected = mx.reference(program)(Y)
    first = mx.reference(mx.pmap(member, "i"))(Y)[0]
    assert_same(expected[0], first)
    for found in (mx.jit(program)(Y), program(Y)):
        jax.tree.map(assert_same, found, expected)
    alone, stacked = (str(mx.make_graph(f)(Y)) for f in (ours, mx.pmap(member, "i")))
    assert (alone.count("all-reduce(") > stacked.count("all-reduce(")) == differs
