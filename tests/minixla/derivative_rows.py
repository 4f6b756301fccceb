"""Functions of one number whose values and derivatives are compared with derivative_truth.txt."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp

_TRUTH = Path(__file__).with_name("derivative_truth.txt")
_special, _nn = mx.scipy.special, mx.nn

_OF_NUMPY = (
    "sqrt cbrt exp exp2 expm1 log log10 log2 log1p reciprocal square sin cos tan sinc arcsin"
)
_OF_NUMPY += " arccos arctan sinh cosh tanh arcsinh arccosh arctanh"
_OF_NN = "sigmoid softplus silu log_sigmoid elu celu selu mish soft_sign squareplus"
_OF_SPECIAL = (
    "erf erfc erfcx erfinv ndtr ndtri log_ndtr logit expit gamma gammaln digamma i0 i0e i1"
)
_OF_SPECIAL += " i1e entr exp1 expi spence dawsn"

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

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


@cache
def truth() -> dict[str, np.ndarray]:
    """By name, rows of an operand, the value and two derivatives."""
    rows: dict[str, list[list[float]]] = {}
    name = ""
    for line in _TRUTH.read_text().splitlines():
        first, *rest = line.split()
        name = name if rest else first
        rows.setdefault(name, []).extend([[float(each) for each in (first, *rest)]] if rest else [])
    return {name: np.array(each) for name, each in rows.items()}


def operands(name: str, kind: str) -> np.ndarray:
    """The rows whose operands are normal numbers of a type, or 0."""
    rows, dtype = truth()[name], TYPES[kind]
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        x = rows[:, 0]
        is_same = x.astype(dtype).astype(np.float64) == x
        is_normal = (x == 0) | (np.abs(x) >= float(info.smallest_normal))
    return rows[is_same & is_normal]


def values(name: str, x: Any, order: int = 2) -> Any:
    """The value and derivatives, up to an order, at each element."""
    function, found = FUNCTIONS[name], []
    for _ in range(order + 1):
        found.append(mx.vmap(function)(x))
        function = mx.grad(function)
    return found


def errors(kind: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distances in ULP of what is expected; 0 where both are too large, or beside denormals."""
    info = ml_dtypes.finfo(TYPES[kind])
    tiny, largest = 128 * float(info.smallest_normal), float(info.max)
    tiny = max(tiny, 1e-150)  # digits of the truth end somewhere
    with np.errstate(all="ignore"):
        got = np.asarray(got, np.float64)
        unit = np.spacing(np.abs(expected)) * 2.0 ** (52 - info.nmant)
        unit = np.maximum(unit, tiny * float(info.eps))
        apart = np.abs(got - expected) / unit
        apart = np.where(np.abs(got - expected) <= tiny, 0, apart)
        is_large = np.abs(expected) > largest * (1 - float(info.eps))
        is_same = np.isinf(got) & (np.sign(got) == np.sign(expected)) & is_large
        apart = np.where(is_same, 0, apart)
    return np.where(np.isnan(apart), np.inf, apart)


def measured(name: str, kind: str, run: Any = None) -> list[np.ndarray]:
    """The errors of the value and the derivatives at each operand."""
    rows = operands(name, kind)
    with jax.enable_x64(kind == "f64"):
        x = rows[:, 0].astype(TYPES[kind])
        found = (run or mx.jit)(lambda x: values(name, x))(x)
    return [errors(kind, np.asarray(each), rows[:, 1 + n]) for n, each in enumerate(found)]
