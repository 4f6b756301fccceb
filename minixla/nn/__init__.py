"""Building blocks of neural networks: activations, normalisation, convolution, pooling, losses.

Functions that `jax.nn` has too take its arguments and give its results.
"""

from minixla.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    squareplus,
    swish,
)
from minixla.nn.attention import dot_product_attention
from minixla.nn.losses import cross_entropy, one_hot
from minixla.nn.normalization import batch_norm, batch_norm_inference, layer_norm
from minixla.nn.soft_functions import log_softmax, logsumexp, softmax
from minixla.nn.windows import avg_pool, conv, max_pool
from minixla.numpy import tanh

__all__ = [
    "avg_pool",
    "batch_norm",
    "batch_norm_inference",
    "celu",
    "conv",
    "cross_entropy",
    "dot_product_attention",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "layer_norm",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "squareplus",
    "swish",
    "tanh",
]
