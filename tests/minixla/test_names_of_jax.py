"""Every public name of `jax` is one of ours, or stands in a table with the reason why not."""

from __future__ import annotations

from inspect import signature

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.tools.names_of_jax import IMPORTED_LATER, lacking
from tests.minixla.signatures import differences

#: Parameters that ours do not take: JAX refuses or ignores some, and the others are of what is not
#: here.
WITHOUT = {
    "checkpoint": {"concrete", "static_argnames"},
    "remat": {"concrete"},
    "debug_nans": {"new_val"},  # ours is `enabled`
    "debug_infs": {"new_val"},
    "grad": {"reduce_axes"},
    "value_and_grad": {"reduce_axes"},
    "vjp": {"reduce_axes"},
    "linear_transpose": {"reduce_axes"},
    "pure_callback": {"sharding"},
    "vmap": {"spmd_axis_name", "sum_match"},
}


def test_names():
    theirs = {name for name in dir(jax) if not name.startswith("_")}
    assert theirs - {*dir(mx)} - IMPORTED_LATER["jax"] == {*lacking("jax")}


def parameters(value):
    """The names of a function's parameters; None for modules, classes of arrays and settings."""
    try:
        return {*signature(value).parameters}
    except (TypeError, ValueError):
        return None


OF_BOTH = sorted({*dir(jax)} & {*mx.__all__} - {"jit"})  # which passes options on
FUNCTIONS = [x for x in OF_BOTH if parameters(getattr(mx, x)) and parameters(getattr(jax, x))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters(name):
    ours, theirs = (parameters(getattr(library, name)) for library in (mx, jax))
    assert theirs - ours == WITHOUT.get(name, set())


#: What is not as in JAX's function.
DIFFERENT = {
    "debug_infs": ["new_val has the place of enabled"],
    "debug_nans": ["new_val has the place of enabled"],
    "grad": ["reduce_axes is not taken by place"],
    "value_and_grad": ["reduce_axes is not taken by place"],
    # Of what is not here, as above.
    "vmap": ["spmd_axis_name is not taken by place", "sum_match is not taken by place"],
    # Specs are not inferred; an empty tuple means all axes, as the empty set does.
    "shard_map": [
        "in_specs is <class 'inspect._empty'>, not jax.sharding.Infer",
        "axis_names is (), not frozenset()",
    ],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_mean_what_they_mean_in_jax(name):
    assert differences(getattr(mx, name), getattr(jax, name)) == DIFFERENT.get(name, [])


def test_what_is_taken_as_it_is():
    for name in ("tree", "tree_util", "config", "ShapeDtypeStruct", "block_until_ready", "devices"):
        assert getattr(mx, name) is getattr(jax, name)
    assert mx.remat is mx.checkpoint
    assert mx.jacobian is mx.jacrev
    assert mx.debug.print is mx.debug_print


def test_waiting_and_trees_know_traced_values():
    def function(x):
        both = mx.tree.map(lambda leaf: leaf * 2, {"a": x, "b": [x]})
        return mx.block_until_ready(both)

    assert mx.jit(function)(1.5) == {"a": 3.0, "b": [3.0]}
    with mx.disable_jit():
        assert mx.jit(function)(1.5) == {"a": 3.0, "b": [3.0]}


def test_settings_of_jax_are_ours():
    with mx.enable_x64(True):
        assert mx.jit(lambda x: x * 2)(1.0).dtype == "float64"
        assert mx.config.read("jax_enable_x64")
    with mx.default_device(mx.devices()[1]):
        assert mx.numpy.ones(2).devices() == {mx.devices()[1]}


def test_pictures_are_resized_by_jax():
    picture = np.random.default_rng(0).random((3, 4), np.float32)

    def total(library):
        return lambda x: (library.image.resize(x, (6, 5), "linear") ** 2).sum()

    found = mx.jit(mx.grad(total(mx)))(picture)
    np.testing.assert_allclose(found, jax.grad(total(jax))(picture), rtol=1e-5)
    assert mx.image.ResizeMethod is jax.image.ResizeMethod
