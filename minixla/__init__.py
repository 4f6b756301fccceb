"""minixla: tracing, differentiation and batching of programs made of XLA's operations.

Names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = {
    "core": "minixla.core",
    "nn": "minixla.nn",
    "numpy": "minixla.numpy",
    "ops": "minixla_ops",
    "reference": "minixla.reference",
}
_FUNCTIONS = dict.fromkeys(
    (
        "custom_jvp",
        "custom_vjp",
        "grad",
        "jit",
        "jvp",
        "make_graph",
        "stop_gradient",
        "value_and_grad",
        "vjp",
        "vmap",
    ),
    "minixla.transforms",
) | dict.fromkeys(
    (
        "AttributeValueError",
        "ConcretizationError",
        "DeadlockError",
        "DerivativeError",
        "ElementType",
        "ForeignCallError",
        "Graph",
        "ImportError_",
        "Instruction",
        "LeakedTracerError",
        "MinixlaError",
        "Operation",
        "Shape",
        "ShapeError",
        "Tracer",
        "TransformError",
        "TupleShape",
        "bind",
        "element_type",
        "parse_shape",
        "shape_of",
    ),
    "minixla.core",
)

__all__ = ["__version__", *sorted([*_MODULES, *_FUNCTIONS])]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    import minixla_ops as ops
    from minixla import core, nn, numpy, reference
    from minixla.core import (
        AttributeValueError,
        ConcretizationError,
        DeadlockError,
        DerivativeError,
        ElementType,
        ForeignCallError,
        Graph,
        ImportError_,
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
        custom_jvp,
        custom_vjp,
        grad,
        jit,
        jvp,
        make_graph,
        stop_gradient,
        value_and_grad,
        vjp,
        vmap,
    )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
    else:
        raise AttributeError(f"module 'minixla' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
