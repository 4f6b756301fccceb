"""JAX's public functions: rows of name, function and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import lax, nn
from jax import random as jr
from jax.numpy import linalg


class Row(NamedTuple):
    """One function.

    Attributes:
        name: its public name.
        function: a function of arrays.
        arguments: its arguments.
        zero: why it has no derivative to compare; empty if it has one.
        tolerance: the largest allowed difference, relative to the largest result.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    zero: str = ""
    tolerance: float = 2e-5


def _values(*sizes: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> np.ndarray:
    """Return numbers in an interval, but not near its ends or its middle, where kinks may be."""
    count = int(np.prod(sizes))
    steps = (np.arange(count) + 0.37) / count
    mixed = np.random.default_rng(seed + count).permutation(steps)
    return (low + (high - low) * mixed).astype(np.float32).reshape(sizes)


# X and Y share no element, because maxima have kinks at equal elements.
X, Y = _values(2, 3), _values(2, 3, low=-0.95, high=0.9, seed=1)
WIDE = _values(2, 3, low=-3, high=3)
POSITIVE = _values(2, 3, low=0.3, high=3)
ABOVE = _values(2, 3, low=1.2, high=4)
INNER = _values(2, 3, low=0.1, high=0.9)
SQUARE = _values(3, 3) + 2 * np.eye(3, dtype=np.float32)
TALL = _values(4, 3)
VECTOR, OTHER = _values(5), _values(5, seed=2)
COUNTS = np.array([[3, 1, 4], [1, 5, 2]], np.int32)
FLAGS = np.array([[True, False, True], [False, False, True]])
IMAGE, KERNEL = _values(1, 5, 5, 2), _values(3, 3, 2, 3)
KEY = np.array([17, 42], np.uint32)
INTEGER = "integers and truth values have no derivative"
STEPS = "it is piecewise constant"
SAMPLES = "its only argument is a key"


def _rows(module: str, names: str, *arguments: np.ndarray, **options: Any) -> list[Row]:
    home = {"jnp": jnp, "lax": lax, "nn": nn, "special": special, "linalg": linalg}[module]
    return [
        Row(f"{module}.{name}", getattr(home, name), arguments, **options) for name in names.split()
    ]


def _row(name: str, function: Callable[..., Any], *arguments: np.ndarray, **options: Any) -> Row:
    return Row(name, function, arguments, **options)


ELEMENTWISE = [
    *_rows("jnp", "sin cos tan sinh cosh tanh exp expm1 arctan arcsinh sinc", WIDE),
    *_rows("jnp", "arcsin arccos arctanh", X),
    *_rows("jnp", "log log1p log2 log10 sqrt cbrt exp2 reciprocal square i0", POSITIVE),
    *_rows("jnp", "arccosh", ABOVE),
    *_rows("jnp", "abs negative deg2rad rad2deg fabs nan_to_num", WIDE),
    *_rows("jnp", "floor ceil round trunc rint sign signbit isfinite isnan", WIDE, zero=STEPS),
    *_rows("jnp", "add subtract multiply maximum minimum arctan2 hypot logaddexp", X, Y),
    *_rows("jnp", "logaddexp2 copysign heaviside fmax fmin", X, Y),
    *_rows("jnp", "divide power true_divide", POSITIVE, ABOVE),
    *_rows("jnp", "mod remainder fmod", ABOVE, POSITIVE),
    *_rows("jnp", "floor_divide", ABOVE, POSITIVE, zero=STEPS),
    *_rows("jnp", "equal less greater_equal logical_and", X, Y, zero=INTEGER),
    *_rows("jnp", "bitwise_and left_shift gcd lcm", COUNTS, COUNTS.T.reshape(2, 3), zero=INTEGER),
    *_rows("jnp", "bitwise_count", COUNTS, zero=INTEGER),
    _row("jnp.where", lambda x, y: jnp.where(FLAGS, x, y), X, Y),
    _row("jnp.clip", lambda x: jnp.clip(x, -0.5, 0.4), X),
    _row("jnp.select", lambda x, y: jnp.select([x > 0, y > 0], [x, y], 3.0), X, Y),
    _row("jnp.piecewise", lambda x: jnp.piecewise(x, [x < 0], [jnp.sin, jnp.cos]), X),
    _row("jnp.interp", lambda x, y: jnp.interp(x, np.linspace(-1, 1, 5), y), VECTOR, OTHER),
    _row("lax.complex, jnp.real", lambda x, y: jnp.real(lax.complex(x, y) ** 2), X, Y),
    _row("jnp.angle", lambda x, y: jnp.angle(lax.complex(x, y)), POSITIVE, Y),
]

REDUCTIONS = [
    *_rows("jnp", "sum mean prod max min std var ptp median nansum average", X),
    *_rows("jnp", "argmax argmin count_nonzero all any", X, zero=INTEGER),
    *_rows("jnp", "cumsum cumprod diff trace sort", SQUARE),
    *_rows("jnp", "argsort", SQUARE, zero=INTEGER),
    _row("jnp.quantile", lambda x: jnp.quantile(x, 0.3), X),
    _row("jnp.percentile", lambda x: jnp.percentile(x, 40.0, axis=1), X),
    _row("special.logsumexp", lambda x: special.logsumexp(x, axis=1), X),
    _row("jnp.cumsum over an axis", lambda x: jnp.cumsum(x, axis=0), X),
    _row("jnp.histogram", lambda x: jnp.histogram(x, 4, (-1, 1))[0], X, zero=STEPS),
    _row("jnp.bincount", lambda x: jnp.bincount(x.ravel(), length=6), COUNTS, zero=INTEGER),
    _row(
        "jnp.searchsorted",
        lambda x, y: jnp.searchsorted(jnp.sort(x), y),
        VECTOR,
        OTHER,
        zero=INTEGER,
    ),
    _row("jnp.unique", lambda x: jnp.unique(x, size=5), COUNTS, zero=INTEGER),
    _row("jnp.cov", jnp.cov, TALL),
    _row("jnp.corrcoef", jnp.corrcoef, TALL),
    _row("jnp.gradient", jnp.gradient, VECTOR),
    _row("jnp.trapezoid", jnp.trapezoid, VECTOR),
    _row("jnp.convolve", jnp.convolve, VECTOR, OTHER),
    _row("jnp.polyval", jnp.polyval, VECTOR, OTHER),
]

MOVEMENT = [
    *_rows("jnp", "transpose ravel flip fliplr triu tril diag diagonal rot90", SQUARE),
    _row("jnp.reshape", lambda x: jnp.reshape(x, (3, 2)), X),
    _row("jnp.concatenate", lambda x, y: jnp.concatenate([x, y], 1), X, Y),
    _row("jnp.stack", lambda x, y: jnp.stack([x, y], 1), X, Y),
    _row("jnp.split", lambda x: jnp.split(x, 3, 1), X),
    _row("jnp.tile", lambda x: jnp.tile(x, (2, 2)), X),
    _row("jnp.repeat", lambda x: jnp.repeat(x, 2, 1), X),
    _row("jnp.roll", lambda x: jnp.roll(x, 2, 1), X),
    _row("jnp.pad", lambda x: jnp.pad(x, 1, mode="reflect"), X),
    _row("jnp.take", lambda x, i: jnp.take(x, i % 2, 0), X, COUNTS),
    _row("jnp.take_along_axis", lambda x, i: jnp.take_along_axis(x, i % 3, 1), X, COUNTS),
    _row("x.at[...].add", lambda x, y: x.at[np.array([0, 0, 1])].add(y[0]), X, Y),
    _row("x.at[...].set", lambda x: x.at[:, 1].set(x[:, 0] * 2), X),
    _row("x.at[...].mul", lambda x, y: x.at[0].multiply(y[1]), X, Y),
    _row("jnp.broadcast_to", lambda x: jnp.broadcast_to(x, (4, 2, 3)), X),
    _row("jnp.expand_dims", lambda x: jnp.expand_dims(x, 1), X),
    _row("jnp.moveaxis", lambda x: jnp.moveaxis(x, 0, 1), X),
    _row("jnp.meshgrid", jnp.meshgrid, VECTOR, OTHER),
    _row("jnp.kron", jnp.kron, X, Y),
    _row("jnp.vander", jnp.vander, VECTOR),
]

PRODUCTS = [
    *_rows("jnp", "dot matmul inner outer cross", SQUARE, SQUARE.T.copy()),
    _row("jnp.einsum", lambda x, y: jnp.einsum("ij,kj->ki", x, y), X, Y),
    _row("jnp.tensordot", lambda x, y: jnp.tensordot(x, y, 2), X, Y),
    _row("jnp.vdot", jnp.vdot, VECTOR, OTHER),
    *_rows("linalg", "inv det slogdet matrix_transpose", SQUARE),
    _row("linalg.norm", linalg.norm, X),
    _row("linalg.solve", linalg.solve, SQUARE, TALL[:3]),
    _row("linalg.cholesky", lambda x: linalg.cholesky(x @ x.T + jnp.eye(3)), SQUARE),
    _row("linalg.matrix_power", lambda x: linalg.matrix_power(x, 3), SQUARE),
    _row("linalg.multi_dot", lambda x, y: linalg.multi_dot([x, y, x]), SQUARE, SQUARE.T.copy()),
    _row("linalg.eigh", lambda x: linalg.eigh(x + x.T)[0], SQUARE),
    _row("linalg.qr", lambda x: linalg.qr(x)[1], TALL),
    _row("linalg.svd", lambda x: linalg.svd(x, compute_uv=False), TALL),
    _row("lax.conv_general_dilated", lambda x, k: lax.conv_general_dilated(
        x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), IMAGE, KERNEL),
    _row("lax.reduce_window, max", lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), IMAGE),
    _row("lax.reduce_window, add", lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"), IMAGE),
    _row("jnp.fft.fft", lambda x: jnp.abs(jnp.fft.fft(x)), VECTOR),
    _row("jnp.fft.irfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), _values(6)),
]  # fmt: skip


def _loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + i * 0.1, x)


CONTROL = [
    *_rows("lax", "rsqrt erf erf_inv lgamma digamma logistic erfc", INNER),
    *_rows("lax", "is_finite", X, zero=STEPS),
    *_rows("lax", "bessel_i1e bessel_i0e", WIDE),
    *_rows("lax", "atan2", X, Y),
    *_rows("lax", "nextafter", X, Y, zero=STEPS),
    *_rows("lax", "igamma", POSITIVE, ABOVE, tolerance=1e-4),
    _row("lax.top_k", lambda x: lax.top_k(x, 2)[0], X),
    _row("lax.fori_loop", _loop, X),
    _row("lax.scan", lambda x: lax.scan(lambda c, a: (c * a + 1, c), 1.0, x.ravel()), X),
    _row("lax.while_loop", lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1], X,
        zero="JAX has no reverse derivative of a while loop"),
    _row("lax.cond", lambda x: lax.cond(x[0, 0] > 5, jnp.sin, jnp.cos, x), X),
    _row("lax.switch", lambda x: lax.switch(1, [jnp.sin, jnp.exp, jnp.cos], x), X),
    _row("lax.map", lambda x: lax.map(jnp.sin, x), X),
    _row("lax.associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), VECTOR),
    _row("lax.dynamic_slice", lambda x: lax.dynamic_slice(x, (0, 1), (2, 2)), X),
    _row("lax.dynamic_update_slice",
         lambda x, y: lax.dynamic_update_slice(x, y[:1, :2], (1, 1)), X, Y),
    _row("lax.reduce", lambda x: lax.reduce(x, 1.0, lax.mul, (1,)), X),
    _row("lax.clamp", lambda x: lax.clamp(-0.5, x, 0.4), X),
    _row("lax.sort", lambda x, y: lax.sort((x, y), num_keys=1), X, Y),
    _row("lax.cummax", lambda x: lax.cummax(x, 1), X),
    _row("lax.cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), X),
    _row("lax.stop_gradient", lambda x: x * lax.stop_gradient(x), X),
    _row("jax.checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), X),
    _row("lax.reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), X),
    _row("lax.bitcast_convert_type",
         lambda x: lax.bitcast_convert_type(x, jnp.int32), X, zero=INTEGER),
    _row("lax.population_count", lax.population_count, COUNTS, zero=INTEGER),
    _row("lax.clz", lax.clz, COUNTS, zero=INTEGER),
]  # fmt: skip

NETWORKS = [
    *_rows("nn", "relu sigmoid softplus silu gelu elu selu celu leaky_relu tanh log_sigmoid", X),
    *_rows("nn", "softmax log_softmax standardize soft_sign swish mish squareplus logsumexp", X),
    *_rows("nn", "hard_tanh hard_sigmoid hard_swish relu6 glu", _values(2, 4)),
    _row("nn.one_hot", lambda i: nn.one_hot(i, 6), COUNTS, zero=INTEGER),
    _row("nn.dot_product_attention", lambda q: nn.dot_product_attention(q, q, q),
         _values(1, 3, 2, 4)),
]  # fmt: skip

FUNCTIONS = [
    *_rows("special", "expit erf erfc entr log_ndtr ndtr i0 i0e i1 i1e", X[:, :2] + 1.2),
    *_rows("special", "gammaln digamma gamma factorial", POSITIVE),
    *_rows("special", "ndtri logit erfinv", INNER),
    *_rows("special", "xlogy xlog1py betaln rel_entr kl_div beta", POSITIVE, ABOVE),
    _row("special.polygamma", lambda x: special.polygamma(1, x), POSITIVE),
    _row("special.zeta", lambda q: special.zeta(3.0, q), POSITIVE),
    _row("special.betainc", lambda x: special.betainc(1.5, 2.0, x),
         INNER, tolerance=1e-4),
    _row("special.gammainc", lambda x: special.gammainc(1.5, x), POSITIVE,
         tolerance=1e-4),
]  # fmt: skip

_draws = {
    "uniform": lambda k: jr.uniform(k, (4,)),
    "normal": lambda k: jr.normal(k, (4,)),
    "randint": lambda k: jr.randint(k, (4,), 0, 10),
    "bernoulli": lambda k: jr.bernoulli(k, 0.3, (4,)),
    "split": lambda k: jr.split(k, 3),
    "fold_in": lambda k: jr.fold_in(k, 5),
    "permutation": lambda k: jr.permutation(k, 6),
    "exponential": lambda k: jr.exponential(k, (4,)),
    "gumbel": lambda k: jr.gumbel(k, (4,)),
    "laplace": lambda k: jr.laplace(k, (4,)),
    "cauchy": lambda k: jr.cauchy(k, (4,)),
    "truncated_normal": lambda k: jr.truncated_normal(k, -1.0, 1.0, (4,)),
    "logistic": lambda k: jr.logistic(k, (4,)),
    "categorical": lambda k: jr.categorical(k, jnp.log(jnp.arange(1.0, 5.0)), shape=(4,)),
    "choice": lambda k: jr.choice(k, 7, (4,)),
    "bits": lambda k: jr.bits(k, (4,)),
    "rademacher": lambda k: jr.rademacher(k, (4,)),
}
RANDOM = [_row(f"random.{name}", draw, KEY, zero=SAMPLES) for name, draw in _draws.items()]

#: The rows of each group, by its name.
GROUPS: dict[str, list[Row]] = {
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "movement": MOVEMENT,
    "products": PRODUCTS,
    "control": CONTROL,
    "networks": NETWORKS,
    "functions": FUNCTIONS,
    "random": RANDOM,
}
