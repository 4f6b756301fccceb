"""Collectives over named axes of vmap, against JAX's."""

import functools

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.harness import QUICKLY, by_jax, compiled_together
from tests.minixla.transforms.collective_programs import (
    INSIDE,
    ON_DEVICES,
    PROGRAMS,
    WITHOUT_DERIVATIVE,
    Y,
    assert_same,
    both,
    gradients_in_jax,
    of_squares,
    value_and_derivatives,
)

BATCH = np.stack([Y, 2 * Y])


# These run eagerly, too.
EAGER = ["psum", "axis_index", "all_to_all", "all_gather", "ppermute"]


WAYS = [functools.partial(mx.jit, compiler_options=QUICKLY), mx.reference]


def batches(m, member):
    """Batches around and inside of a mapped function."""
    return {
        "outer batch": m.vmap(m.vmap(member, axis_name="i")),
        "inner batch": m.vmap(m.vmap(member), in_axes=1, out_axes=1, axis_name="i"),
    }


def flat(uses):
    """Functions by the names of programs and of uses, under one name each."""
    return {f"{name}: {use}": f for name, found in uses.items() for use, f in found.items()}


@functools.cache
def expected_batches():
    """What JAX says of the batches of all programs."""
    functions = flat({name: batches(jax, both(name)[1]) for name in PROGRAMS})
    return compiled_together(functions, BATCH, jit=jax.jit)


@functools.cache
def compiled_batches():
    return compiled_together(flat({name: batches(mx, both(name)[0]) for name in PROGRAMS}), BATCH)


def uses(name):
    """What is made of our program, as functions of Y."""
    ours = both(name)[0]
    found = {
        "derived": value_and_derivatives(
            mx, mx.vmap(ours, axis_name="i"), name not in WITHOUT_DERIVATIVE
        ),
        "jitted": mx.vmap(mx.jit(ours), axis_name="i"),
    }
    if name in INSIDE:
        found["inside"] = mx.vmap(of_squares(mx, ours), axis_name="i")
        found["inside, jitted"] = mx.vmap(of_squares(mx, mx.jit(ours)), axis_name="i")
    return found


@functools.cache
def compiled():
    """The same, all in one program."""
    return compiled_together(flat({name: uses(name) for name in PROGRAMS}), Y)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    expected = ON_DEVICES.expected(name)["value"]
    mapped = mx.vmap(both(name)[0], axis_name="i")
    assert_same(compiled()(f"{name}: derived")["value"], expected)
    assert_same(compiled()(f"{name}: jitted"), expected)
    assert_same(mx.reference(mapped)(Y), expected)
    if name in EAGER:
        assert_same(mapped(Y), expected)
        assert_same(mx.vmap(mx.jit(both(name)[0]), axis_name="i")(Y), expected)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_DERIVATIVE])
def test_derivatives(name):
    found, expected = compiled()(f"{name}: derived"), ON_DEVICES.expected(name)
    assert_same(found["gradient"], expected["gradient"])
    assert_same(found["jvp"], expected["jvp"])


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_gradient_of_each_member(name, is_jitted):
    found = compiled()(f"{name}: inside, jitted" if is_jitted else f"{name}: inside")
    assert_same(found, gradients_in_jax()(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_batches(name):
    for which in ("outer batch", "inner batch"):
        key = f"{name}: {which}"
        assert_same(compiled_batches()(key), expected_batches()(key))


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

    expected = by_jax(mapped(jax, lax), Y)
    for way in (*WAYS, lambda f: f):
        assert_same(way(mapped(mx, mx))(Y), expected)


@pytest.mark.parametrize("way", [*WAYS, lambda f: f], ids=["jit", "reference", "eager"])
def test_groups(way):
    groups = [[0, 2], [3, 1]]

    def members(x):
        return {
            "psum": mx.psum(x, "i", axis_index_groups=groups),
            "all_gather": mx.all_gather(x, "i", axis_index_groups=groups),
            "psum_scatter": mx.psum_scatter(x[:2], "i", axis_index_groups=groups),
            "size": x * mx.psum(1, "i", axis_index_groups=groups),
        }

    found = way(mx.vmap(members, axis_name="i"))(Y)
    assert_same(found["psum"], np.stack([Y[0] + Y[2], Y[1] + Y[3]] * 2))
    assert_same(found["all_gather"], np.stack([Y[[0, 2]], Y[[3, 1]], Y[[0, 2]], Y[[3, 1]]]))
    assert_same(found["psum_scatter"][2], (Y[0] + Y[2])[1])
    assert found["size"][0, 0, 0] == np.float32(2) * Y[0, 0, 0]


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
    "two axes": (lambda x: mx.all_gather(x, ("i", "i")), ["one axis, not 2"]),
    "groups": (
        lambda x: mx.psum(x, "i", axis_index_groups=[[0, 1]]),
        ["divide the axis", "the axis has 4 members"],
    ),
    "permutation": (lambda x: mx.ppermute(x, "i", [(0, 1), (0, 2)]), ["a source is repeated"]),
    "parts": (
        lambda x: mx.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        ["dimension 1 of size 3 cannot be", "must be a multiple"],
    ),
    "dimension": (
        lambda x: mx.all_to_all(x, "i", 5, 0),
        ["split_axis = 5 is out of range for an array of rank 2"],
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
