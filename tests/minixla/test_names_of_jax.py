"""Every public name of JAX's modules is one of ours, or is in a table with the reason."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path

import jax
import numpy as np
import pytest

import minixla as mx
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
    "vmap": {"sum_match"},
}


#: Names of `jax` that are not ours, and why.
MISSING = {
    **dict.fromkeys(
        ("api_util", "experimental", "extend", "interpreters", "lib", "version"),
        "packages by which others extend JAX: import them from jax",
    ),
    **dict.fromkeys(("host_count", "host_id", "host_ids"), "JAX has deprecated them"),
}
#: The names of other modules that are not ours.
MISSING_IN = {"numpy": {"int1", "uint1"}}
MODULES = [*("debug", "errors", "flatten_util", "image", "lax", "nn", "nn.initializers"), "numpy"]
MODULES += ["numpy.fft", "numpy.linalg", "random", "scipy", "scipy.linalg", "scipy.special"]
MODULES += ["sharding", "stages", "tree", "tree_util"]


def public(module):
    return {name for name in dir(module) if not name.startswith("_")}


def test_names():
    # Modules that other tests import.
    later = {"ad_checkpoint", "example_libraries", "experimental", "extend"}
    assert public(jax) - {*dir(mx)} - later == {*MISSING} - later
    page = (Path(__file__).parents[2] / "docs" / "coming_from_jax.md").read_text()
    assert all(f"`{name}`" in page for name in MISSING)


@pytest.mark.parametrize("name", MODULES)
def test_names_of_modules(name):
    ours, theirs = (import_module(f"{library}.{name}") for library in ("minixla", "jax"))
    missing = public(theirs) - {*dir(ours)}
    assert missing == MISSING_IN.get(name, set())


#: Modules that are JAX's, whole.
WHOLE = "custom_batching custom_derivatives errors ffi flatten_util image nn.initializers ref"
WHOLE += " scipy.cluster scipy.fft scipy.integrate scipy.interpolate scipy.ndimage"
WHOLE += " scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.stats tree tree_util"


@pytest.mark.parametrize("name", WHOLE.split())
def test_modules_that_are_jaxs(name):
    path = f"minixla.{name}"
    assert import_module(path) is attrgetter(name)(mx) is import_module(f"jax.{name}")


def test_functions_without_an_implementation_of_ours_are_jaxs():
    of_jax = {
        "numpy": "bartlett frexp kron trapezoid unwrap",
        "numpy.fft": "fftshift ifftshift",
        "numpy.linalg": "multi_dot",
        "nn": "scaled_dot_general",
        "scipy.linalg": "expm funm sqrtm",
        "scipy.special": "comb digamma logsumexp sici",
    }
    for module, names in of_jax.items():
        ours, theirs = (import_module(f"{library}.{module}") for library in ("minixla", "jax"))
        for name in names.split():
            assert getattr(ours, name) is getattr(theirs, name)


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
    "vmap": ["sum_match is not taken by place"],
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
    for name in ("config", "ShapeDtypeStruct", "block_until_ready", "devices", "named_scope"):
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
