"""Random numbers: JAX's functions (`jax.random`), bit for bit.

See docs/random.md.
"""

# ruff: noqa: F403 - `offered` says what is offered

import sys as _sys
from pathlib import Path as _Path

import jax as _jax

from minixla.core import docstrings as _docstrings
from minixla.numpy.element_functions import offered
from minixla.random.continuous import *
from minixla.random.discrete import *
from minixla.random.gammas import *
from minixla.random.keys import *

#: JAX's functions, exported unchanged.
_OF_JAX = ["ball", "binomial", "chisquare", "double_sided_maxwell", "f", "generalized_normal"]
_OF_JAX += ["geometric", "maxwell", "multinomial", "multivariate_normal", "orthogonal", "pareto"]
_OF_JAX += ["poisson", "random_gamma_p", "rayleigh", "t", "triangular", "wald", "weibull_min"]
globals().update({name: getattr(_jax.random, name) for name in _OF_JAX})

__all__ = offered(globals(), _OF_JAX, ["drawing", "implementations", "sampling"])  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_TEXTS = _Path(__file__).with_name("docstrings.txt")
_docstrings.complete(__name__, [_sys.modules[__name__]], _TEXTS, "JAX: `jax.random.{}`.")


def __dir__() -> list[str]:
    return sorted(__all__)
