"""Functions of JAX for tests of imported programs, with points at which both arms are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax.scipy import special, stats

#: A function of vectors, and a vector for each argument.
Row = tuple[Callable[..., Any], Sequence[Any]]


def points(*values: float) -> np.ndarray:
    """Return 20 points: the values, and between the least and the greatest ones."""
    least, most = min(values), max(values)
    sizes = np.geomspace(1e-6, max(abs(least), abs(most)), 10)
    between = [x for x in (*sizes, *-sizes[::-1]) if least < x < most]
    spread = np.interp(np.linspace(0, 1, 20), np.linspace(0, 1, len(between)), between)
    return np.float32([*values, *spread])[:20]


LINE = points(-87.0, -30.0, -9.5, -1.5, -1e-4, 1e-4, 0.3, 2.5, 9.5, 30.0, 87.0)
WIDE = points(-1e30, -1e4, -30.0, -1.5, -1e-4, 1e-4, 0.3, 2.5, 30.0, 1e4, 1e30)
MILD = points(-9.0, -4.5, -2.5, -1.5, -0.7, -1e-4, 1e-4, 0.3, 0.7, 1.5, 2.5, 4.5, 9.0)
RIGHT = points(1e-30, 1e-4, 0.3, 0.9, 1.1, 2.5, 9.5, 30.0, 1e4, 1e30)
SHORT = points(1e-4, 0.3, 0.9, 1.1, 2.5, 5.5, 9.5, 30.0, 80.0)
UNIT = points(-0.9999, -0.9, -0.5, -0.1, -1e-4, 1e-4, 0.1, 0.5, 0.9, 0.9999)
PART = points(1e-6, 1e-4, 0.01, 0.1, 0.3, 0.499, 0.501, 0.7, 0.9, 0.99, 0.9999)
ABOVE = points(1.0001, 1.1, 1.5, 2.5, 9.5, 30.0, 1e4, 1e30)
HALVES = (np.arange(20) * 0.7 + 0.35).astype(np.float32)

#: By name; `lax.x` stands for `jax.lax.x` and so on.
ROWS: dict[str, Row] = {
    **{
        f"lax.{name}": (getattr(lax, name), [LINE])
        for name in [
            "abs",
            "asinh",
            "atan",
            "cbrt",
            "cos",
            "cosh",
            "erf",
            "erfc",
            "exp",
            "expm1",
            "logistic",
            "neg",
            "sign",
            "sin",
            "sinh",
            "square",
            "tan",
            "tanh",
            "bessel_i0e",
            "bessel_i1e",
            "ceil",
            "floor",
            "round",
            "exp2",
        ]
    },
    **{
        f"lax.{name} far": (getattr(lax, name), [WIDE])
        for name in ["asinh", "atan", "cbrt", "tanh", "erf", "logistic"]
    },
    **{f"lax.{name}": (getattr(lax, name), [RIGHT]) for name in ["log", "log1p", "sqrt", "rsqrt"]},
    **{f"lax.{name}": (getattr(lax, name), [SHORT]) for name in ["digamma", "lgamma"]},
    **{
        f"lax.{name}": (getattr(lax, name), [UNIT]) for name in ["acos", "asin", "atanh", "erf_inv"]
    },
    "lax.acosh": (lax.acosh, [ABOVE]),
    "lax.reciprocal": (lambda x: lax.reciprocal(x), [WIDE]),
    "lax.integer_pow": (lambda x: lax.integer_pow(x, -3), [MILD]),
    "lax.atan2": (lax.atan2, [MILD, MILD[::-1] + 0.1]),
    "lax.pow": (lax.pow, [SHORT, MILD]),
    "lax.rem": (lax.rem, [MILD, HALVES]),
    "lax.div": (lax.div, [MILD, MILD[::-1]]),
    "lax.max": (lax.max, [MILD, HALVES]),
    "lax.min": (lax.min, [MILD, HALVES]),
    "lax.clamp": (lambda x: lax.clamp(-1.0, x, 2.0), [MILD]),
    "lax.igamma": (lax.igamma, [HALVES, SHORT]),
    "lax.igammac": (lax.igammac, [HALVES, SHORT]),
    "lax.betainc": (
        lambda x: lax.betainc(jnp.full_like(x, 2.5), jnp.full_like(x, 0.7), x),
        [PART],
    ),
    "lax.cumsum": (lambda x: lax.cumsum(x), [MILD]),
    "lax.cumprod": (lambda x: lax.cumprod(x), [HALVES / 5]),
    "lax.cummax": (lambda x: lax.cummax(x), [np.sin(HALVES)]),
    "lax.cumlogsumexp": (lambda x: lax.cumlogsumexp(x), [MILD]),
    "lax.polygamma": (lambda x: lax.polygamma(2.0 * jnp.ones_like(x), x), [SHORT]),
    "lax.select": (lambda x: lax.select(x > 0, jnp.sqrt(x), x * x), [LINE]),
    **{
        f"special.{name}": (getattr(special, name), [LINE])
        for name in ["expit", "log_ndtr", "ndtr", "erf", "erfc", "i0e", "i1e", "i0", "i1"]
    },
    **{
        f"special.{name}": (getattr(special, name), [SHORT])
        for name in ["digamma", "gammaln", "entr", "spence", "dawsn", "erfcx", "loggamma"]
    },
    **{f"special.{name}": (getattr(special, name), [PART]) for name in ["logit", "ndtri"]},
    **{f"special.{name}": (getattr(special, name), [HALVES]) for name in ("gamma", "factorial")},
    "special.boxcox": (lambda x: special.boxcox(x, 0.5), [SHORT]),
    "special.owens_t": (lambda x: special.owens_t(x, 0.5), [MILD]),
    "special.erfinv": (special.erfinv, [UNIT]),
    # Beyond 64 the reverse derivative of its polynomials overflows.
    "special.expi": (
        special.expi,
        [points(-9.0, -2.5, -0.7, -1e-4, 1e-4, 0.7, 2.5, 5.0, 9.0, 20.0, 40.0)],
    ),
    "special.expn": (lambda x: special.expn(2, x), [SHORT]),
    # From 8.02 on its program is a constant.
    "special.fresnel": (special.fresnel, [MILD * 0.8]),
    "special.sici": (special.sici, [MILD]),
    "special.beta": (special.beta, [HALVES, HALVES[::-1]]),
    "special.betaln": (special.betaln, [HALVES, HALVES[::-1]]),
    "special.gammainc": (special.gammainc, [HALVES, SHORT]),
    "special.kl_div": (special.kl_div, [HALVES, HALVES[::-1]]),
    "special.rel_entr": (special.rel_entr, [HALVES, HALVES[::-1]]),
    "special.xlogy": (special.xlogy, [MILD, SHORT]),
    "special.xlog1py": (special.xlog1py, [MILD, SHORT]),
    "special.poch": (special.poch, [HALVES, HALVES[::-1] / 5]),
    "special.multigammaln": (lambda x: special.multigammaln(x, 3), [HALVES + 1]),
    "special.polygamma": (lambda x: special.polygamma(1, x), [SHORT]),
    "special.zeta": (lambda q: special.zeta(3.0, q), [SHORT]),
    "special.hyp1f1": (special.hyp1f1, [HALVES, HALVES[::-1], UNIT]),
    "special.hyp2f1": (lambda x: special.hyp2f1(0.5, 1.5, 2.5, x), [UNIT * 0.8]),
    "special.logsumexp": (special.logsumexp, [LINE]),
    "special.softmax": (special.softmax, [LINE]),
    "special.log_softmax": (special.log_softmax, [LINE]),
    "stats.norm.logcdf": (stats.norm.logcdf, [np.concatenate([LINE[:19], np.float32([1e-5])])]),
    **{
        f"nn.{name}": (getattr(nn, name), [LINE])
        for name in [
            "celu",
            "elu",
            "gelu",
            "hard_sigmoid",
            "hard_silu",
            "hard_tanh",
            "leaky_relu",
            "log_sigmoid",
            "log_softmax",
            "mish",
            "relu",
            "relu6",
            "selu",
            "sigmoid",
            "silu",
            "soft_sign",
            "softmax",
            "softplus",
            "sparse_plus",
            "sparse_sigmoid",
            "squareplus",
            "standardize",
            "glu",
            "logsumexp",
        ]
    },
    "nn.log1mexp": (nn.log1mexp, [SHORT]),
    "nn.logmeanexp": (nn.logmeanexp, [LINE]),
    "nn.gelu exact": (lambda x: nn.gelu(x, approximate=False), [LINE]),
}

#: Rows whose derivatives compile for seconds.
HEAVY = """lax.betainc, lax.cumlogsumexp, lax.igamma, lax.igammac, lax.polygamma, special.beta,
special.betaln, special.gammainc, special.hyp1f1, special.hyp2f1, special.expn, special.sici,
special.expi, special.polygamma, special.fresnel, special.poch, special.owens_t,
special.loggamma, special.zeta""".replace("\n", " ").split(", ")
