"""Every public name of `jax` is one of ours, or stands here with the reason why not."""

from __future__ import annotations

from inspect import signature

import jax
import numpy as np
import pytest

import minixla as mx

#: Why there is no such name, for several at a time.
REASONS = {
    "it is a module of JAX's own tools, for JAX's own traces": "ad api_util custom_batching "
    "custom_derivatives errors experimental ffi interpreters lib memory typing version",
    "mx.ops has XLA's operations; loops, branches and collectives stand in mx itself": "lax",
    "programs of ours are pure: what changes is a loop's state": "Ref empty_ref free_ref freeze "
    "new_ref ref",
    "another name has taken its place in JAX": "host_count host_id host_ids",
    "mx.make_graph gives the graph": "make_jaxpr",
    "mx.shape_of tells the shape": "typeof",
    "mx.checking_leaks finds leaked tracers": "check_tracer_leaks",
    "an instruction says the user's file and line": "named_call named_scope",
    "mx.vjp inside mx.jit gives both": "fwd_and_bwd",
    "mx.sharding.constrain lays arrays out": "reshard",
    "mx.shard_map and mx.pmap map over devices": "smap",
    "Python's slices do": "ds",
    "products take their own precision": "default_matmul_precision",
    "it changes how JAX traces its own functions, which ours are not": "allow_f16_reductions "
    "auto_pcast enable_checks jax2tf_associative_scan_reductions make_user_context no_execution "
    "no_tracing numpy_dtype_promotion numpy_rank_promotion remove_size_one_mesh_axis_from_type "
    "softmax_custom_jvp",
    "mx.random takes keys of both kinds": "enable_custom_prng legacy_prng_key",
}
LACKING = {name: reason for reason, names in REASONS.items() for name in names.split()}

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
    # Modules that are there once somebody has imported them.
    assert theirs - {*dir(mx)} - {"extend", "flatten_util"} == {*LACKING}


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
