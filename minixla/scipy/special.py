"""The special functions of jax.scipy.special. Functions imported by name here replace JAX's."""

# ruff: noqa: F401, F403 - `__all__` lists the public names

from jax.scipy import special as _special
from jax.scipy.special import *

from minixla.core.source import offer_functions as _offer_functions
from minixla.scipy.bessel_functions import i0, i0e, i1, i1e
from minixla.scipy.error_functions import (
    erf,
    erfc,
    erfcx,
    erfinv,
    expit,
    log_ndtr,
    ndtr,
    ndtri,
)
from minixla.scipy.gamma_functions import (
    beta,
    betaln,
    factorial,
    gamma,
    gammaln,
)
from minixla.scipy.incomplete_functions import betainc, gammainc, gammaincc
from minixla.scipy.other_functions import (
    boxcox,
    boxcox1p,
    dawsn,
    entr,
    exp1,
    expi,
    expn,
    kl_div,
    logit,
    rel_entr,
    spence,
    xlog1py,
    xlogy,
)
from minixla.scipy.zeta_functions import polygamma, zeta

__all__ = [name for name in dir(_special) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]  # computed

_offer_functions("minixla.scipy", __all__)


def __dir__() -> list[str]:
    return __all__
