"""Random numbers: JAX's functions (`jax.random`), bit for bit.

See docs/random.md.
"""

# ruff: noqa: F403 - `offered` says what is offered

import sys as _sys
from pathlib import Path as _Path
from typing import Any as _Any

from minixla.core import docstrings as _docstrings
from minixla.interop.jax_table import functions_of
from minixla.numpy.element_functions import offered
from minixla.random.continuous import *
from minixla.random.discrete import *
from minixla.random.gammas import *
from minixla.random.keys import *
from minixla.random.sampling import of_any_key

# What programs use less is JAX's own code.
_TABLE = "ball binomial chisquare double_sided_maxwell f generalized_normal geometric maxwell"
_TABLE += " multinomial multivariate_normal orthogonal pareto poisson rayleigh t triangular wald"
_TABLE += " weibull_min"
_JAXS: dict[str, _Any] = functions_of("jax.random", _TABLE.split())
for _name in ("ball", "generalized_normal"):
    _JAXS[_name].traced = ("p",)  # which JAX traces, too
for _name in ("maxwell", "double_sided_maxwell"):
    # There Threefry's rounds are a loop. Written out, XLA:CPU fuses them with the sum of squares,
    # and rounds that otherwise than in JAX's own programs.
    _JAXS[_name].platform = "cpu"
_FOUND = {name: of_any_key(each) for name, each in _JAXS.items()}
ball, binomial, chisquare = _FOUND["ball"], _FOUND["binomial"], _FOUND["chisquare"]
double_sided_maxwell, f, geometric = (
    _FOUND["double_sided_maxwell"],
    _FOUND["f"],
    _FOUND["geometric"],
)
generalized_normal, maxwell = _FOUND["generalized_normal"], _FOUND["maxwell"]
multinomial, multivariate_normal = _FOUND["multinomial"], _FOUND["multivariate_normal"]
orthogonal, pareto, poisson = _FOUND["orthogonal"], _FOUND["pareto"], _FOUND["poisson"]
rayleigh, t, triangular = _FOUND["rayleigh"], _FOUND["t"], _FOUND["triangular"]
wald, weibull_min = _FOUND["wald"], _FOUND["weibull_min"]

__all__ = offered(globals(), hidden=["drawing", "implementations", "sampling"])  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_TEXTS = _Path(__file__).with_name("docstrings.txt")
_docstrings.complete(__name__, [_sys.modules[__name__]], _TEXTS, "JAX: `jax.random.{}`.")


def __dir__() -> list[str]:
    return sorted(__all__)
