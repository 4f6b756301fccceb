"""The names of JAX's public modules, and what stands for each here, or the reason why nothing does.

The tests hold these tables to JAX, and the site's page for those who come from JAX is made of them.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, NamedTuple

_TRACES = "it is of JAX's own traces and tools"
_PRIMITIVE = "a primitive of JAX's: an operation of ours is a class, `mx.ops` has its function"
_MEMORY = "traced values have no memory and lie on no known device"
_TYPED_MESHES = (
    "types of axes and of meshes are of JAX's own programs; here a mesh has names and sizes"
)

#: Why JAX's names are not ours, by module: several names for each reason.
REASONS: dict[str, dict[str, str]] = {
    "jax": {
        "it is a module of JAX's own tools, for JAX's own traces": "ad api_util custom_batching "
        "custom_derivatives errors experimental ffi interpreters lib memory version",
        "mx.ops has XLA's operations; loops, branches and collectives stand in mx itself": "lax",
        "programs of ours are pure: what changes is a loop's state": "Ref empty_ref free_ref "
        "freeze new_ref ref",
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
        "auto_pcast enable_checks jax2tf_associative_scan_reductions make_user_context "
        "no_execution no_tracing numpy_dtype_promotion numpy_rank_promotion "
        "remove_size_one_mesh_axis_from_type softmax_custom_jvp",
        "mx.random takes keys of both kinds": "enable_custom_prng legacy_prng_key",
    },
    "jax.numpy": {
        "JAX's own arrays of them fail on CPU; StableHLO has none": "int1 uint1",
    },
    "jax.Array": {
        _MEMORY: "addressable_data addressable_shards committed global_shards "
        "is_fully_addressable is_fully_replicated sharding",
        "arrays do not change: what it iterates over is ravel()": "flat",
    },
    "jax.random": {"a primitive of JAX's core, no function": "random_gamma_p"},
    "jax.nn": {},
    "jax.nn.initializers": {},
    "jax.sharding": {
        _TYPED_MESHES: "AbstractDevice AbstractMesh AxisType ManualAxisType auto_axes "
        "explicit_axes get_abstract_mesh use_abstract_mesh",
        "programs are laid out by the mesh that mx.jit is given, or mx.set_mesh": "get_mesh",
        "mx.device_put takes a device": "SingleDeviceSharding make_single_device_sharding",
        "it is the base class of JAX's, for annotations": "Sharding",
    },
    "jax.lax": {
        _TRACES: "composite dce_sink stage shape_as_value pcast",
        "a string or a class of ours says it; each operation's page has its values": "AccuracyMode "
        "ConvDimensionNumbers DotAlgorithm DotAlgorithmPreset FftType GatherScatterMode Precision "
        "PrecisionLike RandomAlgorithm RoundingMethod Tolerance",
        "mx.eval_shape tells shapes of any function": "conv_general_permutations "
        "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple "
        "reduce_window_shape_tuple padtype_to_pads",
        "mx.from_jax takes functions that use it": "approx_max_k approx_min_k "
        "conv_general_dilated_local custom_linear_solve custom_root igamma_grad_a mulhi "
        "platform_dependent random_gamma_grad ragged_dot_general "
        "conv_general_dilated_patches conv_transpose cumlogsumexp",
        "mx.all_gather and mx.psum say what is the same on all devices": "pbroadcast",
        "it sends between devices of JAX's; mx.ops.send and mx.ops.recv are XLA's": "precv psend",
    },
}  # fmt: skip

#: What stands here for functions of JAX's that have another name, or another place: see REASONS.
ELSEWHERE: dict[str, dict[str, str]] = {
    "jax.sharding": {"sharding.constrain": "reshard"},
    "jax.lax": {
        "all_to_all": "pswapaxes",
        "numpy.all": "reduce_and",
        "numpy.any": "reduce_or",
        "numpy.broadcast_to": "broadcast_like broadcast_to_rank",
        "numpy.matmul": "batch_matmul",
        "numpy.max": "reduce_max",
        "numpy.min": "reduce_min",
        "numpy.prod": "reduce_prod",
        "numpy.sum": "reduce_sum",
        "numpy.take": "index_in_dim index_take",
        "ops.ConvolutionDimensionNumbers": "ConvGeneralDilatedDimensionNumbers "
        "conv_dimension_numbers",
        "ops.and_": "bitwise_and",
        "ops.dynamic_slice": "dynamic_index_in_dim dynamic_slice_in_dim",
        "ops.dynamic_update_slice": "dynamic_update_index_in_dim dynamic_update_slice_in_dim",
        "ops.iota": "broadcasted_iota",
        "ops.next_after": "nextafter",
        "ops.not_": "bitwise_not",
        "ops.or_": "bitwise_or",
        "ops.pow": "integer_pow",
        "ops.reduce": "reduce_xor",
        "ops.scatter": "scatter_add scatter_apply scatter_max scatter_min scatter_mul scatter_sub",
        "ops.select": "select_n",
        "ops.sort": "sort_key_val",
        "ops.xor": "bitwise_xor",
        "ppermute": "pshuffle",
        "scipy.special.gammainc": "igamma",
        "scipy.special.gammaincc": "igammac",
        "scipy.special.i0e": "bessel_i0e",
        "scipy.special.i1e": "bessel_i1e",
        "sharding.constrain": "with_sharding_constraint",
    },
}  # fmt: skip

#: Modules within modules, which are names once somebody has imported them.
IMPORTED_LATER = {"jax": {"extend", "flatten_util"}}

#: JAX's modules, and where their names are looked for, in this order; `""` is mx itself.
MODULES = {
    "jax": ("",),
    "jax.lax": ("", "ops", "numpy", "scipy.special"),
    "jax.numpy": ("numpy",),
    "jax.Array": ("Tracer",),
    "jax.random": ("random",),
    "jax.nn": ("nn",),
    "jax.nn.initializers": ("nn.initializers",),
    "jax.sharding": ("sharding", ""),
}


class NameOfJax(NamedTuple):
    """A public name of JAX's, and what stands for it here.

    Attributes:
        name: the name in its module.
        ours: where it is found in `mx`, such as `numpy.sin`; empty where nothing stands for it.
        reason: why nothing does.
    """

    name: str
    ours: str
    reason: str = ""


def lacking(module: str) -> dict[str, str]:
    """The names of a module of JAX's that are not ours, with the reasons."""
    return _by_name(REASONS[module])


def elsewhere(module: str) -> dict[str, str]:
    """The names of a module of JAX's that are ours under other names, with these."""
    return _by_name(ELSEWHERE.get(module, {}))


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: each for each, names in table.items() for name in names.split()}


def names_of_jax(module: str) -> list[NameOfJax]:
    """Each public name of a module of JAX's, with ours or the reason why there is none.

    Args:
        module: one of those in MODULES.

    Raises:
        LookupError: a name has neither.
    """
    theirs = resolve_name(module)
    later = IMPORTED_LATER.get(module, set())
    names = sorted(name for name in dir(theirs) if not name.startswith("_"))
    return [_found(module, name) for name in names if name not in later]


def _found(module: str, name: str) -> NameOfJax:
    reason = lacking(module).get(name)
    if module == "jax.lax" and name.endswith("_p"):
        reason = _PRIMITIVE
    if reason is not None:
        return NameOfJax(name, "", reason)
    ours = elsewhere(module).get(name)
    if ours is not None:
        return NameOfJax(name, ours)
    for home in MODULES[module]:
        if name in dir(_namespace(home)):
            return NameOfJax(name, f"{home}.{name}" if home else name)
    raise LookupError(f"{module}.{name}: nothing of ours, and no reason why")


def _namespace(path: str) -> Any:
    import minixla as mx  # whose names are asked for

    value: Any = mx
    for part in path.split(".") if path else ():
        value = getattr(value, part)
    return value
