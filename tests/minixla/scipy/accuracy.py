"""How far special functions are from the truth: part of docs/accuracy.md, with what JAX's are.

`python -m tests.minixla.scipy.accuracy` shows the errors on this machine.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.scipy.special
import numpy as np

import minixla as mx

TRUTH = Path(__file__).with_name("truth.txt")

# The largest errors in ULP that were found: ours in f32 and f64, and JAX's.
BOUNDS: dict[str, tuple[float, float, float | str, float | str]] = {
    "gamma": (6.5, 4.2, 300, 390),
    "factorial": (4.8, 4.5, 350, 400),
    "gammaln": (7.1, 5.1, 1.4e6, 730000),
    "digamma": (11, 8.2, 11, 8.2),
    "beta": (12, 5.8, 180, 1.2e10),
    "betaln": (5.7, 3.7, 43, 3.7e9),
    "gammainc": (75, 61, 5e7, 3e7),
    "gammaincc": (50, 37, 4.9e7, 3.3e7),
    "betainc": (130, 110, 7.4e7, 6.4e7),
    "polygamma": (9.2, 11, 32, 23),
    "zeta": (6.7, 7.6, 13, 2.7),
    "erf": (4.9, 0.63, 4.9, 0.63),
    "erfc": (7, 7.6, 63, 510),
    "erfcx": (7.8, 6.4, 1.7e7, 6.2e15),
    "erfinv": (3.5, 4.8, 65, 22),
    "ndtr": (7.7, 6.8, 200, 2100),
    "log_ndtr": (8.6, 8.9, 1.1e6, 5.6e14),
    "logit": (2.7, 1.9, 33000, 79000),
    "i0": (4.3, 3.1, 4.3, 3.1),
    "i1": (17, 11, 17, 11),
    "i0e": (5.6, 4.5, 5.6, 4.5),
    "i1e": (9.8, 7.3, 9.8, 7.3),
    "exp1": (25, 28, "-", "-"),
    "expi": (23, 28, "-", "-"),
    "expn": (46, 42, "-", "-"),
    "entr": (2.1, 1.2, 2.1, 1.2),
    "rel_entr": (2.6, 1.7, 12000, 6800),
    "kl_div": (7.7, 5.3, 1.1e9, 3.4e8),
}
#: How much more than was found the tests let pass.
SLACK = 1.25

#: The least values that are compared, in smallest normal numbers of the type.
LEAST = 2**24

#: In JAX these do not end for arrays with small elements.
ENDLESS = ("exp1", "expi", "expn")

#: Where a function has zeros that are no exact numbers, errors are in ULP of 1 if it is below.
_HAS_ZEROS = {
    "gammaln": lambda x: x < 0,
    "digamma": lambda x: x < np.inf,
    "polygamma": lambda n, x: n == 0,
    "betaln": lambda a, b: a < np.inf,
    "expi": lambda x: x > 0,
}


@functools.cache
def known() -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Operands and the truth, by the function's name."""
    rows: dict[str, list[list[Any]]] = {}
    name, kind = "", np.float64
    for line in TRUTH.read_text().splitlines():
        *operands, last = line.split()
        if operands[0].isidentifier():
            name, kind = operands[0], np.float32 if last == "32" else np.float64
        else:
            rows.setdefault(name, []).append([*map(kind, operands), np.longdouble(last)])
    found = {}
    for each, lines in rows.items():
        *operands, truth = zip(*lines, strict=True)
        found[each] = (
            [np.array(column, np.float64) for column in operands],
            np.array(truth, np.longdouble),
        )
    return found


def with_orders(name: str, operands: list[np.ndarray], kind: Any) -> list[np.ndarray]:
    """The operands in a type; orders are integers."""
    cast = [each.astype(kind) for each in operands]
    if name in ("polygamma", "expn"):
        cast[0] = cast[0].astype(f"i{np.dtype(kind).itemsize}")
    return cast


def arguments(name: str, kind: str) -> list[np.ndarray]:
    """The operands of a function, in a type."""
    return with_orders(name, known()[name][0], kind)


def steps(name: str, result: Any, operands: list[np.ndarray], truth: Any, kind: Any) -> np.ndarray:
    """Steps of the type from results to the truth; none where that is out of bounds.

    Beside the smallest normal number what is added up may be denormal, which XLA takes for zero.
    """
    info, size = np.finfo(kind), np.abs(truth)
    is_held = (size > LEAST * float(info.tiny)) & (size < float(info.max))
    if name in _HAS_ZEROS:
        size = np.where(_HAS_ZEROS[name](*operands), np.maximum(size, 1), size)
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(result).astype(np.longdouble) - truth)
        found = apart / np.ldexp(np.longdouble(1), np.frexp(size)[1] - 1 - info.nmant)
    return np.where(is_held, np.where(np.isnan(found), np.inf, found), 0).astype(float)


def errors(name: str, result: Any, kind: str) -> np.ndarray:
    """`steps` to what is known; none of operands that the type does not hold."""
    operands, truth = known()[name]
    is_held = np.all([each.astype(kind) == each for each in operands], axis=0)
    return np.where(is_held, steps(name, result, operands, truth, kind), 0)


def worst(name: str, kind: str, module: Any = mx.scipy.special, jit: Any = mx.jit) -> float:
    """The largest error of a function of a module, compiled."""
    with jax.enable_x64(kind == "float64"):
        result = jit(getattr(module, name))(*arguments(name, kind))
    return float(errors(name, result, kind).max())


def section() -> str:
    """The part of the page."""
    lines = [
        "## Special functions",
        "",
        "Functions of `mx.scipy.special` are compared with mpmath at 130 to 740 operands each.",
        "The figures are the largest errors there, not proven bounds. 80 operands of each range",
        "are drawn over the domain: parameters up to 10^4 (10^6 for `gammainc`, 10^8 for",
        "`betaln`, 32 for `beta`), arguments from the middle of distributions to their tails. The",
        "other operands are those with the largest errors among 60,000 of each range, for minixla",
        "and for JAX, in f32 and in f64. Another 100,000 operands in f32 showed errors that are at",
        "most a quarter larger for minixla, which the tests allow.",
        "",
        "An error is in ULP of the true result. Near a zero that is not an exact number, a",
        "relative error can be arbitrarily large. Small results therefore use an ULP of 1, which",
        "is 2^-23 in f32 and 2^-52 in f64, for these functions: `digamma` (`polygamma` of order",
        "0), `betaln`, `gammaln` left of 0 and `expi` right of 0. Results below 2^24 times",
        "the smallest normal number are left out, because parts of them are subnormal, which",
        "XLA:CPU treats as zero.",
        "",
        "The exponential of a large logarithm loses as many ULP as that logarithm. This affects",
        "`gammainc` and `gammaincc` for `x` below half of `a` or above twice `a`, `betainc`, and",
        "`polygamma` of orders from 33 on. `exp1`, `expi` and `expn` lose most digits near 1 and",
        "-1, where terms of the series cancel. JAX's errors of `gammaln`, `logit`, `rel_entr` and",
        "`kl_div` have no bound, because all digits are lost near their zeros. The same holds for",
        "its `beta` and `betaln` in f64, which have constants of f32. JAX's `erfcx` is 0 at some",
        "numbers. A dash means that JAX's function does not end for an array with small numbers",
        "(for `expi`, negative ones).",
        "",
        "The columns of JAX are the errors of jax 0.10.2 at the same operands. If they equal",
        "minixla's, minixla calls JAX's function. It also does so for functions that are not",
        "listed. `entr` is an exception: its second derivatives differ.",
        "",
        "|  | f32 | f64 | JAX, f32 | JAX, f64 |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| `{name}` | {' | '.join(map(_shown, row))} |" for name, row in BOUNDS.items()]
    return "\n".join(lines) + "\n"


def _shown(bound: float | str) -> str:
    return bound if isinstance(bound, str) else f"{bound:g}"


if __name__ == "__main__":
    for function in known():
        ours = [worst(function, kind) for kind in ("float32", "float64")]
        if function in ENDLESS:
            theirs = []
        else:
            theirs = [
                worst(function, kind, jax.scipy.special, jax.jit) for kind in ("float32", "float64")
            ]
        print(function, *[f"{each:.3g}" for each in [*ours, *theirs]])
