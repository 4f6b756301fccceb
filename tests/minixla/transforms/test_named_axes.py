"""Collectives over named axes of vmap, against JAX's."""

import functools

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.harness import by_jax, compiled_together
from tests.minixla.transforms.collective_programs import (
    INSIDE,
    PROGRAMS,
    WITHOUT_DERIVATIVE,
    Y,
    assert_same,
    both,
    weights_of,
)

BATCH = np.stack([Y, 2 * Y])


def uses(name, m, member):
    """What is made of a member's function: functions of Y and BATCH."""
    mapped = m.vmap(member, axis_name="i")

    def inside(y, _):
        return m.vmap(lambda x: m.grad(lambda x: (member(x) ** 2).sum())(x), axis_name="i")(y)

    found = {
        "value": lambda y, _: mapped(y),
        "outer batch": lambda _, batch: m.vmap(mapped)(batch),
        "inner batch": lambda _, batch: m.vmap(
            m.vmap(member), in_axes=1, out_axes=1, axis_name="i"
        )(batch),
    }
    if name not in WITHOUT_DERIVATIVE:
        weights = weights_of(jax.vmap(both(name)[1], axis_name="i"), Y)
        found["gradient"] = lambda y, _: m.grad(lambda y: (mapped(y) * weights).sum())(y)
        found["jvp"] = lambda y, _: m.jvp(mapped, (y,), (y * y,))[1]
    return found | ({"inside": inside} if name in INSIDE else {})


@functools.cache
def expected(name):
    """What JAX says, in one program."""
    return compiled_together(uses(name, jax, both(name)[1]), Y, BATCH, jit=jax.jit)


@functools.cache
def compiled(name):
    """The same of ours."""
    ours = both(name)[0]
    functions = uses(name, mx, ours)
    if name in INSIDE:
        functions["inside, jitted"] = uses(name, mx, mx.jit(ours))["inside"]
    return compiled_together(functions, Y, BATCH)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    ours = both(name)[0]
    mapped = mx.vmap(ours, axis_name="i")
    assert_same(compiled(name)("value"), expected(name)("value"))
    assert_same(mapped(Y), expected(name)("value"))
    assert_same(mx.vmap(mx.jit(ours), axis_name="i")(Y), expected(name)("value"))
    assert_same(mx.reference(mapped)(Y), expected(name)("value"))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_DERIVATIVE])
def test_derivatives(name):
    assert_same(compiled(name)("gradient"), expected(name)("gradient"))
    assert_same(compiled(name)("jvp"), expected(name)("jvp"))


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_gradient_of_each_member(name, is_jitted):
    found = compiled(name)("inside, jitted" if is_jitted else "inside")
    assert_same(found, expected(name)("inside"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_batches(name):
    for which in ("outer batch", "inner batch"):
        assert_same(compiled(name)(which), expected(name)(which))


def test_transpose_of_all_to_all():
    """What each member got goes back: the map is a permutation, its transpose the inverse."""
    mapped = mx.vmap(lambda x: mx.all_to_all(x[:4], "i", 0, 1), axis_name="i")
    cotangent = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
    found = mx.grad(lambda y: (mapped(y) * cotangent).sum())(Y)
    expected = np.zeros_like(Y)
    expected[:, :4] = np.einsum("rcs->src", cotangent)
    assert_same(found, expected)


def test_derivative_of_pmax():
    found = mx.jvp(mx.vmap(lambda x: mx.pmax(x, "i"), axis_name="i"), (Y,), (2 * Y,))[1]
    assert_same(found, np.broadcast_to(2 * Y.max(0), Y.shape))


def test_several_names():
    def mapped(m, collectives):
        def member(x):
            return collectives.psum(x, ("i", "j")) + collectives.axis_index(("i", "j")) * x

        return m.vmap(m.vmap(member, axis_name="j"), axis_name="i")

    assert_same(mapped(mx, mx)(Y), by_jax(mapped(jax, lax), Y))


def test_groups():
    groups = [[0, 2], [3, 1]]
    summed = mx.vmap(lambda x: mx.psum(x, "i", axis_index_groups=groups), axis_name="i")(Y)
    assert_same(summed, np.stack([Y[0] + Y[2], Y[1] + Y[3]] * 2))
    gathered = mx.vmap(lambda x: mx.all_gather(x, "i", axis_index_groups=groups), axis_name="i")(Y)
    assert_same(gathered, np.stack([Y[[0, 2]], Y[[3, 1]], Y[[0, 2]], Y[[3, 1]]]))
    parts = mx.vmap(lambda x: mx.psum_scatter(x[:2], "i", axis_index_groups=groups), axis_name="i")(
        Y
    )
    assert_same(parts[2], (Y[0] + Y[2])[1])
    assert (
        mx.vmap(lambda x: x * mx.psum(1, "i", axis_index_groups=groups), axis_name="i")(Y)[0, 0, 0]
        == np.float32(2) * Y[0, 0, 0]
    )


def test_results_and_operands_without_batch():
    ones = np.ones(2, np.float32)
    total = mx.vmap(lambda x: mx.psum(x, "i"), axis_name="i", out_axes=None)(Y)
    assert_same(total, Y.sum(0))
    assert_same(mx.vmap(lambda x: mx.psum(ones, "i"), axis_name="i", out_axes=None)(Y), 4 * ones)
    alone = mx.vmap(lambda: mx.axis_index("i"), axis_name="i", axis_size=3)()
    assert alone.dtype == np.int32
    np.testing.assert_array_equal(alone, [0, 1, 2])


def test_a_jitted_function_knows_the_axis_it_is_called_under():
    @mx.jit
    def scaled(x):
        return x * mx.axis_size("i")

    assert_same(mx.vmap(scaled, axis_name="i")(Y), 4 * Y)
    assert_same(mx.vmap(scaled, in_axes=1, out_axes=1, axis_name="i")(Y), 8 * Y)


ERRORS = {
    "unbound": (
        lambda x: mx.psum(x, "q"),
        ["psum: the axis name 'q' is not bound", "bound here: 'i'"],
    ),
    "two axes": (lambda x: mx.all_gather(x, ("i", "i")), ["one axis, not on 2"]),
    "groups": (
        lambda x: mx.psum(x, "i", axis_index_groups=[[0, 1]]),
        ["do not divide the axis", "the axis has 4 members"],
    ),
    "permutation": (lambda x: mx.ppermute(x, "i", [(0, 1), (0, 2)]), ["a source is named twice"]),
    "parts": (
        lambda x: mx.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        ["dimension 1 of size 3 cannot be cut", "must be a multiple"],
    ),
    "dimension": (
        lambda x: mx.all_to_all(x, "i", 5, 0),
        ["split_axis = 5 is no dimension of an array of rank 2"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    function, phrases = ERRORS[name]
    with pytest.raises(mx.TransformError) as caught:
        mx.vmap(function, axis_name="i")(Y)
    for phrase in (*phrases, "test_named_axes.py"):
        assert phrase in str(caught.value)


def test_members_alone_have_no_result():
    leaked = []

    def keep(x):
        leaked.append(mx.make_graph(lambda x: mx.psum(x, "i")))
        return x

    mx.vmap(keep, axis_name="i")(Y)
    with pytest.raises(mx.TransformError, match="the axis name 'i' is not bound"):
        leaked[0](Y)
