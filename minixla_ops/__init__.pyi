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
    """Element-wise absolute value; the modulus of a complex number. XLA: Abs."""

def acos(operand: ArrayLike) -> Array:
    """Inverse cosine. XLA: Acos (chlo)."""

def acosh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic cosine. XLA: Acosh (chlo)."""

def add(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise sum; integers wrap, logical OR for pred. XLA: Add."""

def add_dependency(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: add-dependency is internal to XLA. Use optimization_barrier, or pass tokens to the operations to order them."""

def after_all(tokens: Sequence[Any]) -> Any:
    """Return a token after all operands; without operands, a new one. XLA: AfterAll, CreateToken."""

def all_gather(operand: Any, all_gather_dimension: int, shard_count: int, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., layout: Any = ..., use_global_device_ids: bool | None = ...) -> Any:
    """Join the operands of a group along a dimension, in its order. XLA: AllGather."""

def all_gather_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: all-gather-done is internal to XLA. Use all_gather: XLA makes it asynchronous if that is faster."""

def all_gather_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: all-gather-start is internal to XLA. Use all_gather: XLA makes it asynchronous if that is faster."""

def all_reduce(operand: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., shape_with_layout: object = ..., use_global_device_ids: bool | None = ...) -> Any:
    """Combine the operands of a group, element by element. XLA: AllReduce."""

def all_reduce_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: all-reduce-done is internal to XLA. Use all_reduce: XLA makes it asynchronous if that is faster."""

def all_reduce_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: all-reduce-start is internal to XLA. Use all_reduce: XLA makes it asynchronous if that is faster."""

def all_to_all(operand: Any, split_dimension: int, concat_dimension: int, split_count: int, replica_groups: Sequence[Sequence[int]] = ..., layout: Any = ..., channel_id: int | None = ...) -> Any:
    """Split the operand, send block i to member i, and join received blocks. XLA: AllToAll."""

def and_(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Bitwise AND; logical AND for pred. XLA: And."""

def asin(operand: ArrayLike) -> Array:
    """Inverse sine. XLA: Asin (chlo)."""

def asinh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic sine. XLA: Asinh (chlo)."""

def async_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: async-done is internal to XLA. Use call: XLA decides what runs asynchronously."""

def async_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: async-start is internal to XLA. Use call: XLA decides what runs asynchronously."""

def async_update(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: async-update is internal to XLA. Use call: XLA decides what runs asynchronously."""

def atan(operand: ArrayLike) -> Array:
    """Inverse tangent. XLA: Atan (chlo)."""

def atan2(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise angle of the point with y = lhs and x = rhs, in [-pi, pi]. XLA: Atan2."""

def atanh(operand: ArrayLike) -> Array:
    """Inverse hyperbolic tangent. XLA: Atanh (chlo)."""

def batch_norm_grad(operand: ArrayLike, scale: ArrayLike, batch_mean: ArrayLike, batch_var: ArrayLike, grad_output: ArrayLike, epsilon: float, feature_index: int) -> Any:
    """Compute the gradient of BatchNormTraining: (grad_operand, grad_scale, grad_offset)."""

def batch_norm_inference(operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, mean: ArrayLike, variance: ArrayLike, epsilon: float, feature_index: int) -> Array:
    """Normalize an array by a given mean and variance. XLA: BatchNormInference."""

def batch_norm_training(operand: ArrayLike, scale: ArrayLike, offset: ArrayLike, epsilon: float, feature_index: int) -> Any:
    """Normalize an array by its mean and variance. XLA: BatchNormTraining."""

def bitcast(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: bitcast is internal to XLA. Use reshape, transpose or bitcast_convert_type."""

def bitcast_convert_type(operand: ArrayLike, new_element_type: DTypeLike) -> Array:
    """Reinterpret bits as another element type. XLA: BitcastConvertType."""

def broadcast(operand: ArrayLike, broadcast_sizes: Sequence[int]) -> Array:
    """Repeat an array along new leading dimensions. XLA: Broadcast."""

def broadcast_in_dim(operand: ArrayLike, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """Repeat an array along new dimensions, and stretch dimensions of size 1."""

def call(computation: Graph | Callable[..., object], *operands: object) -> builtins.tuple[Array, ...]:
    """Call a computation and return its results as a tuple. XLA: Call."""

def cbrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Cube root: real for real numbers, principal for complex ones. XLA: Cbrt."""

def ceil(operand: ArrayLike) -> Array:
    """Smallest integral value not below x. XLA: Ceil."""

def cholesky(a: ArrayLike, lower: bool = ...) -> Array:
    """Cholesky factor of Hermitian positive definite matrices. XLA: Cholesky."""

def clamp(min: ArrayLike, operand: ArrayLike, max: ArrayLike) -> Array:
    """Clamp operand between two bounds, minimum(maximum(operand, min), max). XLA: Clamp."""

def clz(operand: ArrayLike) -> Array:
    """Number of leading zero bits; for 0, the width of the type. XLA: Clz."""

def collapse(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Merge consecutive dimensions into one, in row-major order."""

def collective_broadcast(operand: Any, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ...) -> Any:
    """Send the operand of a group's first member to all its members. XLA: CollectiveBroadcast."""

def collective_permute(operand: Any, source_target_pairs: Sequence[Sequence[int]], channel_id: int | None = ..., inplace: bool = ...) -> Any:
    """Send the operand of each source to its target; others get zeros. XLA: CollectivePermute."""

def collective_permute_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: collective-permute-done is internal to XLA. Use collective_permute: XLA makes it asynchronous if that is faster."""

def collective_permute_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: collective-permute-start is internal to XLA. Use collective_permute: XLA makes it asynchronous if that is faster."""

def compare(lhs: ArrayLike, rhs: ArrayLike, direction: str, broadcast_dimensions: Sequence[int] | None = ..., total_order: bool = ...) -> Array:
    """Compare two arrays in the given direction; see Comparison."""

def complex(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """The complex number with real part lhs and imaginary part rhs. XLA: Complex."""

def composite_call(computation: Graph | Callable[..., object], *operands: object, name: str, attributes: str | Mapping[str, str | int | float | bool] | None = ..., version: int = ...) -> Any:
    """Call a computation that a backend may replace by its own operation."""

def concat_in_dim(operands: Sequence[Any], dimension: int) -> Array:
    """Join arrays along one dimension, in order. XLA: ConcatInDim."""

def conditional(*arguments: object, **named: object) -> Any:
    """Run one of several branches on its own operand. XLA: Conditional."""

def constant(literal: Any) -> Array:
    """Return the array `literal` as a value of the current trace. XLA: Constant (ConstantLiteral)."""

def conv(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with "SAME" or "VALID" padding and dimensions in the default order. XLA: Conv."""

def conv_general(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with explicit padding and given dimension numbers. XLA: ConvGeneral."""

def conv_general_dilated(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], lhs_dilation: Sequence[int] | None = ..., rhs_dilation: Sequence[int] | None = ..., dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ..., window_reversal: Sequence[bool] | None = ...) -> Array:
    """Convolve an input with a kernel, in any number of dimensions."""

def conv_with_general_dimensions(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], dimension_numbers: Any = ..., feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with "SAME" or "VALID" padding and given dimension numbers. XLA: ConvWithGeneralDimensions."""

def conv_with_general_padding(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], feature_group_count: int = ..., batch_group_count: int = ..., precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """A convolution with explicit padding and dimensions in the default order. XLA: ConvWithGeneralPadding."""

def convert_element_type(operand: ArrayLike, new_element_type: DTypeLike) -> Array:
    """Convert elements to another element type, like C++'s static_cast. XLA: ConvertElementType."""

def copy(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: copy is internal to XLA. Values are immutable, so use the value itself."""

def copy_done(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: copy-done is internal to XLA. Values are immutable, so use the value itself."""

def copy_start(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: copy-start is internal to XLA. Values are immutable, so use the value itself."""

def cos(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Cosine. XLA: Cos."""

def cosh(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Hyperbolic cosine, (e**x + e**-x) / 2. XLA: Cosh."""

def create_token() -> Any:
    """Create a token that follows nothing: AfterAll without operands. XLA: CreateToken."""

def cross_replica_sum(operand: ArrayLike | Sequence[ArrayLike], replica_groups: Sequence[Sequence[int]] = ...) -> Any:
    """Sum the operands of a group of replicas, as AllReduce with `add`. XLA: CrossReplicaSum."""

def custom_call(target_name: str, args: Sequence[object], shape: Shape | TupleShape | Sequence[Shape], attributes: Mapping[str, object] | None = ..., has_side_effect: bool = ..., api_version: int = ...) -> Any:
    """Call user code by the name of its target. XLA: CustomCall."""

def digamma(operand: ArrayLike) -> Array:
    """Derivative of lgamma. XLA: Digamma (chlo)."""

def div(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise quotient; integers round toward zero. XLA: Div."""

def domain(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: domain is internal to XLA. Shard values with mx.sharding; XLA finds the borders."""

def dot(lhs: ArrayLike, rhs: ArrayLike, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Multiply two vectors, a matrix and a vector, or two matrices (a DotGeneral)."""

def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Sum of products over contracting dimensions, separately for each batch index."""

def dynamic_reshape(operand: ArrayLike, dim_sizes: Sequence[ArrayLike], new_size_bounds: Sequence[int], dims_are_dynamic: Sequence[bool]) -> Array:
    """Reshape an array, in row-major order, to sizes that are values. XLA: DynamicReshape."""

def dynamic_slice(operand: ArrayLike, start_indices: Sequence[ArrayLike], slice_sizes: Sequence[int]) -> Array:
    """Extract a box of static sizes at start indices known at run time. XLA: DynamicSlice."""

def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Sequence[ArrayLike]) -> Array:
    """Overwrite a box of an array at start indices known at run time. XLA: DynamicUpdateSlice."""

def eig(a: ArrayLike, vectors: bool = ...) -> Any:
    """Eigenvalues and right eigenvectors of square matrices: a v = v diag(w). JAX: lax.linalg.eig."""

def eigh(a: ArrayLike, lower: bool = ..., vectors: bool = ...) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices: a v = v diag(w). JAX: lax.linalg.eigh."""

def eq(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs == rhs. XLA: Eq."""

def eq_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise equality in the total order of floats: the same bits. XLA: EqTotalOrder."""

def erf(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to x. XLA: Erf."""

def erf_inv(operand: ArrayLike) -> Array:
    """Inverse error function. XLA: ErfInv (chlo)."""

def erfc(operand: ArrayLike) -> Array:
    """Complementary error function 1 - erf(x), accurate for small results. XLA: Erfc (chlo)."""

def exp(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Exponential, e**x. XLA: Exp."""

def expm1(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """e**x - 1, accurate near 0. XLA: Expm1."""

def fft(operand: ArrayLike, fft_type: str, fft_length: Sequence[int]) -> Array:
    """Discrete Fourier transform over the last one to three dimensions. XLA: Fft."""

def floor(operand: ArrayLike) -> Array:
    """Largest integral value not above x. XLA: Floor."""

def fusion(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: fusion is internal to XLA. Use call, or plain functions: XLA decides what to fuse."""

def gap_quotient(operand: ArrayLike, gap: Any) -> Array:
    """Element-wise operand / gap; if gap is 0, then 0 for a zero operand and NaN for others."""

def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], indices_are_sorted: bool = ...) -> Array:
    """Copy slices of an array from starts given by an array of index vectors. XLA: Gather."""

def ge(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs >= rhs. XLA: Ge."""

def ge_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs >= rhs in the total order of floats. XLA: GeTotalOrder."""

def geqrf(a: ArrayLike) -> Any:
    """Reflections that make matrices triangular: a = h r. JAX: lax.linalg.geqrf."""

def get_dimension_size(operand: Any, dimension: int) -> Array:
    """Return the size of a dimension as s32[]. XLA: GetDimensionSize."""

def get_tuple_element(tuple_data: object, index: int) -> Any:
    """Return element `index` of a tuple, either a value or a Python tuple. XLA: GetTupleElement."""

def gt(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs > rhs. XLA: Gt."""

def gt_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs > rhs in the total order of floats. XLA: GtTotalOrder."""

def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Multiply the reflections of Geqrf, and return the first columns of the product."""

def imag(operand: ArrayLike) -> Array:
    """Imaginary part; 0 for a real operand. XLA: Imag."""

def infeed(shape: Shape | TupleShape | TokenShape, config: str = ..., token: object = ...) -> Any:
    """Read the next item of the device's infeed. XLA: Infeed, InfeedWithToken."""

def iota(shape: Shape, iota_dimension: int) -> Array:
    """Count 0, 1, 2, ... along one dimension. XLA: Iota."""

def is_finite(operand: ArrayLike) -> Array:
    """Element-wise test for values that are neither infinite nor NaN. XLA: IsFinite."""

def le(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs <= rhs. XLA: Le."""

def le_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs <= rhs in the total order of floats. XLA: LeTotalOrder."""

def lgamma(operand: ArrayLike) -> Array:
    """Logarithm of abs(gamma(x)). XLA: Lgamma (chlo)."""

def log(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Natural logarithm; -inf at 0, NaN for negative reals. XLA: Log."""

def log1p(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """log(1 + x), accurate near 0. XLA: Log1p."""

def logistic(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Logistic function, 1 / (1 + e**-x). XLA: Logistic."""

def lt(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs < rhs. XLA: Lt."""

def lt_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs < rhs in the total order of floats. XLA: LtTotalOrder."""

def lu(a: ArrayLike) -> Any:
    """LU factorization of matrices with row pivoting: P a = l u. JAX: lax.linalg.lu."""

def lu_solve(a: ArrayLike, lu: ArrayLike, permutation: ArrayLike, b: ArrayLike, transpose_a: str = ...) -> Array:
    """Solve op(a) x = b with the factors of a from `lu`, which are computed once."""

def lyapunov_solve(p: ArrayLike, sums: Any, v: ArrayLike, c: ArrayLike, transpose_a: str = ...) -> Array:
    """Solve op(p) x + x op(p) = c for Hermitian p with known eigenvalues and eigenvectors."""

def map(operands: Sequence[ArrayLike], computation: Graph | Callable[..., object], dimensions: Sequence[int] | None = ..., static_operands: Sequence[ArrayLike] = ...) -> Any:
    """Apply a computation of scalars at each position of arrays. XLA: Map."""

def max(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise maximum; NaN if either is NaN, and +0 is larger than -0. XLA: Max."""

def min(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise minimum; NaN if either is NaN, and -0 is smaller than +0. XLA: Min."""

def mul(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise product; integers wrap, logical AND for pred. XLA: Mul."""

def ne(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise lhs != rhs; true if either is NaN. XLA: Ne."""

def ne_total_order(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise inequality in the total order of floats. XLA: NeTotalOrder."""

def neg(operand: ArrayLike) -> Array:
    """Element-wise negation, -x; integers wrap. XLA: Neg."""

def next_after(lhs: ArrayLike, rhs: ArrayLike) -> Array:
    """The next float after lhs in the direction of rhs. XLA: NextAfter (chlo)."""

def not_(operand: ArrayLike) -> Array:
    """Logical NOT for pred, bitwise NOT for integers. XLA: Not."""

def optimization_barrier(operand: object) -> Any:
    """Return the operand, and prevent compilers from moving code across. XLA: OptimizationBarrier."""

def or_(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Bitwise OR; logical OR for pred. XLA: Or."""

def outfeed(operand: ArrayLike | Sequence[ArrayLike], shape_with_layout: Shape | TupleShape | TokenShape | None = ..., outfeed_config: str = ..., token: object = ...) -> Any:
    """Write an array, or a tuple of arrays, to the device's outfeed. XLA: Outfeed."""

def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[Sequence[int]]) -> Array:
    """Insert a value around and between the elements, or remove edges. XLA: Pad."""

def parameter(parameter_number: int, shape: Shape | TupleShape | TokenShape, name: str = ...) -> Any:
    """Return an input of the program being traced. XLA: Parameter."""

def partition_id(shape: Shape = ...) -> Array:
    """Return the partition that runs this program, u32[] in [0, partitions). XLA: PartitionId."""

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma at x; n is also an array of floats. XLA: Polygamma (chlo)."""

def population_count(operand: ArrayLike) -> Array:
    """Number of set bits. XLA: PopulationCount."""

def pow(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """lhs raised to the power rhs. XLA: Pow."""

def qr(a: ArrayLike, full_matrices: bool = ...) -> Any:
    """QR factorization, with orthogonal and upper triangular factors: a = q r. JAX: lax.linalg.qr."""

def ragged_all_to_all(input: ArrayLike, input_offsets: ArrayLike, send_sizes: ArrayLike, output: ArrayLike, output_offsets: ArrayLike, recv_sizes: ArrayLike, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ...) -> Array:
    """Send slices of rows to each member, which writes them to its output. XLA: RaggedAllToAll."""

def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, dimension_numbers: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Multiply by groups of rows along a ragged dimension of lhs. XLA: RaggedDot."""

def real(operand: ArrayLike) -> Array:
    """Real part; a real operand is returned unchanged. XLA: Real."""

def recv(shape: Shape, handle: int, token: object = ...) -> Any:
    """Receive the value of the send on the channel in another program. XLA: Recv."""

def recv_done(context: object) -> Any:
    """Raise an error: `recv` includes it; only dumps contain it separately."""

def recv_to_host(token: object, shape: Shape, handle: int) -> builtins.tuple[Array, Array]:
    """Receive *from* the host on a channel, after `token`; return the value and a token."""

def recv_with_tokens(token: object, shape: Shape, handle: int) -> builtins.tuple[Array, Array]:
    """Run `recv` after `token`; return the value and a token. XLA: RecvWithTokens."""

def reduce(operands: ArrayLike | Sequence[ArrayLike], init_values: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], dimensions_to_reduce: Sequence[int]) -> Any:
    """Fold N arrays along dimensions, and remove these dimensions. XLA: Reduce."""

def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round values to a narrower float format. XLA: ReducePrecision."""

def reduce_scatter(operand: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], scatter_dimension: int, shard_count: int, replica_groups: Sequence[Sequence[int]] = ..., channel_id: int | None = ..., layout: object = ..., use_global_device_ids: bool | None = ...) -> Array:
    """Combine the operands of a group; member i gets block i of the result. XLA: ReduceScatter."""

def reduce_window(operands: ArrayLike | Sequence[ArrayLike], init_values: ArrayLike | Sequence[ArrayLike], computation: Graph | Callable[..., object], window_dimensions: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], base_dilations: Sequence[int] | None = ..., window_dilations: Sequence[int] | None = ...) -> Any:
    """Fold the elements at each position of a window over N arrays. XLA: ReduceWindow."""

def register_custom_call(target_name: str, function: Callable[..., object]) -> None:
    """Register what a target computes, for the reference evaluator and the engine."""

def rem(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise remainder of lhs / rhs, with the sign of lhs (C's fmod). XLA: Rem."""

def replica_id() -> Array:
    """Return the replica that runs this program, u32[] in [0, replicas). XLA: ReplicaId."""

def reshape(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reshape an array in row-major order. XLA: Reshape."""

def reshape_explicit(shape: Shape, operand: ArrayLike) -> Array:
    """Reshape `operand`, in row-major order, to `shape`. XLA: ReshapeExplicit."""

def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of the elements along dimensions. XLA: Rev."""

def rng_bit_generator(algorithm: str, initial_state: ArrayLike, shape: Shape) -> builtins.tuple[Array, Array]:
    """Generate uniformly random bits and the next state. XLA: RngBitGenerator."""

def rng_get_and_update_state(*operands: Any, **attributes: Any) -> NoReturn:
    """Raise an error: rng-get-and-update-state is internal to XLA. Use rng_bit_generator with an explicit state, or rng_uniform."""

def rng_normal(mu: ArrayLike, sigma: ArrayLike, shape: Shape) -> Array:
    """Draw samples from a normal distribution, anew in every run. XLA: RngNormal."""

def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Shape) -> Array:
    """Draw uniform samples on [a, b), a + (b - a) u, anew in every run. XLA: RngUniform."""

def round(operand: ArrayLike) -> Array:
    """Round to the nearest integral values, ties away from zero, like `round_nearest_afz`."""

def round_nearest_afz(operand: ArrayLike) -> Array:
    """Nearest integral value, ties away from zero: 2.5 -> 3, -0.5 -> -1. XLA: RoundNearestAfz."""

def round_nearest_even(operand: ArrayLike) -> Array:
    """Nearest integral value, ties to even: 1.5 -> 2. XLA: RoundNearestEven."""

def rsqrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """1 / sqrt(x). XLA: Rsqrt."""

def scaled_dot(lhs: ArrayLike, lhs_scale: ArrayLike, rhs: ArrayLike, rhs_scale: ArrayLike, dimension_number: Any, precision_config: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Multiply lhs and rhs, each with its scale, like DotGeneral. XLA: ScaledDot."""

def scan(inputs: ArrayLike | Sequence[ArrayLike], inits: ArrayLike | Sequence[ArrayLike], to_apply: Graph | Callable[..., object], scan_dimension: int = ..., is_reverse: bool = ..., is_associative: bool | None = ...) -> builtins.tuple[Array, ...]:
    """Scan along a dimension; return the outputs and the final carries in one tuple. XLA: Scan."""

def scatter(operands: ArrayLike | Sequence[ArrayLike], scatter_indices: ArrayLike, updates: ArrayLike | Sequence[ArrayLike], update_computation: Graph | Callable[..., object], dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool = ..., unique_indices: bool = ..., indices_in_bounds: bool = ...) -> Any:
    """Combine updates with N arrays at positions given by an array of index vectors. XLA: Scatter."""

def schur(a: ArrayLike, vectors: bool = ...) -> Any:
    """Schur form of square matrices: a = z t z^H. JAX: lax.linalg.schur."""

def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Choose on_true if pred is true, else on_false, element-wise. XLA: Select."""

def select_and_scatter(operand: ArrayLike, select: Graph | Callable[..., object], window_dimensions: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Sequence[int]], source: ArrayLike, init_value: ArrayLike, scatter: Graph | Callable[..., object]) -> Array:
    """Combine values into an array at the selected elements of a sliding window."""

def send(operand: ArrayLike, handle: int, token: object = ...) -> Any:
    """Send to the recv on the channel in another program, and wait until it is taken."""

def send_done(context: object) -> Any:
    """Raise an error: `send` includes it; only dumps contain it separately."""

def send_to_host(operand: ArrayLike, token: object, shape_with_layout: Shape | None, handle: int) -> Any:
    """Send to the host on a channel, after `token`; return a token. XLA: SendToHost."""

def send_with_tokens(operand: ArrayLike, token: object, handle: int) -> Any:
    """Run `send` after `token`; return a token. XLA: SendWithTokens."""

def set_dimension_size(operand: ArrayLike, val: ArrayLike, dimension: int) -> Array:
    """Keep the first `val` elements of a dimension. XLA: SetDimensionSize."""

def shift_left(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Shift the bits of lhs left by rhs, filling with zeros. XLA: ShiftLeft."""

def shift_right_arithmetic(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Shift the bits of lhs right by rhs, repeating the sign bit. XLA: ShiftRightArithmetic."""

def shift_right_logical(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Shift the bits of lhs right by rhs, filling with zeros. XLA: ShiftRightLogical."""

def sign(operand: ArrayLike) -> Array:
    """Element-wise sign: -1, 0 or 1; zeros (-0 too) and NaNs are kept. XLA: Sign."""

def sin(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Sine. XLA: Sin."""

def sinh(operand: ArrayLike) -> Array:
    """Hyperbolic sine. XLA: Sinh (chlo)."""

def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = ...) -> Array:
    """Extract a box, taking every strides[d]-th element of dimension d. XLA: Slice."""

def slice_in_dim(operand: ArrayLike, start: int, limit: int, dimension: int, stride: int = ...) -> Array:
    """Slice one dimension to the indices [start, limit), taking every `stride`-th of them."""

def softmax(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Compute exp(x) divided by its sum along dimensions, without overflow. JAX: nn.softmax."""

def sort(operands: ArrayLike | Sequence[ArrayLike], comparator: Graph | Callable[..., object], dimension: int = ..., is_stable: bool = ...) -> Any:
    """Sort the elements of N arrays along a dimension by a comparator. XLA: Sort."""

def sqrt(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Square root; the complex root has real part >= 0. XLA: Sqrt."""

def sub(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Element-wise difference; integers wrap. XLA: Sub."""

def svd(a: ArrayLike, full_matrices: bool = ..., vectors: bool = ...) -> Any:
    """Singular value decomposition of matrices: a = u diag(s) vh. JAX: lax.linalg.svd."""

def tan(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Tangent. XLA: Tan."""

def tanh(operand: ArrayLike, result_accuracy: Any = ...) -> Array:
    """Hyperbolic tangent. XLA: Tanh."""

def threefry2x32(key_0: ArrayLike, key_1: ArrayLike, block_0: ArrayLike, block_1: ArrayLike, of_keys: bool = ..., is_loop: bool = ...) -> Any:
    """Encrypt blocks of two words under keys of two words with Threefry-2x32-20."""

def top_k(operand: ArrayLike, k: int, largest: bool = ...) -> Any:
    """Find the k largest or smallest elements of the last dimension and their indices. XLA: TopK."""

def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute the dimensions. XLA: Transpose."""

def triangular_solve(a: ArrayLike, b: ArrayLike, left_side: bool, lower: bool, unit_diagonal: bool = ..., transpose_a: str = ...) -> Array:
    """Solve op(a) x = b, or x op(a) = b, for triangular matrices a. XLA: TriangularSolve."""

def tuple(elements: Sequence[object]) -> Any:
    """Combine values of any shapes into one tuple value; Python tuples nest. XLA: Tuple."""

def while_(condition: Graph | Callable[..., object], body: Graph | Callable[..., object], init: object) -> Any:
    """Run `body` on the loop's values while `condition` holds. XLA: While."""

def xor(lhs: ArrayLike, rhs: ArrayLike, broadcast_dimensions: Sequence[int] | None = ...) -> Array:
    """Bitwise XOR; logical XOR for pred. XLA: Xor."""

def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz zeta function: the sum of (q + k)**-x over k >= 0. XLA: Zeta (chlo)."""

