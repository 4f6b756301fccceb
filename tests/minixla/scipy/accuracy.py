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

# The greatest errors in ULP: ours in f32 and f64, and what was measured of JAX's.
BOUNDS: dict[str, tuple[float, float, float | str, float | str]] = {
    "gamma": (5, 5, 130, 170),
    "factorial": (50, 5, 180, 190),
    "gammaln": (9, 13, 1900, 1800),
    "digamma": (180, 700, 130, 540),
    "beta": (15, 40, 91, 5.2e9),
    "betaln": (6, 9, 13, 2.5e8),
    "gammainc": (9, 14, 1.2e6, 2.4e6),
    "gammaincc": (17, 25, 4.2e6, 2.7e6),
    "betainc": (70, 450, 2.5e5, 5.8e4),
    "polygamma": (25, 25, 17, 17),
    "zeta": (4, 4, 2.5, 2.5),
    "erf": (3, 1, 1.8, 0.6),
    "erfc": (45, 550, 33, 350),
    "erfinv": (70, 6, 52, 10),
    "ndtr": (100, 1700, 75, 1100),
    "log_ndtr": (200, 1800, 2.3e5, 1.2e13),
    "logit": (4, 4, 310, 92),
    "i0": (5, 3, 3.6, 1.6),
    "i1": (5, 5, 3.3, 3.4),
    "i0e": (7, 5, 5.1, 3.5),
    "i1e": (6, 6, 4, 3.1),
    "exp1": (25, 27, "-", "-"),
    "expi": (10, 10, "-", "-"),
    "expn": (35, 9, "-", "-"),
    "rel_entr": (3, 2, 2.8, 3.4),
    "kl_div": (17, 6, 1100, 470),
}


@functools.cache
def known() -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Operands and the truth, by the function's name."""
    rows: dict[str, list[list[str]]] = {}
    for line in TRUTH.read_text().splitlines():
        name, *numbers = line.split()
        rows.setdefault(name, []).append(numbers)
    found = {}
    for name, lines in rows.items():
        *operands, truth = zip(*lines, strict=True)
        exact = np.array([np.longdouble(each) for each in truth])
        found[name] = [np.array(each, np.float64) for each in operands], exact
    return found


def arguments(name: str, kind: str) -> list[np.ndarray]:
    """The operands of a function, in a type."""
    operands = [each.astype(kind) for each in known()[name][0]]
    if name in ("polygamma", "expn"):
        operands[0] = operands[0].astype(f"int{kind[5:]}")
    return operands


def errors(name: str, result: Any, kind: str) -> np.ndarray:
    """Steps of the type from results to the truth; none where that is denormal, or too large.

    Nor are there any of operands that the type does not hold.
    """
    (operands, truth), info = known()[name], np.finfo(kind)
    size = np.abs(truth)
    is_held = (size > 2 * float(info.tiny)) & (size < float(info.max))
    is_held &= np.all([each.astype(kind) == each for each in operands], axis=0)
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(result).astype(np.longdouble) - truth)
        steps = apart / np.ldexp(np.longdouble(1), np.frexp(size)[1] - 1 - info.nmant)
    return np.where(is_held, np.where(np.isnan(steps), np.inf, steps), 0).astype(float)


def worst(name: str, kind: str, module: Any = mx.scipy.special, jit: Any = mx.jit) -> float:
    """The greatest error of a function of a module, compiled."""
    with jax.enable_x64(kind == "float64"):
        result = jit(getattr(module, name))(*arguments(name, kind))
    return float(errors(name, result, kind).max())


def section() -> str:
    """The part of the page."""
    lines = [
        "## Special functions",
        "",
        "Those of `mx.scipy.special`, compared with mpmath at operands over their domains:",
        "parameters up to 10^4 (10^6 of `gammainc`), arguments where the results are neither 0 nor",
        "1, zeros of `gammaln` and `digamma` and their neighbourhoods. Far out `erfc`, `ndtr` and",
        "`log_ndtr` lose as many ULP as half of the rounded square in their exponential, as JAX's",
        "do. The columns of JAX are what jax 0.10.2 had at the same operands;",
        "a dash: of an array with small ones (of `expi`, negative ones) it does not end.",
        "Functions that are not listed JAX computes.",
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
        if function in ("exp1", "expi", "expn"):
            theirs = []
        else:
            theirs = [
                worst(function, kind, jax.scipy.special, jax.jit) for kind in ("float32", "float64")
            ]
        print(function, *[f"{each:.3g}" for each in [*ours, *theirs]])
