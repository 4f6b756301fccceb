"""Write derivative_truth.txt: functions of one number and two derivatives, to 20 digits, by mpmath.

`python -m tests.minixla.derivative_truth` needs mpmath, which the tests do without. Operands are
numbers of few bits, so that most are exact in every type: 0, powers of 2 from the least to the
largest number of f32, both sides of 1, and numbers at which our formulas change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as m  # pyright: ignore[reportMissingImports]  # only to write the file anew

TRUTH = Path(__file__).with_suffix(".txt")
m.mp.dps = 320

_EXPONENTS = [-126, -100, -63, -40, -30, -24, -20, -14, -10, -7, -5, -3, -2, -1, 0, 1, 2, 3, 4]
_EXPONENTS += [5, 6, 7, 8, 10, 12, 14, 20, 30, 63, 100, 127]
_STEPS = [1 + s * 2.0**-bits for bits in (7, 10, 23, 52) for s in (1, -0.5)]
_OTHERS = [0.375, 0.625, 0.75, 0.875, 1.25, 1.5, 1.75, 2.5, 3.0, 3.5, 5.0, 5.5, 6.0, 7.0, 9.0, 10.0]
_OTHERS += [11.0, 12.0, 13.0, 14.0, 20.0, 24.0, 28.0, 40.0, 80.0, 88.0, 96.0, 104.0, 112.0, 176.0]
_OTHERS += [192.0, 640.0, 704.0, 960.0]
_POSITIVE = [*[2.0**each for each in _EXPONENTS], *_STEPS, *_OTHERS]
OPERANDS = [0.0, *[sign * each for each in sorted(_POSITIVE) for sign in (1, -1)]]

_Function = Callable[[Any], Any]


def _phi(x: Any) -> Any:
    return m.erfc(-x / m.sqrt(2)) / 2


def _positive(function: _Function) -> _Function:
    return lambda x: function(x) if x > 0 else None


def _within(low: float, high: float, function: _Function) -> _Function:
    return lambda x: function(x) if low < x < high else None


def _log1p_exp(x: Any) -> Any:
    return m.log1p(m.exp(x)) if x < 0 else x + m.log1p(m.exp(-x))


def _by_sign(positive: _Function, negative: _Function) -> _Function:
    return lambda x: positive(x) if x > 0 else negative(x) if x < 0 else None


def _gelu_tanh(x: Any) -> Any:
    # 0.5 * (1 + tanh(z)) is 1 / (1 + exp(-2 * z)).
    return x / (1 + m.exp(-2 * m.sqrt(2 / m.pi) * (x + m.mpf("0.044715") * x**3)))


def _mish(x: Any) -> Any:
    return x * m.tanh(_log1p_exp(x))


def _not_whole(function: _Function) -> _Function:
    return lambda x: None if x <= 0 and x == m.floor(x) else function(x)


def _lgamma(x: Any) -> Any:
    return m.re(m.loggamma(x)) if x > 0 else m.log(abs(m.gamma(x))) if x > -1e4 else None


_SELU = m.mpf("1.0507009873554804934193349852946"), m.mpf("1.6732632423543772848170429916717")

#: Functions by name; they return None where a derivative does not exist.
FUNCTIONS: dict[str, _Function] = {
    "sqrt": _positive(m.sqrt),
    "cbrt": lambda x: m.sign(x) * m.cbrt(abs(x)) if x else None,
    "rsqrt": _positive(lambda x: 1 / m.sqrt(x)),
    "exp": m.exp,
    "exp2": lambda x: m.mpf(2) ** x,
    "expm1": m.expm1,
    "log": _positive(m.log),
    "log10": _positive(m.log10),
    "log2": _positive(lambda x: m.log(x) / m.log(2)),
    "log1p": _within(-1, m.inf, m.log1p),
    "reciprocal": lambda x: 1 / x if x else None,
    "square": lambda x: x * x,
    "sin": m.sin,
    "cos": m.cos,
    "tan": m.tan,
    "sinc": m.sincpi,
    "arcsin": _within(-1, 1, m.asin),
    "arccos": _within(-1, 1, m.acos),
    "arctan": m.atan,
    "sinh": m.sinh,
    "cosh": m.cosh,
    "tanh": m.tanh,
    "arcsinh": m.asinh,
    "arccosh": _within(1, m.inf, m.acosh),
    "arctanh": _within(-1, 1, m.atanh),
    "hypot": lambda x: m.sqrt(x * x + 1),
    "arctan2": m.atan,
    "arctan2_of_1": lambda x: m.atan2(1, x),
    "logaddexp": _log1p_exp,
    "logaddexp2": lambda x: _log1p_exp(x * m.log(2)) / m.log(2),
    "power_2": lambda x: x * x,
    "power_3": lambda x: x**3,
    "power_-1": lambda x: 1 / x if x else None,
    "power_0.5": _positive(m.sqrt),
    "power_2.5": _positive(lambda x: x ** m.mpf(2.5)),
    "2_power": lambda x: m.mpf(2) ** x,
    "sigmoid": lambda x: 1 / (1 + m.exp(-x)),
    "softplus": _log1p_exp,
    "silu": lambda x: x / (1 + m.exp(-x)),
    "log_sigmoid": lambda x: -_log1p_exp(-x),
    "gelu": lambda x: x * _phi(x),
    "gelu_tanh": _gelu_tanh,
    "elu": _by_sign(lambda x: x, m.expm1),
    "celu": _by_sign(lambda x: x, m.expm1),
    "selu": _by_sign(lambda x: _SELU[0] * x, lambda x: _SELU[0] * _SELU[1] * m.expm1(x)),
    "mish": _mish,
    "soft_sign": _by_sign(lambda x: x / (1 + x), lambda x: x / (1 - x)),
    "squareplus": lambda x: (x + m.sqrt(x * x + 4)) / 2,
    "log1mexp": _positive(lambda x: m.log(-m.expm1(-x))),
    "erf": m.erf,
    "erfc": m.erfc,
    "erfcx": lambda x: m.exp(x * x) * m.erfc(x) if -1e3 < x < 1e4 else None,
    "erfinv": _within(-1, 1, lambda x: m.erfinv(x)),
    "ndtr": _phi,
    "ndtri": _within(0, 1, lambda x: -m.sqrt(2) * m.erfinv(1 - 2 * x) if x > 1e-30 else None),
    "log_ndtr": lambda x: m.log1p(-_phi(-x)) if x > 0 else m.log(_phi(x)) if x > -1e4 else None,
    "logit": _within(0, 1, lambda x: m.log(x / (1 - x))),
    "expit": lambda x: 1 / (1 + m.exp(-x)),
    "gamma": _not_whole(lambda x: m.gamma(x) if -200 < x < 200 else None),
    "gammaln": _not_whole(_lgamma),
    "digamma": _not_whole(lambda x: m.digamma(x) if -1e6 < x < 1e15 else None),
    "trigamma": _not_whole(lambda x: m.psi(1, x) if -1e6 < x < 1e15 else None),
    "i0": lambda x: m.besseli(0, x) if abs(x) < 1000 else None,
    "i0e": lambda x: m.besseli(0, x) * m.exp(-abs(x)) if 0 < abs(x) < 1000 else None,
    "i1": lambda x: m.besseli(1, x) if abs(x) < 1000 else None,
    "i1e": lambda x: m.besseli(1, x) * m.exp(-abs(x)) if 0 < abs(x) < 1000 else None,
    "entr": _positive(lambda x: -x * m.log(x)),
    "xlogy": _positive(lambda x: 2 * m.log(x)),
    "xlogy_of_2": lambda x: x * m.log(2),
    "xlog1py": _within(-1, m.inf, lambda x: 2 * m.log1p(x)),
    "rel_entr": _positive(lambda x: x * m.log(x)),
    "rel_entr_of_1": _positive(lambda x: -m.log(x)),
    "kl_div": _positive(lambda x: x * m.log(x) - x + 1),
    "exp1": _positive(lambda x: m.e1(x) if 1e-30 < x < 1e3 else None),
    "expi": lambda x: m.ei(x) if 1e-30 < abs(x) < 1e3 else None,
    "expn_2": _positive(lambda x: m.expint(2, x) if 1e-30 < x < 1e3 else None),
    "gammainc": _positive(lambda x: m.gammainc(2.5, 0, x, regularized=True) if x < 1e3 else None),
    "gammaincc": _positive(
        lambda x: m.gammainc(2.5, x, m.inf, regularized=True) if x < 1e3 else None
    ),
    "betainc": _within(0, 1, lambda x: m.betainc(2.5, 3.5, 0, x, regularized=True)),
    "boxcox": _positive(lambda x: (m.sqrt(x) - 1) * 2),
    "boxcox1p": _within(-1, m.inf, lambda x: m.expm1(m.log1p(x) / 2) * 2),
    "spence": _positive(lambda x: m.re(m.polylog(2, 1 - x)) if x < 1e20 else None),
    "dawsn": lambda x: m.sqrt(m.pi) / 2 * m.exp(-x * x) * m.erfi(x) if abs(x) < 30 else None,
}


def _derivatives(function: _Function, x: Any) -> list[Any] | None:
    """Compute the value and two derivatives; None if one of them does not exist."""
    step = m.mpf(2) ** -330 * (abs(x) if x else 1)
    near = [function(x + k * step) for k in (-2, -1, 0, 1, 2)]
    if any(each is None or not m.isfinite(each) for each in near):
        return None
    below2, below, value, above, above2 = near
    first = (8 * (above - below) - (above2 - below2)) / (12 * step)
    second = (16 * (above + below) - (above2 + below2) - 30 * value) / (12 * step**2)
    return [value, first, second]


def main() -> None:
    """Write the file."""
    lines = []
    for name, function in FUNCTIONS.items():
        lines.append(name)
        for operand in OPERANDS:
            found = _derivatives(function, m.mpf(operand))
            if found is not None:
                shown = [m.nstr(m.re(each), 20) for each in found]
                lines.append(" ".join([repr(operand), *shown]))
        print(name, flush=True)
    TRUTH.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
