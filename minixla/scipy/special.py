"""Special functions: those of jax.scipy.special, some of them our own."""

# ruff: noqa: F401 - the names that are ours

from typing import TYPE_CHECKING, Any

from minixla.interop.jax_modules import all_of_jax
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

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # type checkers do not see JAX's names


__all__ = all_of_jax(globals())  # pyright: ignore[reportUnsupportedDunderAll]  # computed
