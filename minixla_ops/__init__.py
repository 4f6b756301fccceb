"""XLA's operation set: builder functions, named as XLA names them, in snake_case."""

from minixla_ops import operators as _operators
from minixla_ops.binary import add, div, mul, sub
from minixla_ops.broadcasting import broadcast, broadcast_in_dim
from minixla_ops.calls import call
from minixla_ops.conversion import convert_element_type
from minixla_ops.convolution_builders import (
    conv,
    conv_general,
    conv_general_dilated,
    conv_with_general_dimensions,
    conv_with_general_padding,
)
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.creation import constant, iota
from minixla_ops.dot import DotDimensionNumbers, dot, dot_general
from minixla_ops.dynamic_slicing import dynamic_slice, dynamic_update_slice
from minixla_ops.movement import concat_in_dim, pad, slice, slice_in_dim
from minixla_ops.reduction import reduce
from minixla_ops.reshaping import collapse, reshape, reshape_explicit, rev, transpose
from minixla_ops.tuples import get_tuple_element, tuple
from minixla_ops.unary import exp, log, neg, tanh

__all__ = [
    "ConvolutionDimensionNumbers",
    "DotDimensionNumbers",
    "add",
    "broadcast",
    "broadcast_in_dim",
    "call",
    "collapse",
    "concat_in_dim",
    "constant",
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
    "convert_element_type",
    "div",
    "dot",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "exp",
    "get_tuple_element",
    "iota",
    "log",
    "mul",
    "neg",
    "pad",
    "reduce",
    "reshape",
    "reshape_explicit",
    "rev",
    "slice",
    "slice_in_dim",
    "sub",
    "tanh",
    "transpose",
    "tuple",
]
