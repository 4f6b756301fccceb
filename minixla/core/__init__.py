"""The foundation: element types, shapes, graphs, tracing, errors. No operations here."""

from minixla.core.attributes import Literal, attribute
from minixla.core.builders import builder
from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.errors import (
    AttributeValueError,
    ConcretizationError,
    DeadlockError,
    DerivativeError,
    ForeignCallError,
    GradientCheckError,
    ImportError_,
    IndexingError,
    InfinityError,
    IntegerRangeError,
    LeakedTracerError,
    MinixlaError,
    NaNError,
    NestingError,
    ShapeError,
    SizeError,
    TransformError,
)
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import REGISTRY, Operation, operation_named, register
from minixla.core.processes import transfer_from_outfeed, transfer_to_infeed
from minixla.core.shapes import TOKEN, AnyShape, Shape, TokenShape, TupleShape, parse_shape
from minixla.core.tracing import Trace, Tracer, bind, current_trace, shape_of, under

__all__ = [
    "ELEMENT_TYPES",
    "REGISTRY",
    "TOKEN",
    "AnyShape",
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
    "IntegerRangeError",
    "Instruction",
    "LeakedTracerError",
    "Literal",
    "MinixlaError",
    "NaNError",
    "NestingError",
    "Operation",
    "Shape",
    "ShapeError",
    "SizeError",
    "TokenShape",
    "Trace",
    "Tracer",
    "TransformError",
    "TupleShape",
    "Value",
    "attribute",
    "bind",
    "builder",
    "current_trace",
    "element_type",
    "operation_named",
    "parse_shape",
    "register",
    "shape_of",
    "transfer_from_outfeed",
    "transfer_to_infeed",
    "under",
]
