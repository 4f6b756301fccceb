"""pmap on four CPU devices: values, axes, options, nesting and collectives, against jax.vmap."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.transforms.collective_programs import (
    INSIDE,
    PERMUTATION,
    PROGRAMS,
    WITHOUT_DERIVATIVE,
    Y,
    assert_same,
    both,
    weights_of,
)

W = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)


def mapped(name):
    """The program on every member, in minixla's pmap and in JAX's vmap."""
    ours, theirs = both(name)
    return mx.pmap(ours, axis_name="i"), jax.vmap(theirs, axis_name="i")


def on_devices(array):
    """The ids of the devices that have the first and the following members."""
    shards = sorted(array.addressable_shards, key=lambda each: each.index[0].start or 0)
    return [each.device.id for each in shards]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    ours, theirs = mapped(name)
    expected = theirs(Y)
    found = ours(Y)
    assert_same(found, expected)
    assert found.dtype == expected.dtype
    assert on_devices(found) == [0, 1, 2, 3]
    assert_same(mx.reference(ours)(Y), expected)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_DERIVATIVE])
def test_derivatives(name):
    """The members together are one function, whose derivative is JAX's of its vmap."""
    ours, theirs = mapped(name)
    weights = weights_of(theirs, Y)
    reverse = mx.grad(lambda y: (ours(y) * weights).sum())
    expected = jax.grad(lambda y: (theirs(y) * weights).sum())(Y)
    assert_same(reverse(Y), expected)
    assert_same(mx.reference(reverse)(Y), expected)
    assert_same(mx.jvp(ours, (Y,), (Y * Y,))[1], jax.jvp(theirs, (Y,), (Y * Y,))[1])


@pytest.mark.parametrize("name", INSIDE)
def test_gradient_of_each_member(name):
    """What a member's gradient sends to the others, they get."""
    ours, theirs = both(name)
    assert_same(
        mx.pmap(mx.grad(lambda x: (ours(x) ** 2).sum()), axis_name="i")(Y),
        jax.vmap(jax.grad(lambda x: (theirs(x) ** 2).sum()), axis_name="i")(Y),
    )


@pytest.mark.parametrize("name", [*WITHOUT_DERIVATIVE, "all_to_all"])
def test_derivatives_that_jax_lacks(name):
    ours, _ = both(name)
    tied = Y.copy()
    tied[2, :4] = tied[1, :4]  # of equal members each has its share

    def both_ways(transformation):
        member = transformation(ours, axis_name="i")
        forward = mx.jvp(member, (tied,), (np.sin(Y),))[1]
        return forward, mx.grad(lambda y: (member(y) ** 3).sum())(tied)

    for one, other in zip(both_ways(mx.pmap), both_ways(mx.vmap), strict=True):
        assert_same(one, other)


GROUPED = {
    "psum": lambda x, groups: mx.psum(x, "i", axis_index_groups=groups),
    "pmean": lambda x, groups: mx.pmean(x, "i", axis_index_groups=groups),
    "pmax": lambda x, groups: mx.pmax(x, "i", axis_index_groups=groups),
    "all_gather": lambda x, groups: mx.all_gather(x, "i", axis_index_groups=groups),
    "psum_scatter": lambda x, groups: mx.psum_scatter(x[:2], "i", axis_index_groups=groups),
    "all_to_all": lambda x, groups: mx.all_to_all(x[:2], "i", 0, 1, axis_index_groups=groups),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    def member(x):
        return GROUPED[name](x, [[0, 2], [3, 1]])

    ours = mx.pmap(member, axis_name="i")
    expected = mx.vmap(member, axis_name="i")(Y)
    assert_same(ours(Y), expected)
    assert_same(mx.reference(ours)(Y), expected)


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


@pytest.mark.parametrize("name", AXES)
def test_axes(name):
    fun, arguments, in_axes, out_axes = AXES[name]
    ours = mx.pmap(fun, in_axes=in_axes, out_axes=out_axes)
    jax_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    expected = jax.vmap(fun, jax_axes, out_axes)(*arguments)
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
    member = {m: lambda w, x, m=m: m.pmean((((x @ w) ** 3).sum()), "i") for m in (mx, lax)}
    ours = mx.pmap(member[mx], "i", in_axes=(None, 0), out_axes=None)
    theirs = jax.vmap(member[lax], (None, 0), None, axis_name="i")
    assert_same(mx.grad(ours, (0, 1))(W, Y)[0], jax.grad(theirs)(W, Y))
    assert_same(mx.reference(mx.grad(ours))(W, Y), jax.grad(theirs)(W, Y))
    assert_same(mx.grad(ours, 1)(W, Y), jax.grad(theirs, 1)(W, Y))
    pushed = mx.jvp(mx.grad(ours), (W, Y), (0 * W, Y))[1]
    assert_same(pushed, jax.jvp(jax.grad(theirs), (W, Y), (0 * W, Y))[1])


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

    assert_same(mx.grad(loss)(np.float32(3)), (Y @ W).sum())
    assert_same(mx.vmap(loss)(np.float32([1, 2])), (Y @ W).sum() * np.float32([1, 2]))
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


def member_of(m, numpy, grad):
    """A function of one member with a collective in the middle."""

    def member(x):
        total = m.psum(numpy.tanh(x @ W), "i")
        return (total * x).sum() + m.axis_index("i")

    return member, lambda x: grad(member)(x)


OURS, OUR_GRADIENT = member_of(mx, mnp, mx.grad)
THEIRS, THEIR_GRADIENT = member_of(lax, jnp, jax.grad)
P, V = mx.pmap(OURS, axis_name="i"), jax.vmap(THEIRS, axis_name="i")

# Each takes a mapped function and the framework's transformations, and gives a function of Y.
NESTED = {
    "jit": lambda f, m: m.jit(f),
    "jit(grad)": lambda f, m: m.jit(m.grad(lambda y: (f(y) ** 2).sum())),
    "grad(jit)": lambda f, m: m.grad(lambda y: (m.jit(f)(y) ** 2).sum()),
    "jvp(grad)": lambda f, m: (
        lambda y: m.jvp(m.grad(lambda y: (f(y) ** 2).sum()), (y,), (y * y,))[1]
    ),
    "grad(grad)": lambda f, m: m.grad(lambda y: (m.grad(lambda y: (f(y) ** 2).sum())(y) * Y).sum()),
    "vmap": lambda f, m: lambda y: m.vmap(f, in_axes=2)(np.stack([Y, 2 * Y], 2)),
    "vmap(grad)": lambda f, m: lambda y: m.vmap(m.grad(lambda y: f(y).sum()))(np.stack([Y, 2 * Y])),
    "grad(checkpoint)": lambda f, m: m.grad(lambda y: (m.checkpoint(f)(y) ** 2).sum()),
    "f(f)": lambda f, m: lambda y: f(y + f(y)[:, None, None]),
}


@pytest.mark.parametrize("name", NESTED)
def test_around_pmap(name):
    ours, theirs = NESTED[name](P, mx), NESTED[name](V, jax)
    np.testing.assert_allclose(ours(Y), theirs(Y), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["jit", "grad(jit)", "vmap", "f(f)"])
def test_pmap_inside_jax(name):
    np.testing.assert_allclose(
        NESTED[name](P, jax)(Y), NESTED[name](V, jax)(Y), rtol=2e-4, atol=2e-4
    )


@pytest.mark.parametrize("name", ["jit(grad)", "jvp(grad)", "vmap(grad)"])
def test_around_pmap_in_the_reference(name):
    found = mx.reference(NESTED[name](P, mx), precision="float64")(Y)
    np.testing.assert_allclose(found, NESTED[name](V, jax)(Y), rtol=2e-4, atol=2e-4)


# What stands inside a mapped function, as a function of the framework's modules and a member.
INNER = {
    "jit": lambda m, c, n, x: m.jit(lambda x: c.psum(n.tanh(x), "i"))(x),
    "vmap": lambda m, c, n, x: m.vmap(lambda row: c.psum(row, "i") * row)(x),
    "vmap with a name": lambda m, c, n, x: m.vmap(
        lambda row: c.psum(row, ("i", "j")) + c.axis_index(("j", "i")), axis_name="j"
    )(x),
    "scan": lambda m, c, n, x: _loops(m).scan(
        lambda carry, row: (carry * 0.5 + c.psum(row, "i"), carry * row), x[0], x
    )[1],
    "while_loop": lambda m, c, n, x: _loops(m).while_loop(
        lambda v: v[0] < 3, lambda v: (v[0] + 1, c.pmean(n.sin(v[1]), "i")), (0, x)
    )[1],
    "cond": lambda m, c, n, x: _loops(m).cond(
        c.psum(1, "i") > 2, lambda x: c.psum(x, "i"), lambda x: x, x
    ),
    "checkpoint": lambda m, c, n, x: m.checkpoint(lambda x: c.psum(n.sin(x), "i") ** 2)(x),
    "reduce in a loop": lambda m, c, n, x: sum(c.ppermute(x * k, "i", PERMUTATION) for k in (1, 2)),
}


def _loops(module):
    return mx if module is mx else lax


@pytest.mark.parametrize("name", INNER)
def test_inside_pmap(name):
    def ours(x):
        return INNER[name](mx, mx, mnp, x)

    def theirs(x):
        return INNER[name](jax, lax, jnp, x)

    ours, theirs = mx.pmap(ours, "i"), jax.vmap(theirs, axis_name="i")
    assert_same(ours(Y), theirs(Y))
    if name != "while_loop":  # JAX has no reverse derivative of it
        weights = weights_of(theirs, Y)
        expected = jax.grad(lambda y: (theirs(y) * weights).sum())(Y)
        assert_same(mx.grad(lambda y: (ours(y) * weights).sum())(Y), expected)


def test_derivative_of_a_loop_with_collectives():
    def both_ways(transformation):
        def member(x):
            return INNER["while_loop"](mx, mx, mnp, x)

        return mx.grad(lambda y: (transformation(member, axis_name="i")(y) ** 2).sum())(Y)

    assert_same(both_ways(mx.pmap), both_ways(mx.vmap))


def test_a_jitted_function_under_axes_of_both_kinds():
    """One function, one axis name, one size: a program for devices is none for a batch."""
    shared = mx.jit(lambda x: mx.psum(x, "i"))
    expected = np.stack([Y.sum(0)] * 4)
    for _ in range(2):
        assert_same(mx.pmap(lambda x: shared(x), "i")(Y), expected)
        assert_same(mx.vmap(lambda x: shared(x), axis_name="i")(Y), expected)


def test_pmap_inside_pmap_stays_on_the_device():
    def member(m, c, numpy, inner):
        def row(x):
            return c.psum(x, "i") + c.psum(numpy.sin(x), "j") + c.axis_index(("i", "j"))

        return lambda x: inner(row, axis_name="j", in_axes=1, out_axes=1)(x)

    # Eight members inside each of four: more than there are devices.
    wide = np.moveaxis(Y, 1, 2)
    ours = mx.pmap(member(mx, mx, mnp, mx.pmap), axis_name="i")
    theirs = jax.vmap(member(jax, lax, jnp, jax.vmap), axis_name="i")
    assert_same(ours(wide), theirs(wide))
    assert_same(mx.reference(ours)(wide), theirs(wide))
    assert_same(
        mx.grad(lambda y: (ours(y) ** 2).sum())(wide),
        jax.grad(lambda y: (theirs(y) ** 2).sum())(wide),
    )


def test_axes_of_vmap_around_pmap():
    """Inside, collectives are over devices, over the batch, or over both."""

    def member(c):
        return lambda x: c.psum(x, "batch") * c.axis_index("batch") + c.psum(x, ("i", "batch"))

    batch = np.stack([Y, np.cos(Y), Y * Y])
    ours = mx.vmap(mx.pmap(member(mx), "i"), axis_name="batch")
    theirs = jax.vmap(jax.vmap(member(lax), axis_name="i"), axis_name="batch")
    assert_same(ours(batch), theirs(batch))
    assert_same(
        mx.grad(lambda y: (ours(y) ** 2).sum())(batch),
        jax.grad(lambda y: (theirs(y) ** 2).sum())(batch),
    )


@pytest.mark.parametrize("name", ["psum", "all_gather", "all_to_all, tiled", "axis_index"])
def test_batches_around_and_inside(name):
    ours, theirs = both(name)
    batch = np.stack([Y, 2 * Y, -Y])
    expected = jax.vmap(jax.vmap(theirs, axis_name="i"))(batch)
    assert_same(mx.vmap(mx.pmap(ours, "i"))(batch), expected)
    inside = mx.pmap(mx.vmap(ours), "i", in_axes=1, out_axes=1)
    assert_same(inside(batch), expected)


def test_program_as_text():
    text = str(mx.make_graph(mx.pmap(lambda x: mx.psum(x, "i"), "i"))(Y))
    assert "all-reduce(" in text
    assert 'num_partitions=4, in_axes="(0,)", out_axes="(0,)"' in text
    assert "test_pmap.py" in text


def _in_a_loop(y):
    return mx.jit(lambda y: mx.fori_loop(0, 2, lambda _, v: mx.pmap(lambda x: x + 1)(v), y))(y)


ERRORS = {
    "too few devices": (
        lambda: mx.pmap(lambda x: x)(np.ones(5)),
        [
            "pmap: the mapped axis has 5 members, but there are 4 devices",
            "devices: cpu:0, cpu:1, cpu:2, cpu:3",
            'jax.config.update("jax_num_cpu_devices", 5)',
            "XLA_FLAGS=--xla_force_host_platform_device_count=5",
        ],
    ),
    "too few devices of those given": (
        lambda: mx.pmap(lambda x: x, devices=jax.devices()[:2])(Y),
        ["the mapped axis has 4 members, but there are 2 devices", "devices: cpu:0, cpu:1"],
    ),
    "sizes": (
        lambda: mx.pmap(lambda x, y: x)(np.ones(4, "f"), np.ones((3, 2), "f")),
        ["the mapped axes have different sizes", "array 1: f32[3,2], axis 0 of size 3"],
    ),
    "axis_size": (
        lambda: mx.pmap(lambda x: x, axis_size=3)(Y),
        ["the mapped axes have different sizes", "axis_size = 3"],
    ),
    "unknown size": (
        lambda: mx.pmap(lambda x: x, in_axes=None)(Y),
        ["pmap: no argument is mapped, so the size of the axis is unknown", "give axis_size"],
    ),
    "no such axis": (
        lambda: mx.pmap(lambda x: x, in_axes=3)(Y),
        ["in_axes maps axis 3 of an argument that has no such axis", "f32[4,8,3]"],
    ),
    "a scalar": (
        lambda: mx.pmap(lambda x, y: x)(Y, 1.0),
        ["in_axes maps axis 0 of an argument that has no such axis"],
    ),
    "no such axis in the result": (
        lambda: mx.pmap(lambda x: x.sum(), out_axes=1)(Y),
        ["out_axes asks for axis 1 of a result of rank 1", "Give an axis in [-1, 1), or None."],
    ),
    "a tree that does not fit": (
        lambda: mx.pmap(lambda x, y: x, in_axes=(0,))(Y, Y),
        ["pmap: in_axes does not fit the structure that it describes"],
    ),
    "a result tree that does not fit": (
        lambda: mx.pmap(lambda x: x, out_axes={"a": 0})(Y),
        ["pmap: out_axes does not fit the structure that it describes"],
    ),
    "inside a loop": (
        lambda: _in_a_loop(Y),
        [
            "pmap: it cannot run inside a loop, a branch or another computation on one device",
            "Put the loop or branch inside the mapped function.",
        ],
    ),
    "inside a branch": (
        lambda: mx.cond(True, mx.pmap(lambda x: x), lambda x: x, Y),
        ["pmap: it cannot run inside a loop, a branch"],
    ),
    "unbound": (
        lambda: mx.pmap(lambda x: mx.psum(x, "i"))(Y),
        ["psum: the axis name 'i' is not bound", "bound here: none"],
    ),
    "no function": (lambda: mx.pmap(Y), ["pmap: it was given ndarray instead of a function"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, phrases = ERRORS[name]
    with pytest.raises(mx.TransformError) as caught:
        call()
    for phrase in (*phrases, "test_pmap.py"):
        assert phrase in str(caught.value)


def test_a_failed_call_leaves_no_axis_behind():
    with pytest.raises(ZeroDivisionError):
        mx.pmap(lambda x: 1 // 0, "i")(Y)
    with pytest.raises(mx.TransformError, match="bound here: none"):
        mx.psum(Y, "i")


def test_loops_around_pmap_in_numpy():
    """The reference runs a mapped function anywhere."""
    found = mx.reference(_in_a_loop)(Y)
    assert_same(found, Y + 2)
