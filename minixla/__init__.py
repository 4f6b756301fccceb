"""minixla: tracing, differentiation and batching of programs made of XLA's operations.

Names load when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax import distributed, dlpack, dtypes, monitoring, profiler, stages, tree, tree_util

    import minixla_ops as ops
    from minixla import core, image, nn, numpy, random, scipy, sharding, typing
    from minixla.core import *
    from minixla.extension import *
    from minixla.interop import *
    from minixla.interop.jax_names import *
    from minixla.tools import test_util
    from minixla.tools.compatibility import check_compatible
    from minixla.tools.cost_reports import cost
    from minixla.tools.cross_check import cross_check
    from minixla.tools.evaluators import register_evaluator
    from minixla.tools.explorer import explore
    from minixla.tools.gradient_check import check_grads
    from minixla.tools.operation_check import check_op
    from minixla.transforms import *
    from minixla.transforms import debug

# By the module that a name is looked for in, below.
__all__ = ["core", "image", "nn", "numpy", "ops", "random", "scipy", "sharding"]
__all__ += ["check_grads", "cost", "cross_check", "explore", "typing"]
__all__ += ["check_compatible", "check_op", "register_evaluator", "test_util"]
__all__ += ["ArgumentTypeError", "AssignmentError", "AttributeValueError"]
__all__ += ["ConcretizationError", "DeadlockError"]
__all__ += ["DerivativeError"]
__all__ += ["ElementType", "ForeignCallError", "GradientCheckError", "Graph", "ImportError_"]
__all__ += ["IndexingError", "InfinityError", "Instruction", "IntegerRangeError"]
__all__ += ["LeakedTracerError", "MinixlaError", "NaNError", "NestingError", "Operation", "Shape"]
__all__ += ["ShapeError", "ShardingError", "SizeError", "Tracer", "TransformError", "TupleShape"]
__all__ += ["bind"]
__all__ += ["element_type", "parse_shape", "shape_of", "transfer_from_outfeed"]
__all__ += ["transfer_to_infeed"]
__all__ += ["export", "from_jax", "import_hlo", "import_stablehlo"]
__all__ += ["all_gather", "all_to_all", "associative_scan", "axis_index", "axis_size"]
__all__ += ["checking_leaks", "checkpoint", "checkpoint_name", "checkpoint_policies", "cond"]
__all__ += ["custom_jvp", "custom_vjp", "debug_callback", "debug_infs", "debug_nans"]
__all__ += ["debug_print", "fori_loop", "grad", "hessian", "jacfwd", "jacrev", "jit", "jvp"]
__all__ += ["linearize", "make_graph", "map", "pmap", "pmax", "pmean", "pmin", "ppermute", "psum"]
__all__ += ["psum_scatter", "reference", "scan", "shard_map", "simulate", "stop_gradient"]
__all__ += ["switch"]
__all__ += ["value_and_grad", "vjp", "vmap", "while_loop"]
__all__ += ["Array", "BuildError", "InvalidArgumentError", "KernelError", "PartialShape"]
__all__ += ["build_op_library", "custom_op", "installed_ops", "load_op_library", "register_op"]
__all__ += ["unchanged_shape"]
__all__ += ["closure_convert", "custom_gradient", "device_put", "ensure_compile_time_eval"]
__all__ += ["eval_shape", "jacobian", "linear_transpose", "pure_callback", "remat"]
# JAX's own, as they are.
__all__ += ["debug", "distributed", "dlpack", "dtypes", "monitoring", "profiler", "stages", "tree"]
__all__ += ["tree_util", "Device", "NamedSharding", "P", "Shard", "ShapeDtypeStruct"]
__all__ += ["array_garbage_collection_guard", "block_until_ready", "clear_caches", "config"]
__all__ += ["copy_to_host_async", "debug_key_reuse", "default_backend", "default_device"]
__all__ += ["default_prng_impl", "device_count", "device_get", "devices", "disable_jit"]
__all__ += ["effects_barrier", "enable_x64", "explain_cache_misses", "float0", "live_arrays"]
__all__ += ["local_device_count", "local_devices", "log_compiles", "make_array_from_callback"]
__all__ += ["make_array_from_process_local_data", "make_array_from_single_device_arrays"]
__all__ += ["make_mesh", "print_environment_info", "process_count", "process_index"]
__all__ += ["process_indices", "set_mesh", "thread_guard", "threefry_partitionable"]
__all__ += ["transfer_guard", "transfer_guard_device_to_device", "transfer_guard_device_to_host"]
__all__ += ["transfer_guard_host_to_device"]

__version__ = "0.1.0"

# Where a name is looked for, cheapest first.
_HOMES = ("minixla.core", "minixla.transforms", "minixla.interop", "minixla.extension")
_HOMES += ("minixla.interop.jax_names",)
_TOOLS = {"check_grads": "gradient_check", "cost": "cost_reports", "cross_check": "cross_check"}
_TOOLS |= {"check_compatible": "compatibility", "check_op": "operation_check"}
_TOOLS |= {"explore": "explorer", "register_evaluator": "evaluators"}
_MODULES = {name: f"minixla.{name}" for name in ("core", "image", "nn", "numpy")}
_MODULES |= {name: f"minixla.{name}" for name in ("random", "scipy", "sharding", "typing")}
_MODULES |= {name: f"jax.{name}" for name in ("distributed", "dlpack", "dtypes", "monitoring")}
_MODULES |= {name: f"jax.{name}" for name in ("profiler", "stages", "tree", "tree_util")}
_MODULES |= {"debug": "minixla.transforms.debug"}
_MODULES |= {"ops": "minixla_ops", "test_util": "minixla.tools.test_util"}


if not TYPE_CHECKING:  # to type checkers there is nothing besides what is imported above

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'minixla' has no attribute {name!r}")
        if name in _MODULES:
            value: Any = importlib.import_module(_MODULES[name])
        elif name in _TOOLS:
            value = getattr(importlib.import_module(f"minixla.tools.{_TOOLS[name]}"), name)
        else:
            homes = (importlib.import_module(home) for home in _HOMES)
            value = next(getattr(home, name) for home in homes if name in home.__all__)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
