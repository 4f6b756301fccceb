"""Building blocks of neural networks: activations, normalisation, convolution, pooling, losses.

Functions that `jax.nn` has too take its arguments and give its results.
"""

# ruff: noqa: F401, F403 - `offered` says what is offered

from minixla.nn.activations import *
from minixla.nn.layers import *
from minixla.nn.soft_functions import *
from minixla.numpy import tanh
from minixla.numpy.element_functions import offered

__all__ = offered(globals(), ["tanh"])  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return sorted(__all__)
