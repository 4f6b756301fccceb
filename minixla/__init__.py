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
        Graph,
        ImportError_,
        IndexingError,
        Instruction,
        LeakedTracerError,
        MinixlaError,
        Operation,
        Shape,
        ShapeError,
        Tracer,
        TransformError,
        TupleShape,
        bind,
        element_type,
        parse_shape,
        shape_of,
    )
    from minixla.transforms import (
        all_gather,
        all_to_all,
        axis_index,
        axis_size,
        checkpoint,
        checkpoint_name,
        checkpoint_policies,
        custom_jvp,
        custom_vjp,
        grad,
        hessian,
        jacfwd,
        jacrev,
        jit,
        jvp,
        linearize,
        make_graph,
        pmax,
        pmean,
        pmin,
        ppermute,
        psum,
        psum_scatter,
        reference,
        simulate,
        stop_gradient,
        value_and_grad,
        vjp,
        vmap,
    )

__all__ = [
    "AttributeValueError",
    "ConcretizationError",
    "DeadlockError",
    "DerivativeError",
    "ElementType",
    "ForeignCallError",
    "Graph",
    "ImportError_",
    "IndexingError",
    "Instruction",
    "LeakedTracerError",
    "MinixlaError",
    "Operation",
    "Shape",
    "ShapeError",
    "Tracer",
    "TransformError",
    "TupleShape",
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "bind",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "core",
    "custom_jvp",
    "custom_vjp",
    "element_type",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "make_graph",
    "nn",
    "numpy",
    "ops",
    "parse_shape",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "reference",
    "shape_of",
    "simulate",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]

__version__ = "0.1.0"

# Where a name is looked for, cheapest first; other names are submodules.
_HOMES = ("minixla.core", "minixla.transforms")
_MODULES = {"ops": "minixla_ops"} | {
    name: f"minixla.{name}" for name in ("core", "nn", "numpy", "reference")
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minixla' has no attribute {name!r}")
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    else:
        homes = map(importlib.import_module, _HOMES)
        value = next(getattr(home, name) for home in homes if name in home.__all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
