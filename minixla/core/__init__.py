"""Core classes: element types, shapes, graphs, tracing, errors. It contains no operations."""

from __future__ import annotations

from minixla.core import jax_version as _jax_version  # noqa: F401 - checks the release first

# isort: split
from minixla.core import errors
from minixla.core.attributes import Literal, attribute
from minixla.core.builders import builder
from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.errors import *
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import REGISTRY, Operation, operation_named, register
from minixla.core.shapes import TOKEN, AnyShape, Shape, TokenShape, TupleShape, parse_shape
from minixla.core.tracing import Trace, Tracer, bind, current_trace, shape_of, under

# Names by module, in the order above.
__all__ = ["Literal", "attribute", "builder", "ELEMENT_TYPES", "ElementType", "element_type"]
__all__ += errors.__all__
__all__ += ["Graph", "Instruction", "Value", "REGISTRY", "Operation", "operation_named", "register"]
__all__ += ["TOKEN", "AnyShape", "Shape", "TokenShape", "TupleShape", "parse_shape"]
__all__ += ["Trace", "Tracer", "bind", "current_trace", "shape_of", "under"]


def __dir__() -> list[str]:
    return sorted(__all__)
