"""Programs of JAX whose HLO, unoptimised and as XLA:CPU optimises it, is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax import random as jr
from jax.scipy.linalg import solve_triangular
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx


class Program(NamedTuple):
    """A function and arguments.

    Attributes:
        function: of arrays; gives an array or a tuple.
        arguments: arrays.
        ulp: how far floats may be apart, in steps at the greatest result. XLA has polynomials of
            its own for functions (4), sums in another order and contracts a * b + c (8), divides
            by what such sums leave (24 and more). Without functions and sums bits are equal.
    """

    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    ulp: float = 0


def _values(*sizes: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed + int(np.prod(sizes)))
    return random.uniform(low, high, sizes).astype(np.float32)


X, Y = _values(4, 6), _values(4, 6, seed=1)
SQUARE = _values(4, 4) + 3 * np.eye(4, dtype=np.float32)
DEFINITE = (SQUARE @ SQUARE.T).astype(np.float32)
N = np.arange(-12, 12, dtype=np.int32).reshape(4, 6)
U = np.arange(24, dtype=np.uint8).reshape(4, 6)
BITS = N > 3
IMAGE, KERNEL = _values(2, 8, 8, 3), _values(3, 3, 3, 4)
KEY = np.array([17, 42], np.uint32)
ROWS = np.array([3, 0, 2], np.int32)
NHWC = ("NHWC", "HWIO", "NHWC")
HALF = X.astype(np.float16)
BRAIN = X.astype(jnp.bfloat16)


def _convolve(x: Any, w: Any, **options: Any) -> Any:
    return lax.conv_general_dilated(x, w, dimension_numbers=NHWC, **options)


def _pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _network(parameters: Any, x: Any) -> Any:
    w, dense, bias = parameters
    hidden = _pool(nn.relu(_convolve(x, w, window_strides=(1, 1), padding="SAME")))
    logits = hidden.reshape(hidden.shape[0], -1) @ dense + bias
    return -jnp.mean(nn.log_softmax(logits)[:, 1])


def _network_gradient(w: Any, dense: Any, bias: Any, x: Any) -> Any:
    return jax.grad(_network)((w, dense, bias), x)


def _attention(x: Any, q: Any, k: Any, v: Any) -> Any:
    queries, keys, values = x @ q, x @ k, x @ v
    scores = queries @ keys.T / np.float32(2.0)
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return nn.softmax(jnp.where(mask, scores, -1e9), axis=-1) @ values


def _block(x: Any, q: Any, k: Any, v: Any, up: Any, down: Any) -> Any:
    y = x + _attention(x, q, k, v)
    mean, variance = jnp.mean(y, -1, keepdims=True), jnp.var(y, -1, keepdims=True)
    y = (y - mean) * lax.rsqrt(variance + 1e-5)
    return jnp.mean((y + nn.gelu(y @ up) @ down) ** 2)


def _transformer_gradient(*parameters: Any) -> Any:
    return jax.grad(_block, argnums=(0, 1, 3, 5))(*parameters)


def _newton(x: Any) -> Any:
    def go_on(state: Any) -> Any:
        return (jnp.abs(state[0] ** 2 - 2) > 1e-4) & (state[1] < 20)

    def step(state: Any) -> Any:
        return state[0] - (state[0] ** 2 - 2) / (2 * state[0]), state[1] + 1

    return lax.while_loop(go_on, step, (x, jnp.int32(0)))


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), jnp.zeros(6, jnp.float32), x)


def _collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


def _batch_norm(x: Any, scale: Any, offset: Any) -> Any:
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-3) * scale + offset


#: By name. Without a bound the bits are equal.
PROGRAMS: dict[str, Program] = {
    "arithmetic": Program(lambda x, y: (x + y) * (x - y) / (jnp.abs(y) + 1), (X, Y), 2),
    "integers": Program(lambda n: (n * n - 5) // 3 + n % 4 + (n << 2) + (n >> 1), (N,)),
    "bits": Program(lambda n: (n & 6) ^ (~n | 3), (N,)),
    "counts of bits": Program(lambda u: (lax.population_count(u), lax.clz(u)), (U,)),
    "functions": Program(lambda x: jnp.sin(x) + jnp.exp(x) - jnp.tanh(x) * jnp.cos(x), (X,), 4),
    "more functions": Program(
        lambda x: (jnp.log1p(x * x), jnp.expm1(x), jnp.cbrt(x), lax.rsqrt(x * x + 1)), (X,), 4
    ),
    "erf": Program(lambda x: (lax.erf(x), lax.erfc(x), lax.erf_inv(x)), (X,), 8),
    "gamma": Program(lambda x: (lax.lgamma(x + 2), lax.digamma(x + 2)), (X,), 32),
    "inverse functions": Program(lambda x: (jnp.arcsin(x), jnp.arctan2(x, 2 * x)), (X,), 8),
    "comparison": Program(lambda x, y: jnp.where(x < y, x, y) == jnp.minimum(x, y), (X, Y)),
    "rounding": Program(lambda x: (jnp.round(9 * x), jnp.floor(9 * x), jnp.sign(x)), (X,)),
    "conversion": Program(lambda x, n: (x.astype(jnp.int32), n.astype(jnp.float16)), (X, N)),
    "bitcast": Program(lambda x: lax.bitcast_convert_type(x, jnp.uint32), (X,)),
    "bitcast to bytes": Program(lambda x: lax.bitcast_convert_type(x, jnp.uint8), (X,)),
    "half precision": Program(lambda x: jnp.sum(x * x + 1, 0), (HALF,), 2),
    "bfloat16": Program(lambda x: jnp.maximum(x * 2, x + 1), (BRAIN,)),
    "reduced precision": Program(lambda x: lax.reduce_precision(x, 5, 10), (X,)),
    "complex": Program(lambda x, y: jnp.abs(lax.complex(x, y) * (1 + 2j)), (X, Y), 4),
    "sum": Program(lambda x: (x.sum(), x.sum(0), x.mean(1)), (X,), 24),
    "sum of integers": Program(lambda n: (n.sum(), n.sum(1), n.max(0), n.prod(1)), (N,)),
    "extremes": Program(lambda x: (x.max(), x.min(0), x.argmax(1), x.argmin()), (X,)),
    "truth": Program(lambda b: (b.any(0), b.all(1), b.sum()), (BITS,)),
    "logsumexp": Program(lambda x: nn.logsumexp(x, axis=-1), (X,), 8),
    "softmax": Program(lambda x: nn.softmax(x), (X,), 8),
    "variance": Program(lambda x: jnp.var(x, axis=0), (X,), 24),
    "matrix product": Program(lambda x, y: x @ y.T, (X, Y), 8),
    "batched product": Program(
        lambda x, y: jnp.einsum("bij,bjk->bik", x.reshape(2, 2, 6), y.reshape(2, 6, 2)), (X, Y), 8
    ),
    "product of integers": Program(lambda n: n @ n.T, (N,)),
    "outer product": Program(lambda x, y: jnp.tensordot(x[0], y[1], 0), (X, Y)),
    "convolution": Program(
        lambda x, w: _convolve(x, w, window_strides=(1, 1), padding="SAME"), (IMAGE, KERNEL), 8
    ),
    "strided convolution": Program(
        lambda x, w: _convolve(x, w, window_strides=(2, 1), padding=((1, 2), (0, 1))),
        (IMAGE, KERNEL),
        8,
    ),
    "dilated convolution": Program(
        lambda x, w: _convolve(
            x,
            w,
            window_strides=(1, 1),
            padding=((1, 2), (0, 1)),
            rhs_dilation=(2, 2),
            lhs_dilation=(1, 2),
        ),
        (IMAGE, KERNEL),
        8,
    ),
    "grouped convolution": Program(
        lambda x, w: _convolve(
            x, w[:, :, :1, :3], window_strides=(1, 1), padding="SAME", feature_group_count=3
        ),
        (IMAGE, KERNEL),
        8,
    ),
    "max pooling": Program(_pool, (IMAGE,)),
    "average pooling": Program(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9,
        (IMAGE,),
        8,
    ),
    "gradient of max pooling": Program(jax.grad(lambda x: jnp.sum(_pool(x) ** 2)), (IMAGE,), 2),
    "batch norm": Program(_batch_norm, (IMAGE, X[0, :3], Y[0, :3]), 8),
    "gather": Program(lambda x, i: x[i], (X, ROWS)),
    "gather of elements": Program(lambda x, i: x[i, i], (X, ROWS)),
    "take along axis": Program(lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (X,)),
    "scatter": Program(lambda x, i, y: x.at[i].set(y[:3]), (X, ROWS, Y)),
    "scatter-add": Program(lambda x, i: x.at[i, 1].add(1.5), (X, ROWS), 1),
    "scatter-max": Program(lambda n, i: n.at[i].max(3), (N, ROWS)),
    "one-hot": Program(lambda i: nn.one_hot(i, 5), (ROWS,)),
    "dynamic slice": Program(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)), (X, ROWS)),
    "dynamic update": Program(
        lambda x, i, y: lax.dynamic_update_slice(x, y[:2, :2], (i[0], i[2])), (X, ROWS, Y)
    ),
    "slices": Program(lambda x: (x[1:4:2, ::-1], x[..., 2:5]), (X,)),
    "pad": Program(lambda x: lax.pad(x, 7.0, ((1, 0, 1), (-1, 2, 0))), (X,)),
    "concatenate": Program(lambda x, y: jnp.concatenate([x, y, x[:, :2]], 1), (X, Y)),
    "transpose": Program(lambda x: x.reshape(2, 2, 6).transpose(2, 0, 1).reshape(3, 8), (X,)),
    "tile": Program(lambda x: jnp.tile(x[:2, :2], (2, 3)), (X,)),
    "roll": Program(lambda x: jnp.roll(x, 2, axis=1), (X,)),
    "iota": Program(lambda x: x + jnp.arange(6) * jnp.eye(4, 6), (X,), 1),
    "sort": Program(lambda x: jnp.sort(x, axis=0), (X,)),
    "argsort": Program(lambda x: jnp.argsort(x, axis=1), (X,)),
    "sort by keys": Program(lambda n, x: lax.sort((n % 5, x), num_keys=2), (N, X)),
    "top_k": Program(lambda x: lax.top_k(x, 3), (X,)),
    "median": Program(lambda x: jnp.median(x, axis=1), (X,), 1),
    "cumulative sum": Program(lambda x: jnp.cumsum(x, axis=1), (X,), 8),
    "cumulative product": Program(lambda n: jnp.cumprod(n, axis=0), (N,)),
    "cumulative maximum": Program(lambda x: lax.cummax(x, axis=1), (X,)),
    "prefix sums": Program(lambda n: lax.associative_scan(jnp.add, n), (N,)),
    "fft": Program(lambda x: jnp.fft.fft(x), (X,), 8),
    "rfft and back": Program(lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), (X,), 8),
    "cholesky": Program(jnp.linalg.cholesky, (DEFINITE,), 8),
    "triangular solve": Program(lambda a, b: solve_triangular(a, b, lower=True), (SQUARE, X), 8),
    "triangular solve, transposed": Program(
        lambda a, b: solve_triangular(a, b, trans=1, unit_diagonal=True), (SQUARE, X), 8
    ),
    "while": Program(_newton, (np.float32(1),), 2),
    "while over integers": Program(_collatz, (np.int32(27),)),
    "for": Program(lambda n: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, n), (N,)),
    "scan": Program(_scan, (X,), 8),
    "reverse of a scan": Program(jax.grad(lambda x: jnp.sum(_scan(x)[0])), (X,), 8),
    "cond": Program(
        lambda x, p: lax.cond(p[0, 0], lambda y: y * 2, lambda y: y - 1, x), (X, BITS), 1
    ),
    "switch": Program(
        lambda x, i: lax.switch(i[0], [jnp.sin, lambda y: -y, jnp.square, jnp.abs], x),
        (X, ROWS),
        2,
    ),
    "random bits": Program(lambda k: jr.bits(k, (5,)), (KEY,)),
    "uniform": Program(lambda k: jr.uniform(k, (3, 2)), (KEY,)),
    "normal": Program(lambda k: jr.normal(k, (7,)), (KEY,), 8),
    "permutation": Program(lambda k: jr.permutation(k, 9), (KEY,)),
    "categorical": Program(lambda k, x: jr.categorical(k, x, axis=1), (KEY, X)),
    "vmap of a product": Program(jax.vmap(lambda x, y: x @ y), (X, Y), 8),
    "custom call of a composite": Program(lambda x: nn.silu(x) + nn.relu6(3 * x), (X,), 4),
    "attention": Program(_attention, (X, *[_values(6, 4, seed=s) for s in range(3)]), 8),
    "gradient of a CNN": Program(
        _network_gradient, (KERNEL, _values(64, 3), _values(3), IMAGE), 32
    ),
    "gradient of a transformer": Program(
        _transformer_gradient,
        (X, *[_values(6, 6, seed=s) for s in range(3)], _values(6, 12), _values(12, 6)),
        32,
    ),
}


class Dump(NamedTuple):
    """What JAX makes of a program.

    Attributes:
        unoptimised, optimised: HLO text, with all constants.
        results: what the compiled program gives.
    """

    unoptimised: str
    optimised: str
    results: list[np.ndarray]


def dump(function: Callable[..., Any], arguments: tuple[np.ndarray, ...]) -> Dump:
    """Compiles and runs a function."""
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    compiled = lowered.compile()
    results = [np.asarray(each) for each in jax.tree.leaves(compiled(*arguments))]
    return Dump(lowered.compiler_ir("hlo").as_hlo_text(True), whole_text(compiled), results)


def whole_text(compiled: Any) -> str:
    """The optimised program; `as_text` would leave out the numbers of large constants."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    (module,) = compiled.runtime_executable().hlo_modules()
    return module.to_string(options)


def in_steps(actual: Any, expected: Any) -> float:
    """The greatest distance, in steps at the greatest element; NaN and infinities are equal."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        return float(np.any(actual != expected))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    error = np.abs(actual.astype(wide) - expected.astype(wide))
    greatest = np.max(np.abs(expected.astype(wide)), initial=0, where=np.isfinite(expected))
    unit = float(jnp.finfo(expected.dtype).eps) * max(float(greatest), 1e-30)
    return float(np.max(np.where(same, 0, error), initial=0) / unit)


def check(text: str, arguments: Any, wanted: Any, ulp: float) -> None:
    """Asserts that the reference of a text gives what is wanted."""
    results = mx.reference(mx.import_hlo(text))(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for actual, expected in zip(results, wanted, strict=True):
        assert in_steps(actual, expected) <= ulp
