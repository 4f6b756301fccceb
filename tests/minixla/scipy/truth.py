"""Writes truth.txt: special functions at chosen operands, to 20 digits, by mpmath.

`python -m tests.minixla.scipy.truth` needs mpmath, which the tests do without. Operands are numbers
of f32, so that the same values are the truth for both types; those of `_DOUBLES` in f64 besides.
Some are drawn; of many more those are taken at which ours or JAX's are worst, in f32 by what ours
are in f64, in f64 by how far ours are from JAX's and SciPy's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.scipy.special
import mpmath  # pyright: ignore[reportMissingImports]  # only to write the file anew
import numpy as np
import scipy.special

import minixla as mx
from tests.minixla.scipy.accuracy import ENDLESS, TRUTH, steps, with_orders

mpmath.mp.dps = 60
#: How many operands of each sort are drawn, are drawn to search the worst, and are the worst.
_COUNT, _MANY, _WORST = 80, 60_000, 24
# What squares operands: squares of numbers of f32 are exact in f64.
_DOUBLES = ("erfc", "erfcx", "ndtr", "log_ndtr")
#: Operands at which errors were found that few draws show.
_FOUND = {
    "betaln": [(0.45316005, 4.6601534)],
    "gammaln": [(-2.7478015,)],
    "digamma": [(1.4616387,)],
    "gammainc": [(42.756573, 5.7618146)],
    "gammaincc": [(1978.541, 2263.4587)],
    "betainc": [(415.42725, 119.959366, 0.51632947)],
    "beta": [(19.09708, 19.906569)],
    "zeta": [(20.660666, 58.569233), (12.140365, 63.556446)],
    "expi": [(0.37259325,)],
    "ndtr": [(-11.662972,)],
    "erfc": [(8.494056,)],
    "i1": [(-7.507301,)],
    "polygamma": [(6, 511.41116)],
    "i1e": [(7.809941,)],
    "erf": [(-3.8202264,)],
    "gamma": [(-18.955427,)],
}
Operands = tuple[Any, ...]


class _Draws:
    def __init__(self, name: str, count: int) -> None:
        self.generator = np.random.default_rng(zlib.crc32(name.encode()))
        self.count = count

    def powers(self, low: float, high: float) -> Any:
        return 10 ** self.generator.uniform(low, high, self.count)

    def between(self, low: float, high: float) -> Any:
        return self.generator.uniform(low, high, self.count)

    def orders(self, low: int, high: int) -> Any:
        return self.generator.integers(low, high, self.count).astype(float)

    def both(self, *parts: Any) -> Any:
        joined = np.concatenate(parts)
        return np.concatenate([joined, -joined])

    def around(self, low: float, high: float) -> Operands:
        """Parameters of the gamma distribution, numbers near its mean and far from it."""
        a, wide = self.powers(low, high), self.generator.choice([1, 4], self.count)
        spread = wide / np.sqrt(np.maximum(a, 0.3))
        return a, a * np.exp(self.generator.normal(size=self.count) * spread)

    def beta(self) -> Operands:
        """Parameters of the beta distribution and numbers near its mean."""
        a, b = self.powers(-2, 4), self.powers(-2, 4)
        mean = a / (a + b)
        spread = np.sqrt(mean * (1 - mean) / (a + b + 1))
        x = mean + 2 * spread * self.generator.normal(size=self.count)
        return a, b, np.clip(x, 1e-4, 1 - 1e-4)


def _cumulative(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _log_cumulative(x: Any) -> Any:
    return mpmath.log1p(-_cumulative(-x)) if x > 0 else mpmath.log(_cumulative(x))


def _lower(a: Any, x: Any) -> Any:
    return _by_terms(a, x, lambda: mpmath.gammainc(a, 0, x, regularized=True), lambda p: p)


def _upper(a: Any, x: Any) -> Any:
    inf = mpmath.inf
    return _by_terms(a, x, lambda: mpmath.gammainc(a, x, inf, regularized=True), lambda p: 1 - p)


def _by_terms(a: Any, x: Any, usual: Any, of_lower: Any) -> Any:
    """An incomplete gamma function, of the series of the lower one if the usual way gives up."""
    try:
        return usual()
    except mpmath.mp.NoConvergence:
        with mpmath.workdps(400):
            series = mpmath.hyp1f1(1, a + 1, x, maxterms=10**7)
            return of_lower(series * mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1)))


def _log_beta(a: Any, b: Any) -> Any:
    return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def _sum(p: Any, q: Any) -> Any:
    return p * mpmath.log(p / q)


# By name: the truth and operands.
_ROWS: dict[str, tuple[Callable[..., Any], Callable[[_Draws], Any]]] = {
    "gamma": (mpmath.gamma, lambda d: np.r_[d.powers(-8, 1.5), d.between(-30, 34)]),
    "factorial": (mpmath.factorial, lambda d: np.r_[np.arange(33.0), d.between(0, 33)]),
    "gammaln": (
        lambda x: mpmath.log(abs(mpmath.gamma(x))),
        lambda d: np.r_[d.powers(-8, 4), d.between(0.5, 3.5), d.between(-20, 20)],
    ),
    "digamma": (mpmath.digamma, lambda d: np.r_[d.powers(-8, 4), d.between(-20, 20)]),
    "beta": (mpmath.beta, lambda d: (d.powers(-2, 1.5), d.powers(-2, 1.5))),
    "betaln": (_log_beta, lambda d: (d.powers(-4, 8), d.powers(-4, 8))),
    "gammainc": (_lower, lambda d: d.around(-3, 6)),
    "gammaincc": (_upper, lambda d: d.around(-3, 6)),
    "betainc": (lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True), _Draws.beta),
    "polygamma": (lambda n, x: mpmath.psi(int(n), x), lambda d: (d.orders(0, 8), d.powers(-2, 3))),
    "zeta": (mpmath.zeta, lambda d: (1 + d.powers(-2, 1.4), d.powers(-2, 2))),
    "erf": (mpmath.erf, lambda d: d.both(d.powers(-8, 0.9))),
    "erfc": (
        mpmath.erfc,
        lambda d: np.r_[d.both(d.powers(-8, 0.3)), d.between(-6, 9), d.between(9, 26)],
    ),
    "erfcx": (
        lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
        lambda d: np.r_[d.both(d.powers(-8, 0.3)), d.between(-9, 12), d.powers(1, 9)],
    ),
    "erfinv": (mpmath.erfinv, lambda d: d.both(d.powers(-8, 0), 1 - d.powers(-6.8, -0.3))),
    "ndtr": (
        _cumulative,
        lambda d: np.r_[d.both(d.powers(-8, 0.5)), d.between(-12, 6), d.between(-37, -12)],
    ),
    "log_ndtr": (
        _log_cumulative,
        lambda d: np.r_[d.between(-13, 12), -d.powers(1, 4), d.powers(-8, 0), d.between(12, 37)],
    ),
    "logit": (
        lambda x: mpmath.log(x / (1 - x)),
        lambda d: np.r_[d.powers(-30, 0), d.between(0.4, 0.6)],
    ),
    "i0": (lambda x: mpmath.besseli(0, x), lambda d: d.both(d.powers(-4, 1.9))),
    "i1": (lambda x: mpmath.besseli(1, x), lambda d: d.both(d.powers(-4, 1.9))),
    "i0e": (
        lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
        lambda d: d.both(d.powers(-4, 3)),
    ),
    "i1e": (
        lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
        lambda d: d.both(d.powers(-4, 3)),
    ),
    "exp1": (mpmath.e1, lambda d: d.powers(-3, 1.9)),
    "expi": (mpmath.ei, lambda d: np.r_[d.both(d.powers(-8, 1.94)), d.between(88, 700)]),
    "expn": (lambda n, x: mpmath.expint(int(n), x), lambda d: (d.orders(0, 12), d.powers(-2, 1.9))),
    "entr": (lambda x: -x * mpmath.log(x), lambda d: np.r_[d.powers(-30, 3), d.between(0, 2)]),
    "rel_entr": (_sum, lambda d: (d.powers(-3, 3), d.powers(-3, 3))),
    "kl_div": (lambda p, q: _sum(p, q) - p + q, lambda d: (d.powers(-1, 0), d.powers(-1, 0))),
}


def _columns(name: str, count: int, kind: Any) -> list[Any]:
    drawn = _ROWS[name][1](_Draws(name, count))
    return [each.astype(kind) for each in (drawn if isinstance(drawn, tuple) else (drawn,))]


def _result(module: Any, jit: Any, name: str, columns: list[Any], kind: Any) -> Any:
    with jax.enable_x64(kind is np.float64):
        return np.asarray(jit(getattr(module, name))(*with_orders(name, columns, kind)))


def _worst(name: str, kind: Any) -> list[Any]:
    """Operands at which results differ most, of many."""
    theirs = [] if name in ENDLESS else [(jax.scipy.special, jax.jit)]
    modules = [(mx.scipy.special, mx.jit), *theirs]
    columns = _columns(name, _MANY, kind if name in _DOUBLES else np.float32)
    truth = _result(*modules[0], name, columns, np.float64).astype(np.longdouble)
    if kind is np.float32:
        others = [_result(*each, name, columns, kind) for each in modules]
    else:
        others = [_result(*each, name, columns, kind) for each in modules[1:]]
        others.append(getattr(scipy.special, name)(*columns))
    found = []
    for each in others:
        apart = steps(name, each, columns, truth, kind)
        at = np.argsort(np.where(np.isinf(apart), 0, apart))[-_WORST:]
        found += zip(*[column[at] for column in columns], strict=True)
    return found


def main() -> None:
    """Writes the file."""
    lines = []
    for name, (truth, _) in _ROWS.items():
        for kind in (np.float32, np.float64):
            is_wide = kind is np.float64
            is_apart = name in _DOUBLES and is_wide
            rows = [] if is_apart != is_wide else [*zip(*_columns(name, _COUNT, kind), strict=True)]
            rows += [] if is_wide else [tuple(map(kind, each)) for each in _FOUND.get(name, [])]
            rows += _worst(name, kind)
            shown = []
            for row in dict.fromkeys(rows):
                value = truth(*[mpmath.mpf(float(each)) for each in row])
                if mpmath.isfinite(value):
                    value = mpmath.nstr(mpmath.re(value), 20)
                    shown.append(" ".join([*map(str, row), value]))
            lines += [f"{name} {64 if is_apart else 32}", *shown]
            print(name, kind.__name__, len(shown), flush=True)
    Path(TRUTH).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
