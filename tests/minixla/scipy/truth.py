"""Writes truth.txt: special functions at chosen operands, to 25 digits, by mpmath.

`python -m tests.minixla.scipy.truth` needs mpmath, which the tests do without. Operands are numbers
of f32, so that the same values are the truth for both types; those of `_DOUBLES` in f64 besides.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath  # pyright: ignore[reportMissingImports]  # only to write the file anew
import numpy as np

from tests.minixla.scipy.accuracy import TRUTH

mpmath.mp.dps = 60
_COUNT = 60
# What squares operands: squares of numbers of f32 are exact in f64.
_DOUBLES = ("erfc", "ndtr", "log_ndtr")
Operands = tuple[Any, ...]


class _Draws:
    def __init__(self, name: str) -> None:
        self.generator = np.random.default_rng(zlib.crc32(name.encode()))

    def powers(self, low: float, high: float) -> Any:
        return 10 ** self.generator.uniform(low, high, _COUNT)

    def between(self, low: float, high: float) -> Any:
        return self.generator.uniform(low, high, _COUNT)

    def orders(self, low: int, high: int) -> Any:
        return self.generator.integers(low, high, _COUNT).astype(float)

    def both(self, *parts: Any) -> Any:
        joined = np.concatenate(parts)
        return np.concatenate([joined, -joined])

    def around(self, low: float, high: float) -> Operands:
        """Parameters of the gamma distribution and numbers near its mean."""
        a = self.powers(low, high)
        return a, a * np.exp(self.generator.normal(size=_COUNT) / np.sqrt(np.maximum(a, 0.3)))

    def beta(self) -> Operands:
        """Parameters of the beta distribution and numbers near its mean."""
        a, b = self.powers(-2, 4), self.powers(-2, 4)
        mean = a / (a + b)
        spread = np.sqrt(mean * (1 - mean) / (a + b + 1))
        x = mean + 2 * spread * self.generator.normal(size=_COUNT)
        return a, b, np.clip(x, 1e-4, 1 - 1e-4)


def _cumulative(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _log_cumulative(x: Any) -> Any:
    return mpmath.log1p(-_cumulative(-x)) if x > 0 else mpmath.log(_cumulative(x))


def _lower(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def _upper(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


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
    "polygamma": (lambda n, x: mpmath.psi(int(n), x), lambda d: (d.orders(0, 6), d.powers(-2, 3))),
    "zeta": (mpmath.zeta, lambda d: (1 + d.powers(-2, 1), d.powers(-2, 2))),
    "erf": (mpmath.erf, lambda d: d.both(d.powers(-8, 0.9))),
    "erfc": (
        mpmath.erfc,
        lambda d: np.r_[d.both(d.powers(-8, 0.3)), d.between(-6, 9), d.between(9, 26)],
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
    "rel_entr": (_sum, lambda d: (d.powers(-3, 3), d.powers(-3, 3))),
    "kl_div": (lambda p, q: _sum(p, q) - p + q, lambda d: (d.powers(-1, 0), d.powers(-1, 0))),
}


def main() -> None:
    """Writes the file."""
    lines = []
    for name, (truth, draw) in _ROWS.items():
        drawn = draw(_Draws(name))
        columns = drawn if isinstance(drawn, tuple) else (drawn,)
        narrow = [np.float32(each) for each in columns]
        wide = [np.float64(each) for each in columns] if name in _DOUBLES else narrow[:0]
        for row in [*zip(*narrow, strict=True), *zip(*wide, strict=True)]:
            value = truth(*[mpmath.mpf(float(each)) for each in row])
            shown = [repr(float(each)) for each in row]
            if mpmath.isfinite(value):
                lines.append(" ".join([name, *shown, mpmath.nstr(mpmath.re(value), 25)]))
    Path(TRUTH).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
