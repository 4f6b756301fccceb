"""Building blocks of neural networks: activations, normalisation, convolution, pooling, losses.

Functions that `jax.nn` has too take its arguments and give its results.
"""

# ruff: noqa: F401, F403 - `offered` says what is offered

import sys as _sys
from pathlib import Path as _Path

from jax.nn import get_scaled_dot_general_config, scaled_dot_general

from minixla.core import docstrings as _docstrings
from minixla.nn import initializers
from minixla.nn.activations import *
from minixla.nn.layers import *
from minixla.nn.soft_functions import *
from minixla.numpy import tanh
from minixla.numpy.element_functions import offered

_ALSO = ("initializers", "tanh", "get_scaled_dot_general_config", "scaled_dot_general")
__all__ = offered(globals(), _ALSO)  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_TEXTS = _Path(__file__).with_name("docstrings.txt")
_docstrings.complete(__name__, [_sys.modules[__name__]], _TEXTS, "JAX: `jax.nn.{}`.")


def __dir__() -> list[str]:
    return sorted(__all__)
