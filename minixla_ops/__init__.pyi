# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.shapes import TokenShape
from minixla.core.shapes import TupleShape
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from minixla_ops.elementwise.accuracy import ResultAccuracy as ResultAccuracy
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers as GatherDimensionNumbers
from minixla_ops.indexing.index_numbers import ScatterDimensionNumbers as ScatterDimensionNumbers
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers as ConvolutionDimensionNumbers
from minixla_ops.products.dot_dimensions import DotDimensionNumbers as DotDimensionNumbers
from minixla_ops.products.ragged_dot import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
from typing import Any
from typing import NoReturn

__all__: list[str]

def abs(operand: ArrayLike) -> Array:
    """Absolute value: |x|, the modulus of a complex number. XLA: Abs."""

def acos(operand: ArrayLike) -> Array:
    """Inverse cosine. XLA: Acos (chlo)."""

def acosh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic cosine. XLA: Acosh (chlo)."""

def add(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs + rhs; integers wrap, pred is a logical or. XLA: Add."""

def add_dependency(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: add-dependency is internal to XLA. Use optimization_barrier, or give tokens to the operations that are to be in order."""

def after_all(tokens: Sequence[Any]) -> Any:
    """A token that comes after all its operands; of none, a new one. XLA: AfterAll, CreateToken."""

def all_gather(operand: Any, all_gather_dimension: int, shard_count: int, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., layout: Any = ..., use_global_device_ids: bool | None = ...) -> Any:
    """The operands of a group joined along a dimension, in its order. XLA: AllGather."""

def all_gather_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: all-gather-done is internal to XLA. Use all_gather: XLA makes it asynchronous where that pays."""

def all_gather_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: all-gather-start is internal to XLA. Use all_gather: XLA makes it asynchronous where that pays."""

def all_reduce(operand: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., shape_with_layout: object = ..., use_global_device_ids: bool | None = ...) -> Any:
    """The operands of a group combined, element by element. XLA: AllReduce."""

def all_reduce_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: all-reduce-done is internal to XLA. Use all_reduce: XLA makes it asynchronous where that pays."""

def all_reduce_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: all-reduce-start is internal to XLA. Use all_reduce: XLA makes it asynchronous where that pays."""

def all_to_all(operand: Any, split_dimension: int, concat_dimension: int, split_count: int, replica_groups: Sequence[Sequence[int]] = ..., layout: Any = ..., channel_id: int | None = ...) -> Any:
    """Cuts the operand into blocks, sends block i to member i and joins what came. XLA: AllToAll."""

def and_(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits that lhs and rhs both have; of pred a logical and. XLA: And."""

def asin(operand: ArrayLike) -> Array:
    """Inverse sine. XLA: Asin (chlo)."""

def asinh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic sine. XLA: Asinh (chlo)."""

def async_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: async-done is internal to XLA. Use call: XLA decides what runs asynchronously."""

def async_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: async-start is internal to XLA. Use call: XLA decides what runs asynchronously."""

def async_update(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: async-update is internal to XLA. Use call: XLA decides what runs asynchronously."""

def atan(operand: ArrayLike) -> Array:
    """Inverse tangent. XLA: Atan (chlo)."""

def atan2(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2."""

def atanh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic tangent. XLA: Atanh (chlo)."""

def batch_norm_grad(operand: ArrayLike, scale: ArrayLike, batch_mean: ArrayLike, batch_var: ArrayLike, grad_output: ArrayLike, epsilon: float, feature_index: int) -> Any:
    """The gradient of BatchNormTraining: (grad_operand, grad_scale, grad_offset)."""

def batch_norm_inference(operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, mean: ArrayLike, variance: ArrayLike, epsilon: float, feature_index: int) -> Array:
    """An array normalised by a given mean and variance."""

def batch_norm_training(operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, epsilon: float, feature_index: int) -> Any:
    """An array normalised by its own mean and variance: (output, batch_mean, batch_var)."""

def bitcast(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: bitcast is internal to XLA. Use reshape, transpose or bitcast_convert_type."""

def bitcast_convert_type(operand: ArrayLike, new_element_type: DTypeLike) -> Array:
    """The same bits in another element type. XLA: BitcastConvertType."""

def broadcast(operand: ArrayLike, broadcast_sizes: Sequence[int]) -> Array:
    """Repeats an array along new leading dimensions. XLA: Broadcast."""

def broadcast_in_dim(operand: ArrayLike, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """Repeats an array along new dimensions and stretches dimensions of size 1."""

def call(computation: Graph | Callable[..., object], *operands: object) -> builtins.tuple[Array, ...]:
    """The results of a computation as a Python tuple. XLA: Call."""

def cbrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Cube root: real of real numbers, negative ones too; principal of complex ones. XLA: Cbrt."""

def ceil(operand: ArrayLike) -> Array:
    """The smallest integral value not below x. XLA: Ceil."""

def cholesky(a: ArrayLike, lower: bool = ...) -> Array:
    """The Cholesky factor of Hermitian positive definite matrices. XLA: Cholesky."""

def clamp(min: ArrayLike, operand: ArrayLike, max: ArrayLike) -> Array:
    """operand brought between two bounds, minimum(maximum(operand, min), max). XLA: Clamp."""

def clz(operand: ArrayLike) -> Array:
    """The number of leading zero bits; of 0 the type's width. XLA: Clz."""

def collapse(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`operand` with a run of consecutive dimensions made into one, in row-major order."""

def collective_broadcast(operand: Any, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ...) -> Any:
    """Sends the operand of the first of each group to all of it. XLA: CollectiveBroadcast."""

def collective_permute(operand: Any, source_target_pairs: Sequence[Sequence[int]], channel_id: int | None = ..., inplace: bool = ...) -> Any:
    """Sends the operand of each source to its target; others get zeros. XLA: CollectivePermute."""

def collective_permute_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: collective-permute-done is internal to XLA. Use collective_permute: XLA makes it asynchronous where that pays."""

def collective_permute_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: collective-permute-start is internal to XLA. Use collective_permute: XLA makes it asynchronous where that pays."""

def compare(lhs: ArrayLike, rhs: ArrayLike, direction: str, broadcast_dimensions: Sequence[int] | None = ..., total_order: bool = ...) -> Array:
    """The comparison of the family that `direction` and `total_order` name; see Comparison."""

def complex(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The complex number with real part lhs and imaginary part rhs. XLA: Complex."""

def composite_call(computation: Graph | Callable[..., object], *operands: object, name: str, attributes: str | Mapping[str, str | int | float | bool] | None = ..., version: int = ...) -> Any:
    """The results of a computation that a backend may replace by an operation of its own."""

def concat_in_dim(operands: Sequence[Any], dimension: int) -> Array:
    """Joins arrays along one dimension, in the given order. XLA: ConcatInDim."""

def conditional(*arguments: object, **named: object) -> Any:
    """Runs one of several branches on its own operand. XLA: Conditional."""

def constant(literal: Any) -> Array:
    """The array `literal` as a value of the current trace. XLA: Constant (ConstantLiteral)."""

def conv(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with "SAME" or "VALID" padding and dimensions in the default order. XLA: Conv."""

def conv_general(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with explicit padding and given dimension numbers. XLA: ConvGeneral."""

def conv_general_dilated(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], lhs_dilation: Sequence[int] | None = ..., rhs_dilation: Sequence[int] | None = ..., dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ..., window_reversal: Sequence[bool] | None = ...) -> Array:
    """Sums of products of a kernel with the windows of an input, in any number of dimensions."""

def conv_with_general_dimensions(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with "SAME" or "VALID" padding and given dimension numbers. XLA: ConvWithGeneralDimensions."""

def conv_with_general_padding(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with explicit padding and dimensions in the default order. XLA: ConvWithGeneralPadding."""

def convert_element_type(operand: ArrayLike, new_element_type: DTypeLike) -> Array:
    """The same values in another element type, as static_cast has them. XLA: ConvertElementType."""

def copy(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: copy is internal to XLA. Values do not change, so that a copy is the value itself: use that."""

def copy_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: copy-done is internal to XLA. Values do not change, so that a copy is the value itself: use that."""

def copy_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: copy-start is internal to XLA. Values do not change, so that a copy is the value itself: use that."""

def cos(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Cosine. XLA: Cos."""

def cosh(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Hyperbolic cosine, (e**x + e**-x) / 2. XLA: Cosh."""

def create_token() -> Any:
    """A token that comes after nothing: AfterAll of none. XLA: CreateToken."""

def cross_replica_sum(operand: ArrayLike | Sequence[ArrayLike], replica_groups: Sequence[Sequence[int]] = ...) -> Any:
    """The sum of the operands of a group of replicas: AllReduce with `add`. XLA: CrossReplicaSum."""

def custom_call(target_name: str, args: Sequence[object], shape: Shape | TupleShape | Sequence[Shape], attributes: Mapping[str, object] | None = ..., has_side_effect: bool = ..., api_version: int = ...) -> Any:
    """The results of user code, known by the name of its target. XLA: CustomCall."""

def digamma(operand: ArrayLike) -> Array:
    """The derivative of lgamma. XLA: Digamma (chlo)."""

def div(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs / rhs; of integers rounded toward zero. XLA: Div."""

def domain(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: domain is internal to XLA. Say how values are sharded with mx.sharding; XLA finds the borders."""

def dot(lhs: ArrayLike, rhs: ArrayLike, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """The product of two vectors, of a matrix and a vector, or of two matrices (a DotGeneral)."""

def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Sum of products over contracting dimensions, separately for each batch index."""

def dynamic_reshape(operand: ArrayLike, dim_sizes: Sequence[ArrayLike], new_size_bounds: Sequence[int], dims_are_dynamic: Sequence[bool]) -> Array:
    """The elements of an array, in row-major order, in sizes that are values. XLA: DynamicReshape."""

def dynamic_slice(operand: ArrayLike, start_indices: Sequence[ArrayLike], slice_sizes: Sequence[int]) -> Array:
    """Cuts a box of static sizes out of an array, at start indices known at run time."""

def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Sequence[ArrayLike]) -> Array:
    """Overwrites a box of an array, at start indices known at run time. XLA: DynamicUpdateSlice."""

def eig(a: ArrayLike, vectors: bool = ...) -> Any:
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w). JAX: lax.linalg.eig."""

def eigh(a: ArrayLike, lower: bool = ..., vectors: bool = ...) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w). JAX: lax.linalg.eigh."""

def eq(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs = rhs. XLA: Eq."""

def eq_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs = rhs in the total order of floats: the same bits. XLA: EqTotalOrder."""

def erf(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to x. XLA: Erf."""

def erf_inv(operand: ArrayLike) -> Array:
    """The inverse of erf. XLA: ErfInv (chlo)."""

def erfc(operand: ArrayLike) -> Array:
    """1 - erf(x), accurate where small. XLA: Erfc (chlo)."""

def exp(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Exponential, e**x. XLA: Exp."""

def expm1(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """e**x - 1, accurate near 0. XLA: Expm1."""

def fft(operand: ArrayLike, fft_type: str, fft_length: Sequence[int]) -> Array:
    """The discrete Fourier transform over the last one to three dimensions. XLA: Fft."""

def floor(operand: ArrayLike) -> Array:
    """The largest integral value not above x. XLA: Floor."""

def fusion(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: fusion is internal to XLA. Use call, or plain functions: XLA decides what it fuses."""

def gap_quotient(operand: ArrayLike, gap: Any) -> Array:
    """operand / gap; where the gap is 0, 0 for an operand that is 0 and NaN for others."""

def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], indices_are_sorted: bool = ...) -> Array:
    """Copies slices of an array, from starts that an array of index vectors gives. XLA: Gather."""

def ge(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs >= rhs. XLA: Ge."""

def ge_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs >= rhs in the total order of floats. XLA: GeTotalOrder."""

def geqrf(a: ArrayLike) -> Any:
    """Reflections that make matrices triangular: a = h r, for `householder_product` h."""

def get_dimension_size(operand: Any, dimension: int) -> Array:
    """The size of a dimension as s32[]; of a dynamic one at run time. XLA: GetDimensionSize."""

def get_tuple_element(tuple_data: object, index: int) -> Any:
    """Member `index` of a tuple, one value or a Python tuple of values. XLA: GetTupleElement."""

def gt(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs > rhs. XLA: Gt."""

def gt_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs > rhs in the total order of floats. XLA: GtTotalOrder."""

def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The product of reflections, as Geqrf gives them: its first columns."""

def imag(operand: ArrayLike) -> Array:
    """The imaginary part; 0 for a real operand. XLA: Imag."""

def infeed(shape: Shape | TupleShape | TokenShape, config: str = ..., token: object = ...) -> Any:
    """Reads the next item of the device's infeed. XLA: Infeed, InfeedWithToken."""

def iota(shape: Shape, iota_dimension: int) -> Array:
    """Counts 0, 1, 2, ... along one dimension. XLA: Iota."""

def is_finite(operand: ArrayLike) -> Array:
    """Whether x is neither an infinity nor a NaN. XLA: IsFinite."""

def le(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs <= rhs. XLA: Le."""

def le_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs <= rhs in the total order of floats. XLA: LeTotalOrder."""

def lgamma(operand: ArrayLike) -> Array:
    """The logarithm of abs(gamma(x)). XLA: Lgamma (chlo)."""

def log(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Natural logarithm; -inf at 0, NaN of negative reals. XLA: Log."""

def log1p(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """log(1 + x), accurate near 0. XLA: Log1p."""

def logistic(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Logistic function, 1 / (1 + e**-x). XLA: Logistic."""

def lt(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs < rhs. XLA: Lt."""

def lt_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs < rhs in the total order of floats. XLA: LtTotalOrder."""

def lu(a: ArrayLike) -> Any:
    """Triangular factors of matrices whose rows are exchanged: P a = l u."""

def lu_solve(a: ArrayLike, lu: ArrayLike, permutation: ArrayLike, b: ArrayLike, transpose_a: str = ...) -> Array:
    """Solves op(a) x = b by the factors of a that `lu` gives, which are computed once."""

def lyapunov_solve(p: ArrayLike, sums: Any, v: ArrayLike, c: ArrayLike, transpose_a: str = ...) -> Array:
    """Solves op(p) x + x op(p) = c for Hermitian p, whose eigenvalues and vectors are known."""

def map(operands: Sequence[ArrayLike], computation: Graph | Callable[..., object], dimensions: Sequence[int] | None = ..., static_operands: Sequence[ArrayLike] = ...) -> Any:
    """A computation of scalars applied to the elements at each position. XLA: Map."""

def max(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The larger of lhs and rhs; NaN if either is NaN, and +0 is larger than -0. XLA: Max."""

def min(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The smaller of lhs and rhs; NaN if either is NaN, and -0 is smaller than +0. XLA: Min."""

def mul(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs * rhs; integers wrap, pred is a logical and. XLA: Mul."""

def ne(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs and rhs differ; true where either is NaN. XLA: Ne."""

def ne_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Whether lhs and rhs differ in the total order of floats. XLA: NeTotalOrder."""

def neg(operand: ArrayLike) -> Array:
    """Negation, -x; integers wrap. XLA: Neg."""

def next_after(lhs: ArrayLike, rhs: ArrayLike) -> Array:
    """The float next to the first operand in the direction of the second. XLA: NextAfter (chlo)."""

def not_(operand: ArrayLike) -> Array:
    """Logical not of pred, every bit inverted of integers. XLA: Not."""

def optimization_barrier(operand: object) -> Any:
    """The operand, across which no compiler moves computation. XLA: OptimizationBarrier."""

def or_(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits that lhs or rhs has; of pred a logical or. XLA: Or."""

def outfeed(operand: ArrayLike | Sequence[ArrayLike], shape_with_layout: Shape | TupleShape | TokenShape | None = ..., outfeed_config: str = ..., token: object = ...) -> Any:
    """Writes an array, or a tuple of arrays, to the device's outfeed. XLA: Outfeed."""

def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[Sequence[int]]) -> Array:
    """Puts a value around and between the elements, or takes edges away. XLA: Pad."""

def parameter(parameter_number: int, shape: Shape | TupleShape | TokenShape, name: str = ...) -> Any:
    """An input of the program that is being traced. XLA: Parameter."""

def partition_id(shape: Shape = ...) -> Array:
    """The partition that runs this program, u32[] in [0, number of partitions). XLA: PartitionId."""

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma at x; n is an array of floats, too. XLA: Polygamma (chlo)."""

def population_count(operand: ArrayLike) -> Array:
    """The number of bits that are set. XLA: PopulationCount."""

def pow(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs raised to the power rhs. XLA: Pow."""

def qr(a: ArrayLike, full_matrices: bool = ...) -> Any:
    """Orthogonal and upper triangular factors: a = q r. JAX: lax.linalg.qr."""

def ragged_all_to_all(input: ArrayLike, input_offsets: ArrayLike, send_sizes: ArrayLike, output: ArrayLike, output_offsets: ArrayLike, recv_sizes: ArrayLike, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ...) -> Array:
    """Sends slices of rows to each member, which writes them into its output. XLA: RaggedAllToAll."""

def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, dimension_numbers: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """DotGeneral by groups of neighbours along a ragged dimension of lhs. XLA: RaggedDot."""

def real(operand: ArrayLike) -> Array:
    """The real part; a real operand is returned as it is. XLA: Real."""

def recv(shape: Shape, handle: int, token: object = ...) -> Any:
    """The value that the send of the channel in another program sends. XLA: Recv."""

def recv_done(context: object) -> Any:
    """Refuses: `recv` waits by itself; this half stands in dumps alone."""

def recv_to_host(token: object, shape: Shape, handle: int) -> builtins.tuple[Array, Array]:
    """Receives *from* the host on a channel, after `token`; returns the value and a token."""

def recv_with_tokens(token: object, shape: Shape, handle: int) -> builtins.tuple[Array, Array]:
    """`recv` after `token`; returns the value and a token. XLA: RecvWithTokens."""

def reduce(operands: ArrayLike | Sequence[ArrayLike], init_values: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], dimensions_to_reduce: Sequence[int]) -> Any:
    """Folds N arrays along dimensions, which the results no longer have. XLA: Reduce."""

def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """What is left of a value that passes through a narrower float format. XLA: ReducePrecision."""

def reduce_scatter(operand: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], scatter_dimension: int, shard_count: int, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., layout: object = ..., use_global_device_ids: bool | None = ...) -> Array:
    """The operands of a group combined; member i gets block i of the result. XLA: ReduceScatter."""

def reduce_window(operands: ArrayLike | Sequence[ArrayLike], init_values: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], window_dimensions: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], base_dilations: Sequence[int] | None = ..., window_dilations: Sequence[int] | None = ...) -> Any:
    """Folds the elements under each position of a window over N arrays. XLA: ReduceWindow."""

def register_custom_call(target_name: str, function: Callable[..., object]) -> None:
    """Says what a target computes, for the reference and for engines without compiled code."""

def rem(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem."""

def replica_id() -> Array:
    """The replica that runs this program, u32[] in [0, number of replicas). XLA: ReplicaId."""

def reshape(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The elements of an array, in row-major order, in other dimensions. XLA: Reshape."""

def reshape_explicit(shape: Shape, operand: ArrayLike) -> Array:
    """The elements of `operand`, in row-major order, in an array of `shape`. XLA: ReshapeExplicit."""

def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverses the order of the elements along dimensions. XLA: Rev."""

def rng_bit_generator(algorithm: str, initial_state: ArrayLike, shape: Shape) -> builtins.tuple[Array, Array]:
    """Uniformly random bits, and the state to go on with."""

def rng_get_and_update_state(*operands: Any, **attributes: Any) -> NoReturn:
    """Refuses: rng-get-and-update-state is internal to XLA. Use rng_bit_generator with a state of your own, or rng_uniform."""

def rng_normal(mu: ArrayLike, sigma: ArrayLike, shape: Shape) -> Array:
    """Samples of the normal distribution, others at every run. XLA: RngNormal."""

def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Shape) -> Array:
    """Samples uniform on [a, b), a + (b - a) u, others at every run. XLA: RngUniform."""

def round(operand: ArrayLike) -> Array:
    """The nearest integral values, ties away from zero: `round_nearest_afz` by its older name."""

def round_nearest_afz(operand: ArrayLike) -> Array:
    """The nearest integral value, ties away from zero: 2.5 -> 3, -0.5 -> -1. XLA: RoundNearestAfz."""

def round_nearest_even(operand: ArrayLike) -> Array:
    """The nearest integral value, ties to the even one: 1.5 -> 2. XLA: RoundNearestEven."""

def rsqrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """1 / sqrt(x). XLA: Rsqrt."""

def scaled_dot(lhs: ArrayLike, lhs_scale: ArrayLike, rhs: ArrayLike, rhs_scale: ArrayLike, dimension_number: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """DotGeneral of lhs and rhs, each multiplied by its scale. XLA: ScaledDot."""

def scan(inputs: ArrayLike | Sequence[ArrayLike], inits: ArrayLike | Sequence[ArrayLike], to_apply: Graph | Callable[..., object], scan_dimension: int = ..., is_reverse: bool = ..., is_associative: bool | None = ...) -> builtins.tuple[Array, ...]:
    """The outputs of a scan and its last carries, in one Python tuple. XLA: Scan."""

def scatter(operands: ArrayLike | Sequence[ArrayLike], scatter_indices: ArrayLike, updates: ArrayLike | Sequence[ArrayLike], update_computation: Graph | Callable[..., object], dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool = ..., unique_indices: bool = ..., indices_in_bounds: bool = ...) -> Any:
    """Combines updates with N arrays, at places that an array of index vectors gives. XLA: Scatter."""

def schur(a: ArrayLike, vectors: bool = ...) -> Any:
    """The Schur form of square matrices: a = z t z^H. JAX: lax.linalg.schur."""

def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred is true, on_false elsewhere. XLA: Select."""

def select_and_scatter(operand: ArrayLike, select: Graph | Callable[..., object], window_dimensions: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], source: ArrayLike, init_value: ArrayLike, scatter: Graph | Callable[..., object]) -> Array:
    """Combines values into an array where a sliding window's selected elements are."""

def send(operand: ArrayLike, handle: int, token: object = ...) -> Any:
    """Sends to the recv of the channel in another program, and waits until it has been taken."""

def send_done(context: object) -> Any:
    """Refuses: `send` waits by itself; this half stands in dumps alone."""

def send_to_host(operand: ArrayLike, token: object, shape_with_layout: Shape | None, handle: int) -> Any:
    """Sends to the host on a channel, after `token`; returns a token. XLA: SendToHost."""

def send_with_tokens(operand: ArrayLike, token: object, handle: int) -> Any:
    """`send` after `token`; returns a token. XLA: SendWithTokens."""

def set_dimension_size(operand: ArrayLike, val: ArrayLike, dimension: int) -> Array:
    """An array with a dimension of which `val` elements, the first, are there at run time."""

def shift_left(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits of lhs moved left by rhs; zeros come in. XLA: ShiftLeft."""

def shift_right_arithmetic(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits of lhs moved right by rhs; its first bit is repeated. XLA: ShiftRightArithmetic."""

def shift_right_logical(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits of lhs moved right by rhs; zeros come in. XLA: ShiftRightLogical."""

def sign(operand: ArrayLike) -> Array:
    """The sign: -1, 0 or 1; zeros (-0 too) and NaNs stay. XLA: Sign."""

def sin(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Sine. XLA: Sin."""

def sinh(operand: ArrayLike) -> Array:
    """Hyperbolic sine. XLA: Sinh (chlo)."""

def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = ...) -> Array:
    """Cuts a box out of an array, taking every strides[d]-th element of dimension d. XLA: Slice."""

def slice_in_dim(operand: ArrayLike, start: int, limit: int, dimension: int, stride: int = ...) -> Array:
    """The indices [start, limit) of one dimension, every `stride`-th, and all of the others."""

def softmax(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """exp(x) divided by its sum along dimensions, without overflow. JAX: nn.softmax."""

def sort(operands: ArrayLike | Sequence[ArrayLike], comparator: Graph | Callable[..., object], dimension: int = ..., is_stable: bool = ...) -> Any:
    """Puts the elements of N arrays along a dimension into the order of a comparator. XLA: Sort."""

def sqrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Square root; a complex one has real part >= 0. XLA: Sqrt."""

def sub(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs - rhs; integers wrap. XLA: Sub."""

def svd(a: ArrayLike, full_matrices: bool = ..., vectors: bool = ...) -> Any:
    """Singular values and vectors of matrices: a = u diag(s) vh. JAX: lax.linalg.svd."""

def tan(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Tangent. XLA: Tan."""

def tanh(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Hyperbolic tangent. XLA: Tanh."""

def threefry2x32(key_0: ArrayLike, key_1: ArrayLike, block_0: ArrayLike, block_1: ArrayLike, of_keys: bool = ..., is_loop: bool = ...) -> Any:
    """Threefry-2x32-20 of blocks of two words under keys of two words."""

def top_k(operand: ArrayLike, k: int, largest: bool = ...) -> Any:
    """The k greatest or least elements of the last dimension, and where they are. XLA: TopK."""

def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permutes the dimensions. XLA: Transpose."""

def triangular_solve(a: ArrayLike, b: ArrayLike, left_side: bool, lower: bool, unit_diagonal: bool = ..., transpose_a: str = ...) -> Array:
    """Solves op(a) x = b, or x op(a) = b, for triangular matrices a. XLA: TriangularSolve."""

def tuple(elements: Sequence[object]) -> Any:
    """Several values of any shapes as one; Python tuples among them are of those. XLA: Tuple."""

def while_(condition: Graph | Callable[..., object], body: Graph | Callable[..., object], init: object) -> Any:
    """Runs `body` on the loop's values as long as `condition` holds of them. XLA: While."""

def xor(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The bits that one of lhs and rhs has; of pred whether they differ. XLA: Xor."""

def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0. XLA: Zeta (chlo)."""

