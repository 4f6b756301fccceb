"""XLA's operation set: builder functions, named as XLA names them, in snake_case."""

from minixla_ops import operators as _operators
from minixla_ops.accuracy import ResultAccuracy
from minixla_ops.binary import add, div, mul, sub
from minixla_ops.broadcasting import broadcast, broadcast_in_dim
from minixla_ops.calls import call
from minixla_ops.conversion import bitcast_convert_type, convert_element_type, reduce_precision
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
from minixla_ops.rounding import (
    ceil,
    floor,
    round,
    round_nearest_afz,
    round_nearest_even,
)
from minixla_ops.transcendental import (
    cbrt,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    log,
    log1p,
    logistic,
    rsqrt,
    sin,
    sqrt,
    tan,
    tanh,
)
from minixla_ops.tuples import get_tuple_element, tuple
from minixla_ops.unary import (
    abs,
    clz,
    imag,
    is_finite,
    neg,
    not_,
    population_count,
    real,
    sign,
)

__all__ = [
    "ConvolutionDimensionNumbers",
    "DotDimensionNumbers",
    "ResultAccuracy",
    "abs",
    "add",
    "bitcast_convert_type",
    "broadcast",
    "broadcast_in_dim",
    "call",
    "cbrt",
    "ceil",
    "clz",
    "collapse",
    "concat_in_dim",
    "constant",
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
    "convert_element_type",
    "cos",
    "cosh",
    "div",
    "dot",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "erf",
    "exp",
    "expm1",
    "floor",
    "get_tuple_element",
    "imag",
    "iota",
    "is_finite",
    "log",
    "log1p",
    "logistic",
    "mul",
    "neg",
    "not_",
    "pad",
    "population_count",
    "real",
    "reduce",
    "reduce_precision",
    "reshape",
    "reshape_explicit",
    "rev",
    "round",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sin",
    "slice",
    "slice_in_dim",
    "sqrt",
    "sub",
    "tan",
    "tanh",
    "transpose",
    "tuple",
]
