"""minixla: tracing, differentiation and batching of programs made of XLA's operations.

Names load when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import minixla_ops as ops
    from minixla import core, nn, numpy, sharding
    from minixla.core import *
    from minixla.extension import *
    from minixla.interop import *
    from minixla.tools import test_util
    from minixla.tools.compatibility import check_compatible
    from minixla.tools.cost_reports import cost
    from minixla.tools.cross_check import cross_check
    from minixla.tools.evaluators import register_evaluator
    from minixla.tools.gradient_check import check_grads
    from minixla.tools.operation_check import check_op
    from minixla.transforms import *

# By the module that a name is looked for in, below.
__all__ = ["core", "nn", "numpy", "ops", "sharding", "check_grads", "cost", "cross_check"]
__all__ += ["check_compatible", "check_op", "register_evaluator", "test_util"]
__all__ += ["AssignmentError", "AttributeValueError", "ConcretizationError", "DeadlockError"]
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

__version__ = "0.1.0"

# Where a name is looked for, cheapest first.
_HOMES = ("minixla.core", "minixla.transforms", "minixla.interop", "minixla.extension")
_TOOLS = {"check_grads": "gradient_check", "cost": "cost_reports", "cross_check": "cross_check"}
_TOOLS |= {"check_compatible": "compatibility", "check_op": "operation_check"}
_TOOLS["register_evaluator"] = "evaluators"
_MODULES = {name: f"minixla.{name}" for name in ("core", "nn", "numpy", "sharding")}
_MODULES |= {"ops": "minixla_ops", "test_util": "minixla.tools.test_util"}


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
