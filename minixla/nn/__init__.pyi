# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Sequence
from jax.nn import get_scaled_dot_general_config as get_scaled_dot_general_config
from jax.nn import initializers as initializers
from jax.nn import scaled_dot_general as scaled_dot_general
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from typing import Any
from typing import overload

__all__: list[str]

def identity(x: ArrayLike) -> Array:
    """The argument, as an array (JAX: nn.identity)."""

def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0; NaN stays NaN (JAX: nn.relu)."""

def relu6(x: ArrayLike) -> Array:
    """The nearest number to x between 0 and 6, with derivative 0 at both (JAX: nn.relu6)."""

def hard_tanh(x: ArrayLike) -> Array:
    """The nearest number to x between -1 and 1, with derivative 1 at both (JAX: nn.hard_tanh)."""

def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6 (JAX: nn.hard_sigmoid)."""

def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x) (JAX: nn.hard_silu)."""

def hard_swish(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x) (JAX: nn.hard_silu)."""

def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = ...) -> Array:
    """Where x >= 0, x; elsewhere negative_slope * x (JAX: nn.leaky_relu)."""

def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow (JAX: nn.softplus)."""

def sigmoid(x: ArrayLike) -> Array:
    """The logistic function, 1 / (1 + exp(-x)) (JAX: nn.sigmoid)."""

def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow (JAX: nn.log_sigmoid)."""

def silu(x: ArrayLike) -> Array:
    """The product x * sigmoid(x) (JAX: nn.silu)."""

def swish(x: ArrayLike) -> Array:
    """The product x * sigmoid(x) (JAX: nn.silu)."""

def mish(x: ArrayLike) -> Array:
    """The product x * tanh(softplus(x)) (JAX: nn.mish)."""

def soft_sign(x: ArrayLike) -> Array:
    """The quotient x / (1 + |x|) (JAX: nn.soft_sign)."""

def elu(x: ArrayLike, alpha: ArrayLike = ...) -> Array:
    """Where x > 0, x; elsewhere alpha * (exp(x) - 1) (JAX: nn.elu)."""

def celu(x: ArrayLike, alpha: ArrayLike = ...) -> Array:
    """Where x > 0, x; elsewhere alpha * (exp(x / alpha) - 1) (JAX: nn.celu)."""

def selu(x: ArrayLike) -> Array:
    """elu, scaled so that it keeps mean 0 and variance 1 (JAX: nn.selu)."""

def gelu(x: ArrayLike, approximate: bool = ...) -> Array:
    """The Gaussian error linear unit, x * Phi(x) (JAX: nn.gelu)."""

def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, and (x + 1)**2 / 4 between (JAX: nn.sparse_plus)."""

def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2, at least 0 and at most 1 (JAX: nn.sparse_sigmoid)."""

def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x >= 0, accurate where x is small or large (JAX: nn.log1mexp)."""

def squareplus(x: ArrayLike, b: ArrayLike = ...) -> Array:
    """(x + sqrt(x**2 + b)) / 2, a smooth relu (JAX: nn.squareplus)."""

def glu(x: ArrayLike, axis: int = ...) -> Array:
    """The first half of x along `axis` times the sigmoid of the second (JAX: nn.glu)."""

def conv(inputs: ArrayLike, kernel: ArrayLike, strides: int | Sequence[int] = ..., padding: str | Sequence[tuple[int, int]] = ..., *, input_dilation: int | Sequence[int] = ..., kernel_dilation: int | Sequence[int] = ..., feature_group_count: int = ..., dimension_numbers: Any = ..., preferred_element_type: DTypeLike | None = ...) -> Array:
    """Convolution (cross-correlation) in any number of spatial dimensions."""

def max_pool(inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = ..., padding: str | Sequence[tuple[int, int]] = ...) -> Array:
    """The largest element of each window."""

def avg_pool(inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = ..., padding: str | Sequence[tuple[int, int]] = ..., count_include_pad: bool = ...) -> Array:
    """The mean of each window."""

def batch_norm(inputs: ArrayLike, scale: ArrayLike, offset: ArrayLike, epsilon: float = ..., axis: int = ...) -> tuple[Array, Array, Array]:
    """Normalisation over the batch, for training (XLA: BatchNormTraining)."""

def batch_norm_inference(inputs: ArrayLike, scale: ArrayLike, offset: ArrayLike, mean: ArrayLike, variance: ArrayLike, epsilon: float = ..., axis: int = ...) -> Array:
    """Normalisation with given moments (XLA: BatchNormInference); see `batch_norm`."""

def layer_norm(inputs: ArrayLike, scale: ArrayLike | None = ..., offset: ArrayLike | None = ..., epsilon: float = ..., axis: int | Sequence[int] | None = ...) -> Array:
    """Normalisation of each example, then scaled and shifted."""

def standardize(x: ArrayLike, axis: int | Sequence[int] | None = ..., mean: ArrayLike | None = ..., variance: ArrayLike | None = ..., epsilon: ArrayLike = ..., where: ArrayLike | None = ..., *, algorithm: str = ...) -> Array:
    """x, shifted and scaled to mean 0 and variance 1 (JAX: nn.standardize)."""

def scaled_matmul(lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike, preferred_element_type: DTypeLike = ...) -> Array:
    """Matrix products of a batch whose elements have a scale for each block (JAX: same name)."""

def softmax(x: ArrayLike, axis: int | Sequence[int] | None = ..., where: ArrayLike | None = ...) -> Array:
    """exp(x) divided by its sum over `axis` (JAX: nn.softmax)."""

def log_softmax(x: ArrayLike, axis: int | Sequence[int] | None = ..., where: ArrayLike | None = ...) -> Array:
    """log(softmax(x)), accurate where softmax underflows (JAX: nn.log_softmax)."""

@overload
def logsumexp(a: ArrayLike, axis: int | Sequence[int] | None = ..., b: ArrayLike | None = ..., keepdims: bool = ..., where: ArrayLike | None = ...) -> Array:
    """log(sum(b * exp(a))) over `axis` (JAX: nn.logsumexp)."""

@overload
def logsumexp(a: ArrayLike, axis: int | Sequence[int] | None = ..., b: ArrayLike | None = ..., keepdims: bool = ..., return_sign: bool = ..., where: ArrayLike | None = ...) -> Any:
    """log(sum(b * exp(a))) over `axis` (JAX: nn.logsumexp)."""

def logmeanexp(x: ArrayLike, axis: int | Sequence[int] | None = ..., where: ArrayLike | None = ..., keepdims: bool = ...) -> Array:
    """log(mean(exp(x))) over `axis`, without overflow (JAX: nn.logmeanexp)."""

@overload
def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = ..., mask: ArrayLike | None = ..., *, scale: float | None = ..., is_causal: bool = ..., query_seq_lengths: ArrayLike | None = ..., key_value_seq_lengths: ArrayLike | None = ..., local_window_size: int | tuple[int, int] | None = ..., implementation: str | None = ...) -> Array:
    """Values, averaged with softmax(query * key) as weights (JAX: nn.dot_product_attention)."""

@overload
def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = ..., mask: ArrayLike | None = ..., *, scale: float | None = ..., is_causal: bool = ..., query_seq_lengths: ArrayLike | None = ..., key_value_seq_lengths: ArrayLike | None = ..., local_window_size: int | tuple[int, int] | None = ..., implementation: str | None = ..., return_residual: bool = ...) -> Any:
    """Values, averaged with softmax(query * key) as weights (JAX: nn.dot_product_attention)."""

def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = ..., axis: int = ...) -> Array:
    """1 at the position that each number names, 0 elsewhere (JAX: nn.one_hot)."""

def cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: int = ...) -> Array:
    """The cross-entropy of softmax(logits) with the labels, one value for each example."""

def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""

