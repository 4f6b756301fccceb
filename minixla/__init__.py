"""minixla: tracing, differentiation and batching of programs made of XLA's operations.

Names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import minixla_ops as ops
    from minixla import core, nn, numpy
    from minixla.core import (
        AttributeValueError,
        ConcretizationError,
        DeadlockError,
        DerivativeError,
        ElementType,
        ForeignCallError,
        GradientCheckError,
        Graph,
        ImportError_,
        IndexingError,
        InfinityError,
        Instruction,
        IntegerRangeError,
        LeakedTracerError,
        MinixlaError,
        NaNError,
        NestingError,
        Operation,
        Shape,
        ShapeError,
        SizeError,
        Tracer,
        TransformError,
        TupleShape,
        bind,
        element_type,
        parse_shape,
        shape_of,
        transfer_from_outfeed,
        transfer_to_infeed,
    )
    from minixla.interop import export, from_jax, import_hlo, import_stablehlo
    from minixla.tools.cross_check import cross_check
    from minixla.tools.evaluators import register_evaluator
    from minixla.tools.gradient_check import check_grads
    from minixla.transforms import *

__all__ = [
    "AttributeValueError",
    "ConcretizationError",
    "DeadlockError",
    "DerivativeError",
    "ElementType",
    "ForeignCallError",
    "GradientCheckError",
    "Graph",
    "ImportError_",
    "IndexingError",
    "InfinityError",
    "Instruction",
    "IntegerRangeError",
    "LeakedTracerError",
    "MinixlaError",
    "NaNError",
    "NestingError",
    "Operation",
    "Shape",
    "ShapeError",
    "SizeError",
    "Tracer",
    "TransformError",
    "TupleShape",
    "all_gather",
    "all_to_all",
    "associative_scan",
    "axis_index",
    "axis_size",
    "bind",
    "check_grads",
    "checking_leaks",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "cond",
    "core",
    "cost",
    "cross_check",
    "custom_jvp",
    "custom_vjp",
    "debug_callback",
    "debug_infs",
    "debug_nans",
    "debug_print",
    "element_type",
    "export",
    "fori_loop",
    "from_jax",
    "grad",
    "hessian",
    "import_hlo",
    "import_stablehlo",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "make_graph",
    "map",
    "nn",
    "numpy",
    "ops",
    "parse_shape",
    "pmap",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "reference",
    "register_evaluator",
    "scan",
    "shape_of",
    "simulate",
    "stop_gradient",
    "switch",
    "transfer_from_outfeed",
    "transfer_to_infeed",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

__version__ = "0.1.0"

# Where a name is looked for, cheapest first; other names are submodules.
_HOMES = ("minixla.core", "minixla.transforms", "minixla.interop")
_TOOLS = {
    "check_grads": "minixla.tools.gradient_check",
    "cost": "minixla.tools.cost_reports",
    "cross_check": "minixla.tools.cross_check",
    "register_evaluator": "minixla.tools.evaluators",
}
_MODULES = {"ops": "minixla_ops"} | {name: f"minixla.{name}" for name in ("core", "nn", "numpy")}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minixla' has no attribute {name!r}")
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _TOOLS:
        value = getattr(importlib.import_module(_TOOLS[name]), name)
    else:
        homes = (importlib.import_module(home) for home in _HOMES)
        value = next(getattr(home, name) for home in homes if name in home.__all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
