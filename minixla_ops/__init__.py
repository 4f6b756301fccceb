"""XLA's operation set, and functions of chlo: builders, named as there, in snake_case."""

from minixla_ops.collectives.collective_groups import partition_id, replica_id
from minixla_ops.collectives.collective_joins import all_gather, all_to_all
from minixla_ops.collectives.collective_passing import collective_broadcast, collective_permute
from minixla_ops.collectives.collective_reductions import (
    all_reduce,
    cross_replica_sum,
    reduce_scatter,
)
from minixla_ops.collectives.ragged_all_to_all import ragged_all_to_all
from minixla_ops.control_flow.conditional import conditional
from minixla_ops.control_flow.loops import while_
from minixla_ops.control_flow.map import map
from minixla_ops.control_flow.scan import scan
from minixla_ops.dumps.async_pairs import BUILDERS as _BUILDERS
from minixla_ops.dynamic_sizes.dimension_sizes import get_dimension_size, set_dimension_size
from minixla_ops.dynamic_sizes.dynamic_reshape import dynamic_reshape
from minixla_ops.elementwise import operators as _operators  # installs Python's operators
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
from minixla_ops.elementwise.selection import clamp, select
from minixla_ops.elementwise.special_functions import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    digamma,
    erf,
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
    ceil,
    clz,
    floor,
    imag,
    is_finite,
    neg,
    not_,
    population_count,
    real,
    round,
    round_nearest_afz,
    round_nearest_even,
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
from minixla_ops.products.convolution import (
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

globals().update(_BUILDERS)  # of instructions that only XLA makes
__all__ = sorted(name for name, value in globals().items() if callable(value))  # pyright: ignore[reportUnsupportedDunderAll]
