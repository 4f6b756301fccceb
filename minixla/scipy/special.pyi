# Made by `python -m minixla.tools.stubs`.

import builtins
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import Axis
from typing import Any
from typing import overload

__all__: list[str]

def bernoulli(n: Any) -> Array:
    """Generate the first N Bernoulli numbers."""

def bessel_jn(z: ArrayLike, *, v: ArrayLike, n_iter: Any = ...) -> Array:
    """Bessel function of the first kind of integer order and real argument."""

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

def comb(N: ArrayLike, k: ArrayLike, *, repetition: Any = ...) -> Array:
    """The number of combinations of N things taken k at a time ("N choose k")."""

def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, exp(-x**2) times that of exp(t**2) from 0 to x. SciPy: special.dawsn."""

def digamma(x: ArrayLike) -> Array:
    """The digamma function."""

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

def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals."""

def gamma(x: ArrayLike) -> Array:
    """The gamma function; infinite at 0, NaN at negative whole numbers. SciPy: special.gamma."""

def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function P(a, x). SciPy: special.gammainc."""

def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function Q(a, x). SciPy: special.gammaincc."""

def gammaln(x: ArrayLike) -> Array:
    """The logarithm of abs(gamma(x)), right in its last digits at its zeros 1 and 2, too."""

def gammasgn(x: ArrayLike) -> Array:
    """Sign of the gamma function."""

def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The 1F1 hypergeometric function."""

def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """The 2F1 hypergeometric function."""

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

def log_softmax(x: ArrayLike, /, *, axis: Axis = ...) -> Array:
    """Log-Softmax function."""

def loggamma(x: ArrayLike) -> Array:
    """Principal branch of the logarithm of the gamma function."""

def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), right in its last digits where it is small. SciPy: special.logit."""

@overload
def logsumexp(a: ArrayLike, axis: Axis = ..., b: ArrayLike | None = ..., keepdims: bool = ..., where: ArrayLike | None = ...) -> Array:
    """Log-sum-exp reduction."""

@overload
def logsumexp(a: ArrayLike, axis: Axis = ..., b: ArrayLike | None = ..., keepdims: bool = ..., return_sign: Any = ..., where: ArrayLike | None = ...) -> Any:
    """Log-sum-exp reduction."""

def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The natural log of the multivariate gamma function."""

def ndtr(x: ArrayLike) -> Array:
    """The normal distribution's cumulative function. SciPy: special.ndtr."""

def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr. SciPy: special.ndtri."""

def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function."""

def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The Pochammer symbol."""

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma. SciPy: special.polygamma."""

def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """P log(p / q) where both are > 0, 0 where p is 0 <= q, else inf. SciPy: special.rel_entr."""

def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Sine and cosine integrals."""

def softmax(x: ArrayLike, /, *, axis: Axis = ...) -> Array:
    """Softmax function."""

def spence(x: ArrayLike) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x >= 0. SciPy: special.spence."""

def sph_harm_y(n: Any, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: Any = ..., n_max: Any = ...) -> Array:
    """Computes the spherical harmonics."""

def wofz(z: ArrayLike) -> Array:
    """Faddeeva function."""

def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """X log(1 + y), 0 where x is 0. SciPy: special.xlog1py."""

def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """X log(y), 0 where x is 0. SciPy: special.xlogy."""

def zeta(x: ArrayLike, q: ArrayLike | None = ...) -> Array:
    """Hurwitz's zeta function, the sum over k >= 0 of (q + k)**-x. SciPy: special.zeta."""

