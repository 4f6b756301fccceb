"""minixla: tracing, differentiation and batching of programs made of XLA's operations.

Names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from minixla.collecting import collection_paused
from minixla.version import __version__ as __version__

if TYPE_CHECKING:
    import minixla_ops as ops
    from minixla import (
        core,
        custom_batching,
        custom_derivatives,
        debug,
        distributed,
        dlpack,
        dtypes,
        errors,
        ffi,
        flatten_util,
        image,
        lax,
        legalize,
        monitoring,
        nn,
        numpy,
        profiler,
        random,
        ref,
        scipy,
        sharding,
        stages,
        test_util,
        tree,
        tree_util,
        typing,
    )
    from minixla.core import *
    from minixla.extension import *
    from minixla.extension.compatibility import check_compatible
    from minixla.interop import *
    from minixla.interop.jax_exports import *
    from minixla.tools.cost_reports import cost
    from minixla.tools.cross_check import cross_check
    from minixla.tools.evaluators import register_evaluator
    from minixla.tools.explorer import explore
    from minixla.tools.gradient_check import check_grads
    from minixla.tools.operation_check import check_op
    from minixla.transforms import *
    from minixla_ops.collectives.processes import transfer_from_outfeed, transfer_to_infeed

# Grouped by the modules below that define the names.
__all__ = ["core", "image", "nn", "numpy", "ops", "random", "scipy", "sharding", "check_grads"]
__all__ += ["cost", "cross_check", "explore", "typing", "check_compatible", "check_op"]
__all__ += ["flatten_util", "lax", "legalize", "register_evaluator", "test_util"]
__all__ += ["ArgumentTypeError", "AssignmentError", "AttributeValueError", "ConcretizationError"]
__all__ += ["AxisError", "DeadlockError", "DerivativeError", "ElementType"]
__all__ += ["GradientCheckError", "Graph", "ImportError_", "IndexingError", "InfinityError"]
__all__ += ["Instruction", "IntegerRangeError", "LeakedTracerError", "MinixlaError", "NaNError"]
__all__ += ["NestingError", "Operation", "Shape", "ShapeError", "ShardingError", "SizeError"]
__all__ += ["Tracer", "TransformError", "TupleShape", "UnsupportedError", "bind", "element_type"]
__all__ += ["parse_shape", "shape_of", "transfer_from_outfeed", "transfer_to_infeed"]
__all__ += ["all_gather", "all_to_all", "associative_scan", "axis_index", "axis_size"]
__all__ += ["checking_leaks", "checkpoint", "checkpoint_name", "checkpoint_policies"]
__all__ += ["closure_convert", "cond", "custom_gradient", "custom_jvp", "custom_vjp"]
__all__ += ["debug_callback", "debug_infs", "debug_nans", "debug_print", "device_put"]
__all__ += ["ensure_compile_time_eval", "eval_shape", "fori_loop", "grad", "hessian", "jacfwd"]
__all__ += ["jacobian", "jacrev", "jit", "jvp", "linear_transpose", "linearize", "make_graph"]
__all__ += ["map", "pmap", "pmax", "pmean", "pmin", "ppermute", "psum", "psum_scatter"]
__all__ += ["pure_callback", "reference", "remat", "scan", "shard_map", "simulate", "stop_gradient"]
__all__ += ["switch", "value_and_grad", "vjp", "vmap", "while_loop"]
__all__ += ["Array", "BuildError", "InvalidArgumentError", "KernelError", "PartialShape"]
__all__ += ["build_op_library", "custom_op", "export", "from_jax", "import_hlo", "import_stablehlo"]
__all__ += ["installed_ops", "load_op_library", "register_op", "unchanged_shape"]
# JAX's own, unchanged.
__all__ += ["Ref", "ad", "allow_f16_reductions", "auto_pcast", "check_tracer_leaks"]
__all__ += ["custom_batching", "custom_derivatives", "default_matmul_precision", "ds", "empty_ref"]
__all__ += ["enable_checks", "enable_custom_prng", "errors", "ffi", "free_ref", "freeze"]
__all__ += ["fwd_and_bwd", "jax2tf_associative_scan_reductions", "legacy_prng_key", "make_jaxpr"]
__all__ += ["make_user_context", "memory", "named_call", "named_scope", "new_ref", "no_execution"]
__all__ += ["no_tracing", "numpy_dtype_promotion", "numpy_rank_promotion", "ref", "reshard"]
__all__ += ["remove_size_one_mesh_axis_from_type", "smap", "softmax_custom_jvp", "typeof"]
__all__ += ["array_garbage_collection_guard", "block_until_ready", "clear_caches", "config"]
__all__ += ["copy_to_host_async", "debug", "debug_key_reuse", "default_backend", "default_device"]
__all__ += ["default_prng_impl", "Device", "device_count", "device_get", "devices", "disable_jit"]
__all__ += ["distributed", "dlpack", "dtypes", "effects_barrier", "enable_x64"]
__all__ += ["explain_cache_misses", "float0", "live_arrays", "local_device_count", "local_devices"]
__all__ += ["log_compiles", "make_array_from_callback", "make_array_from_process_local_data"]
__all__ += ["make_array_from_single_device_arrays", "make_mesh", "monitoring", "NamedSharding", "P"]
__all__ += ["print_environment_info", "process_count", "process_index", "process_indices"]
__all__ += ["profiler", "set_mesh", "ShapeDtypeStruct", "Shard", "stages", "thread_guard"]
__all__ += ["threefry_partitionable", "transfer_guard", "transfer_guard_device_to_device"]
__all__ += ["transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree", "tree_util"]


# The modules to search for a name, cheapest first.
_HOMES = ("minixla.core", "minixla.transforms", "minixla.interop", "minixla.extension")
_HOMES += ("minixla.interop.jax_exports",)
# The modules of names that are not in the __all__ of any of these packages.
_ELSEWHERE = {
    "check_compatible": "minixla.extension.compatibility",
    "check_grads": "minixla.tools.gradient_check",
    "check_op": "minixla.tools.operation_check",
    "cost": "minixla.tools.cost_reports",
    "cross_check": "minixla.tools.cross_check",
    "explore": "minixla.tools.explorer",
    "register_evaluator": "minixla.tools.evaluators",
    "transfer_from_outfeed": "minixla_ops.collectives.processes",
    "transfer_to_infeed": "minixla_ops.collectives.processes",
}
_MODULES = {"core", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack"}
_MODULES |= {"dtypes", "errors", "ffi", "flatten_util", "image", "ref"}
_MODULES |= {"lax", "legalize", "monitoring", "nn", "numpy", "ops", "profiler", "random", "scipy"}
_MODULES |= {"sharding", "stages", "test_util", "tree", "tree_util", "typing"}


if not TYPE_CHECKING:  # type checkers see only the imports above

    def __getattr__(name: str) -> Any:  # noqa: ANN401  # any public name
        if name not in __all__:
            try:
                raise AttributeError(f"module 'minixla' has no attribute {name!r}")
            except AttributeError as error:
                error.__traceback__ = None  # without this frame: Python shows only the user's line
                raise
        with collection_paused(imports="minixla.transforms" not in sys.modules):
            if name in _MODULES:
                value: Any = importlib.import_module(f"minixla.{name}")
            elif name in _ELSEWHERE:
                value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
            else:
                homes = (importlib.import_module(home) for home in _HOMES)
                value = next(getattr(home, name) for home in homes if name in home.__all__)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
