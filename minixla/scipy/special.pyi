# Made by `python -m minixla.tools.stubs`.

import builtins
from jax.scipy.special import bernoulli as bernoulli
from jax.scipy.special import bessel_jn as bessel_jn
from jax.scipy.special import comb as comb
from jax.scipy.special import digamma as digamma
from jax.scipy.special import fresnel as fresnel
from jax.scipy.special import gammasgn as gammasgn
from jax.scipy.special import hyp1f1 as hyp1f1
from jax.scipy.special import hyp2f1 as hyp2f1
from jax.scipy.special import log_softmax as log_softmax
from jax.scipy.special import loggamma as loggamma
from jax.scipy.special import logsumexp as logsumexp
from jax.scipy.special import multigammaln as multigammaln
from jax.scipy.special import owens_t as owens_t
from jax.scipy.special import poch as poch
from jax.scipy.special import sici as sici
from jax.scipy.special import softmax as softmax
from jax.scipy.special import sph_harm_y as sph_harm_y
from jax.scipy.special import wofz as wofz
from minixla.typing import Array
from minixla.typing import ArrayLike
from typing import Any

__all__: list[str]

def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, gamma(a) gamma(b) / gamma(a + b). SciPy: special.beta."""

def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function I(a, b, x). SciPy: special.betainc."""

def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of abs(beta(a, b)). SciPy: special.betaln."""

def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x**lmbda - 1) / lmbda, log(x) where lmbda is 0. SciPy: special.boxcox."""

def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """((1 + x)**lmbda - 1) / lmbda, log(1 + x) where lmbda is 0. SciPy: special.boxcox1p."""

def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, exp(-x**2) times that of exp(t**2) from 0 to x. SciPy: special.dawsn."""

def entr(x: ArrayLike) -> Array:
    """-x log(x), 0 where x is 0, -inf where it is below. SciPy: special.entr."""

def erf(x: ArrayLike) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x. SciPy: special.erf."""

def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), right in its last digits far out, too. SciPy: special.erfc."""

def erfcx(x: ArrayLike) -> Array:
    """exp(x * x) erfc(x). SciPy: special.erfcx."""

def erfinv(x: ArrayLike) -> Array:
    """The inverse of erf. SciPy: special.erfinv."""

def exp1(x: ArrayLike) -> Array:
    """The exponential integral of exp(-t) / t from x >= 0 on. SciPy: special.exp1."""

def expi(x: ArrayLike) -> Array:
    """The exponential integral of exp(t) / t from -inf to x. SciPy: special.expi."""

def expit(x: ArrayLike) -> Array:
    """The logistic function, 1 / (1 + exp(-x)). SciPy: special.expit."""

def expn(n: Any, x: ArrayLike) -> Array:
    """The exponential integral of x**(n - 1) exp(-t) / t**n from x on. SciPy: special.expn."""

def factorial(n: Any, exact: bool = ...) -> Array:
    """gamma(n + 1), 0 where n < 0; rounded where n is whole. SciPy: special.factorial."""

def gamma(x: ArrayLike) -> Array:
    """The gamma function; infinite at 0, NaN at negative whole numbers. SciPy: special.gamma."""

def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function P(a, x). SciPy: special.gammainc."""

def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function Q(a, x). SciPy: special.gammaincc."""

def gammaln(x: ArrayLike) -> Array:
    """The logarithm of abs(gamma(x)), right in its last digits at its zeros 1 and 2, too."""

def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0. SciPy: special.i0."""

def i0e(x: ArrayLike) -> Array:
    """I0(x) exp(-|x|), the scaled modified Bessel function of order 0. SciPy: special.i0e."""

def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1. SciPy: special.i1."""

def i1e(x: ArrayLike) -> Array:
    """I1(x) exp(-|x|), the scaled modified Bessel function of order 1. SciPy: special.i1e."""

def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """P log(p / q) - p + q, nowhere below 0. SciPy: special.kl_div."""

def log_ndtr(x: ArrayLike, series_order: int = ...) -> Array:
    """The logarithm of the normal distribution's cumulative function. SciPy: special.log_ndtr."""

def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), right in its last digits where it is small. SciPy: special.logit."""

def ndtr(x: ArrayLike) -> Array:
    """The normal distribution's cumulative function. SciPy: special.ndtr."""

def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr. SciPy: special.ndtri."""

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma. SciPy: special.polygamma."""

def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """P log(p / q) where both are > 0, 0 where p is 0 <= q, else inf. SciPy: special.rel_entr."""

def spence(x: ArrayLike) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x >= 0. SciPy: special.spence."""

def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """X log(1 + y), 0 where x is 0. SciPy: special.xlog1py."""

def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """X log(y), 0 where x is 0. SciPy: special.xlogy."""

def zeta(x: ArrayLike, q: ArrayLike | None = ...) -> Array:
    """Hurwitz's zeta function, the sum over k >= 0 of (q + k)**-x. SciPy: special.zeta."""

