"""Random numbers, bit-exact with `jax.random`.

See docs/random.md.
"""

# ruff: noqa: F403 - `offered` lists the public names

from jax.random import *  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.core.source import offer_functions as _offer_functions
from minixla.numpy.element_functions import offered
from minixla.random.continuous import *
from minixla.random.discrete import *
from minixla.random.gammas import *
from minixla.random.keys import *

#: JAX's functions, exported unchanged.
_OF_JAX = ["ball", "binomial", "chisquare", "double_sided_maxwell", "f", "generalized_normal"]
_OF_JAX += ["geometric", "maxwell", "multinomial", "multivariate_normal", "orthogonal", "pareto"]
_OF_JAX += ["poisson", "random_gamma_p", "rayleigh", "t", "triangular", "wald", "weibull_min"]

__all__ = offered(globals(), _OF_JAX, ["drawing", "implementations", "sampling"])  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_offer_functions(__name__, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
