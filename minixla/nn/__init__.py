"""Building blocks of neural networks: activations, normalization, convolution, pooling, losses.

Functions that also exist in `jax.nn` take the same arguments and return the same results.
"""

# ruff: noqa: F401, F403 - `offered` lists the public names

from jax.nn import get_scaled_dot_general_config, scaled_dot_general

from minixla.core.source import offer_functions as _offer_functions
from minixla.nn import initializers
from minixla.nn.activations import *
from minixla.nn.layers import *
from minixla.nn.soft_functions import *
from minixla.numpy import tanh
from minixla.numpy.element_functions import offered

_ALSO = ("initializers", "tanh", "get_scaled_dot_general_config", "scaled_dot_general")
__all__ = offered(globals(), _ALSO)  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_offer_functions(__name__, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
