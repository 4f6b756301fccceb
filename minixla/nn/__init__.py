"""Building blocks of neural networks: activations, normalisation, convolution, pooling, losses.

Functions that `jax.nn` has too take its arguments and give its results.
"""

from minixla.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    swish,
)
from minixla.nn.layers import (
    avg_pool,
    batch_norm,
    batch_norm_inference,
    conv,
    layer_norm,
    max_pool,
)
from minixla.nn.losses import cross_entropy, one_hot

__all__ = [
    "avg_pool",
    "batch_norm",
    "batch_norm_inference",
    "conv",
    "cross_entropy",
    "elu",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "one_hot",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
]
