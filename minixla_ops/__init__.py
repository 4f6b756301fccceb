"""XLA's operation set, and functions of chlo: builders, named as there, in snake_case."""

from minixla_ops.collectives.collective_joins import all_gather, all_to_all
from minixla_ops.collectives.collective_passing import collective_broadcast, collective_permute
from minixla_ops.collectives.collective_reductions import (
    all_reduce,
    cross_replica_sum,
    reduce_scatter,
)
from minixla_ops.collectives.process_ids import partition_id, replica_id
from minixla_ops.collectives.ragged_all_to_all import ragged_all_to_all
from minixla_ops.control_flow.conditional import conditional
from minixla_ops.control_flow.loops import while_
from minixla_ops.control_flow.map import map
from minixla_ops.control_flow.scan import scan
from minixla_ops.dumps.async_pairs import (
    all_gather_done,
    all_gather_start,
    all_reduce_done,
    all_reduce_start,
    async_done,
    async_start,
    async_update,
    collective_permute_done,
    collective_permute_start,
    copy_done,
    copy_start,
)
from minixla_ops.dumps.dump_only import (
    add_dependency,
    bitcast,
    copy,
    domain,
    fusion,
    rng_get_and_update_state,
)
from minixla_ops.dynamic_sizes.dimension_sizes import get_dimension_size, set_dimension_size
from minixla_ops.dynamic_sizes.dynamic_reshape import dynamic_reshape
from minixla_ops.elementwise import operators as _operators  # noqa: F401 - installs Python's operators
from minixla_ops.elementwise.accuracy import ResultAccuracy
from minixla_ops.elementwise.binary import add, atan2, complex, div, max, min, mul, pow, rem, sub
from minixla_ops.elementwise.bitwise import (
    and_,
    or_,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    xor,
)
from minixla_ops.elementwise.comparisons import (
    compare,
    eq,
    eq_total_order,
    ge,
    ge_total_order,
    gt,
    gt_total_order,
    le,
    le_total_order,
    lt,
    lt_total_order,
    ne,
    ne_total_order,
)
from minixla_ops.elementwise.conversion import (
    bitcast_convert_type,
    convert_element_type,
    reduce_precision,
)
from minixla_ops.elementwise.integral_rounding import (
    ceil,
    floor,
    round,
    round_nearest_afz,
    round_nearest_even,
)
from minixla_ops.elementwise.selection import clamp, select
from minixla_ops.elementwise.special_functions import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    digamma,
    erf_inv,
    erfc,
    lgamma,
    next_after,
    polygamma,
    sinh,
    zeta,
)
from minixla_ops.elementwise.transcendental import (
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
from minixla_ops.elementwise.unary import (
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
from minixla_ops.folds.batch_norm import batch_norm_grad, batch_norm_inference, batch_norm_training
from minixla_ops.folds.reduce import reduce
from minixla_ops.folds.reduce_window import reduce_window
from minixla_ops.host.custom_call import custom_call, register_custom_call
from minixla_ops.host.infeed_outfeed import after_all, create_token, infeed, outfeed
from minixla_ops.host.parameters import parameter
from minixla_ops.host.send_recv import (
    recv,
    recv_done,
    recv_to_host,
    recv_with_tokens,
    send,
    send_done,
    send_to_host,
    send_with_tokens,
)
from minixla_ops.indexing.dynamic_slicing import dynamic_slice, dynamic_update_slice
from minixla_ops.indexing.gather import gather
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.indexing.scatter import scatter
from minixla_ops.indexing.select_and_scatter import select_and_scatter
from minixla_ops.indexing.sorting import sort, top_k
from minixla_ops.linear_algebra.fft import fft
from minixla_ops.linear_algebra.triangular_systems import cholesky, triangular_solve
from minixla_ops.movement.broadcasting import broadcast, broadcast_in_dim
from minixla_ops.movement.concatenation import concat_in_dim
from minixla_ops.movement.constants import constant, iota
from minixla_ops.movement.pads import pad
from minixla_ops.movement.reshaping import collapse, reshape, reshape_explicit, rev, transpose
from minixla_ops.movement.slicing import slice, slice_in_dim
from minixla_ops.products.convolution_builders import (
    conv,
    conv_general,
    conv_general_dilated,
    conv_with_general_dimensions,
    conv_with_general_padding,
)
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.products.dot import dot, dot_general
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.products.ragged_dot import RaggedDotDimensionNumbers, ragged_dot
from minixla_ops.products.scaled_dot import scaled_dot
from minixla_ops.programs.call import call
from minixla_ops.programs.composite_call import composite_call, optimization_barrier
from minixla_ops.random.random_bit_generator import rng_bit_generator
from minixla_ops.random.random_samples import rng_normal, rng_uniform
from minixla_ops.vocabulary.tuple_operations import get_tuple_element, tuple

__all__ = [
    "ConvolutionDimensionNumbers",
    "DotDimensionNumbers",
    "GatherDimensionNumbers",
    "RaggedDotDimensionNumbers",
    "ResultAccuracy",
    "ScatterDimensionNumbers",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_dependency",
    "after_all",
    "all_gather",
    "all_gather_done",
    "all_gather_start",
    "all_reduce",
    "all_reduce_done",
    "all_reduce_start",
    "all_to_all",
    "and_",
    "asin",
    "asinh",
    "async_done",
    "async_start",
    "async_update",
    "atan",
    "atan2",
    "atanh",
    "batch_norm_grad",
    "batch_norm_inference",
    "batch_norm_training",
    "bitcast",
    "bitcast_convert_type",
    "broadcast",
    "broadcast_in_dim",
    "call",
    "cbrt",
    "ceil",
    "cholesky",
    "clamp",
    "clz",
    "collapse",
    "collective_broadcast",
    "collective_permute",
    "collective_permute_done",
    "collective_permute_start",
    "compare",
    "complex",
    "composite_call",
    "concat_in_dim",
    "conditional",
    "constant",
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
    "convert_element_type",
    "copy",
    "copy_done",
    "copy_start",
    "cos",
    "cosh",
    "create_token",
    "cross_replica_sum",
    "custom_call",
    "digamma",
    "div",
    "domain",
    "dot",
    "dot_general",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "eq",
    "eq_total_order",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "expm1",
    "fft",
    "floor",
    "fusion",
    "gather",
    "ge",
    "ge_total_order",
    "get_dimension_size",
    "get_tuple_element",
    "gt",
    "gt_total_order",
    "imag",
    "infeed",
    "iota",
    "is_finite",
    "le",
    "le_total_order",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "lt_total_order",
    "map",
    "max",
    "min",
    "mul",
    "ne",
    "ne_total_order",
    "neg",
    "next_after",
    "not_",
    "optimization_barrier",
    "or_",
    "outfeed",
    "pad",
    "parameter",
    "partition_id",
    "polygamma",
    "population_count",
    "pow",
    "ragged_all_to_all",
    "ragged_dot",
    "real",
    "recv",
    "recv_done",
    "recv_to_host",
    "recv_with_tokens",
    "reduce",
    "reduce_precision",
    "reduce_scatter",
    "reduce_window",
    "register_custom_call",
    "rem",
    "replica_id",
    "reshape",
    "reshape_explicit",
    "rev",
    "rng_bit_generator",
    "rng_get_and_update_state",
    "rng_normal",
    "rng_uniform",
    "round",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "scaled_dot",
    "scan",
    "scatter",
    "select",
    "select_and_scatter",
    "send",
    "send_done",
    "send_to_host",
    "send_with_tokens",
    "set_dimension_size",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice_in_dim",
    "sort",
    "sqrt",
    "sub",
    "tan",
    "tanh",
    "top_k",
    "transpose",
    "triangular_solve",
    "tuple",
    "while_",
    "xor",
    "zeta",
]
