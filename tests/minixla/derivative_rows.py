"""Functions of one number, and their values and derivatives in derivative_truth.txt."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from tests.compilation import OPTIMIZED

_TRUTH = Path(__file__).with_name("derivative_truth.txt")
_BOUNDS = Path(__file__).with_name("derivative_bounds.txt")
_special, _nn = mx.scipy.special, mx.nn

_OF_NUMPY = "sqrt cbrt exp exp2 expm1 log log10 log2 log1p reciprocal square sin cos tan"
_OF_NUMPY += " sinc arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh"
_OF_NN = "sigmoid softplus silu log_sigmoid elu celu selu mish soft_sign squareplus"
_OF_SPECIAL = "erf erfc erfcx erfinv ndtr ndtri log_ndtr logit expit gamma gammaln digamma"
_OF_SPECIAL += " i0 i0e i1 i1e entr exp1 expi spence dawsn"

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(mnp, name) for name in _OF_NUMPY.split()},
    **{name: getattr(_nn, name) for name in _OF_NN.split()},
    **{name: getattr(_special, name) for name in _OF_SPECIAL.split()},
    "rsqrt": mx.ops.rsqrt,
    "hypot": lambda x: mnp.hypot(x, 1),
    "arctan2": lambda x: mnp.arctan2(x, 1),
    "arctan2_of_1": lambda x: mnp.arctan2(1, x),
    "logaddexp": lambda x: mnp.logaddexp(x, 0),
    "logaddexp2": lambda x: mnp.logaddexp2(x, 0),
    "power_2": lambda x: x**2,
    "power_3": lambda x: mnp.power(x, 3),
    "power_-1": lambda x: x**-1,
    "power_0.5": lambda x: x**0.5,
    "power_2.5": lambda x: mnp.power(x, 2.5),
    "2_power": lambda x: mnp.power(2, x),
    "gelu": lambda x: _nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: _nn.gelu(x, approximate=True),
    "log1mexp": _nn.log1mexp,
    "trigamma": lambda x: _special.polygamma(1, x),
    "xlogy": lambda x: _special.xlogy(2, x),
    "xlogy_of_2": lambda x: _special.xlogy(x, 2),
    "xlog1py": lambda x: _special.xlog1py(2, x),
    "rel_entr": lambda x: _special.rel_entr(x, 1),
    "rel_entr_of_1": lambda x: _special.rel_entr(1, x),
    "kl_div": lambda x: _special.kl_div(x, 1),
    "expn_2": lambda x: _special.expn(2, x),
    "gammainc": lambda x: _special.gammainc(2.5, x),
    "gammaincc": lambda x: _special.gammaincc(2.5, x),
    "betainc": lambda x: _special.betainc(2.5, 3.5, x),
    "boxcox": lambda x: _special.boxcox(x, 0.5),
    "boxcox1p": lambda x: _special.boxcox1p(x, 0.5),
}

#: Near a zero of a function or derivative, errors are in ULP of this number; by name and order.
LEAST = {
    ("sigmoid", 1): 1.0,
    ("sigmoid", 2): 1.0,
    ("tanh", 1): 1.0,
    ("tanh", 2): 1.0,
    ("mish", 2): 1.0,
    ("mish", 1): 1.0,
    ("expit", 1): 1.0,
    ("expit", 2): 1.0,
    ("gelu", 2): 0.1,
    ("gelu_tanh", 1): 1.0,
    ("gelu_tanh", 2): 1.0,
    ("silu", 2): 1.0,
    ("logaddexp", 2): 1.0,
    ("logaddexp2", 2): 1.0,
    ("gammainc", 2): 0.1,
    ("gammaincc", 2): 0.1,
    ("betainc", 2): 1.0,
    ("expi", 0): 1.0,
    ("expi", 2): 1.0,
    ("digamma", 0): 1.0,
    ("gammaln", 0): 1.0,
    ("gammaln", 1): 1.0,
    ("gammaln", 2): 1e-20,
    ("dawsn", 1): 0.1,
    ("dawsn", 2): 0.1,
    ("logaddexp2", 0): 1.0,
    ("gelu", 1): 0.1,
    ("erfc", 2): 1e-25,
    ("ndtr", 2): 1e-25,
}

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


@cache
def truth() -> dict[str, np.ndarray]:
    """Return by name the rows of operand, value and two derivatives."""
    rows: dict[str, list[list[float]]] = {}
    name = ""
    for line in _TRUTH.read_text().splitlines():
        first, *rest = line.split()
        name = name if rest else first
        rows.setdefault(name, []).extend([[float(each) for each in (first, *rest)]] if rest else [])
    return {name: np.array(each) for name, each in rows.items()}


@cache
def bounds() -> dict[tuple[str, str], list[float]]:
    """Return by name and type the errors that tests allow for the value and two derivatives."""
    rows = [line.split() for line in _BOUNDS.read_text().splitlines()]
    return {(name, kind): [float(each) for each in rest] for name, kind, *rest in rows}


def operands(name: str, kind: str) -> np.ndarray:
    """Return the rows whose operands are 0 or normal numbers of a type."""
    rows, dtype = truth()[name], TYPES[kind]
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        x = rows[:, 0]
        is_same = x.astype(dtype).astype(np.float64) == x
        is_normal = (x == 0) | (np.abs(x) >= float(info.smallest_normal))
    return rows[is_same & is_normal]


def values(name: str, x: Any, order: int = 2) -> Any:
    """Compute the value and the derivatives up to an order at each element."""
    function, found = FUNCTIONS[name], []
    for _ in range(order + 1):
        found.append(mx.vmap(function)(x))
        function = mx.grad(function)
    return found


def errors(kind: str, got: np.ndarray, expected: np.ndarray, least: float) -> np.ndarray:
    """Return errors in ULP of the expected value, or of `least` if the value is smaller.

    Errors are 0 where both overflow, or where they are as small as denormal numbers.
    """
    info = ml_dtypes.finfo(TYPES[kind])
    # XLA:CPU flushes denormal numbers to zero; in f16 they are many of all numbers.
    tiny, largest = 128 * float(info.smallest_normal), float(info.max)
    tiny = float(info.smallest_normal) if kind == "f16" else tiny
    tiny = max(tiny, 1e-120)  # digits of the truth end somewhere
    with np.errstate(all="ignore"):
        got = np.asarray(got, np.float64)
        unit = np.spacing(np.maximum(np.abs(expected), least)) * 2.0 ** (52 - info.nmant)
        unit = np.maximum(unit, tiny * float(info.eps))
        apart = np.abs(got - expected) / unit
        apart = np.where(np.abs(got - expected) <= tiny, 0, apart)
        is_large = np.abs(expected) > largest * (1 - float(info.eps))
        is_same = np.isinf(got) & (np.sign(got) == np.sign(expected)) & is_large
        apart = np.where(is_same, 0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


#: Functions for which XLA:CPU uses other code if it compiles quickly.
COMPILED_OTHERWISE = {"cbrt", "dawsn", "i0e", "i1e", "mish", "sinc", "tan", "tanh", "trigamma"}


def _optimized(function: Callable[..., Any]) -> Callable[..., Any]:
    return mx.jit(function, compiler_options=OPTIMIZED)


def measured(name: str, kind: str, run: Any = None) -> list[np.ndarray]:
    """Return the errors of the value and the derivatives at each operand."""
    rows = operands(name, kind)
    with jax.enable_x64(kind == "f64"):
        x = rows[:, 0].astype(TYPES[kind])
        run = run or (_optimized if name in COMPILED_OTHERWISE else mx.jit)
        found = run(lambda x: values(name, x))(x)
    apart = []
    for order, each in enumerate(found):
        error = errors(kind, np.asarray(each), rows[:, 1 + order], LEAST.get((name, order), 0))
        # Where the value is infinite, the derivatives are not defined.
        is_infinite = np.abs(rows[:, 1 : 1 + order]) > float(ml_dtypes.finfo(TYPES[kind]).max)
        apart.append(np.where(is_infinite.any(axis=1), 0, error))
    return apart


_HEAD = """## Derivatives

The table shows bounds for the value and two derivatives of functions of one number. They are
compared with values of higher precision at up to 150 operands of both signs: 0, powers of 2 from
the smallest normal number to the largest, numbers next to 1, and numbers at which formulas change.
Errors are in ULP of the true result. If a result or a derivative is infinite, higher derivatives
are not compared. Absolute errors below 128 times the smallest normal number are ignored, because
XLA:CPU flushes subnormal numbers to zero. Processors with and without AVX-512 round differently in
a few places: the second derivatives of `arccosh` in f64, `i0e` and `i1e` in f32. The bounds hold
for both. Suffixes such as `_of_1` and `_2` name the constant operand.

Near a zero of a value or derivative, errors are in ULP of one of these numbers if the result is
smaller:
{least}.

If a derivative is infinite or one-sided, the result is its limit: `sqrt`, `cbrt`, `log`, `entr` at
0, `arcsin` at 1. Without a limit, it is JAX's result: 0 for `i0e` and `hypot` at 0.
"""


def section() -> str:
    """Return the section of the accuracy page."""
    shown = [f"`{name}` of order {order}: {each:g}" for (name, order), each in LEAST.items()]
    least = textwrap.fill(", ".join(shown), 99)
    lines = [_HEAD.format(least=least), f"|  | {' | '.join(TYPES)} |"]
    lines.append("| --- |" + " --- |" * len(TYPES))
    for name in FUNCTIONS:
        cells = [" / ".join([f"{each:g}" for each in bounds()[name, kind]]) for kind in TYPES]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
