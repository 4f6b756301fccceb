"""Programs of all families of operations, for the table of compositions of transformations.

Each is a function of an f64[4] to a short vector, in our words and in JAX's. All are smooth at the
points where they are looked at, whose neighbours stay in the same branch, order and rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import minixla as mx
import minixla.numpy as mnp
from minixla import ops
from minixla.core.shapes import Shape

Function = Callable[[Any], Any]


class Program(NamedTuple):
    """One program.

    Attributes:
        ours: the program.
        jax: the same in JAX, perhaps written otherwise.
        tolerance: relative and absolute; more than 1e-9 only with a stated cause.
        has_forward: whether it has a forward derivative; a reverse one has.
    """

    ours: Function
    jax: Function
    tolerance: float = 1e-9
    has_forward: bool = True


def _both(build: Callable[[Any], Function], **options: Any) -> Program:
    """A program that NumPy's words tell for both."""
    return Program(build(mnp), build(jnp), **options)


_W = np.random.default_rng(0).uniform(-1, 1, (6, 6))


def _unary(n: Any) -> Function:
    def f(x: Any) -> Any:
        y = n.exp(-x) + n.log(x * x + 1) + n.tanh(x) * n.sin(x) + n.cbrt(x) + n.sinh(x)
        return y + n.expm1(x) * n.sqrt(x * x + 0.5) + n.arctan(x) + n.cos(2 * x) / (1 + x * x)

    return f


def _binary(n: Any) -> Function:
    def f(x: Any) -> Any:
        a, b = x[:2], x[2:]
        powers = n.power(a * a + 0.5, b) + n.arctan2(a, b) + n.hypot(a, b)
        return powers + n.maximum(a, b) * n.minimum(a, 2 * b) + n.remainder(a, b) - a / (b * b + 1)

    return f


def _selection(n: Any) -> Function:
    def f(x: Any) -> Any:
        chosen = n.where(x > 0.5, x * x, n.sin(x)) + n.clip(x * x, 0.3, 1.1) * x
        return chosen + n.abs(x) * n.sign(x[::-1]) + n.floor(3 * x) * x**3

    return f


def _integers(n: Any) -> Function:
    def f(x: Any) -> Any:
        steps = n.floor(x * 3).astype(np.int32)
        bits = n.bitwise_count(n.bitwise_xor(n.left_shift(steps, 1), 5)).astype(np.int32)
        hot = (n.abs(steps)[:, None] % 4 == n.arange(4)).astype(np.float64)
        return (x * x) @ hot + x * bits

    return f


def _conversions(n: Any) -> Function:
    return lambda x: (x * x).astype(np.float32).astype(np.float64) * x


def _complex(n: Any) -> Function:
    def f(x: Any) -> Any:
        z = x[:2] + 1j * x[2:]
        w = n.exp(z) * n.conj(z) / (z * z + 3)
        return n.concatenate([n.abs(w), w.real * n.imag(z)])

    return f


def _reductions(n: Any) -> Function:
    def f(x: Any) -> Any:
        y = n.outer(x, n.sin(x))
        return y.sum(0) * y.max(1) + y.std(0) - x.prod() * y[n.argmin(x)]

    return f


def _products(n: Any) -> Function:
    def f(x: Any) -> Any:
        a = n.tanh(x.reshape(2, 2) @ _W[:2, :3])
        return n.einsum("ij,kj,k->i", a, a, x[:2]) + n.matmul(a.T[None], a[None])[0, :2, 1]

    return f


def _softmax(n: Any) -> Function:
    def f(x: Any) -> Any:
        scores = n.outer(x, x) * 0.7
        scores = n.exp(scores - scores.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True) @ _W[:4, :2] @ x[:2]

    return f


def _movement(n: Any) -> Function:
    def f(x: Any) -> Any:
        y = n.concatenate([x.reshape(2, 2).T[::-1], n.tile(x[:2], (2, 1)) * 2], 1)
        return n.pad(y, ((0, 0), (1, 0))).transpose() @ n.sin(x[1:3]) + n.roll(y, 1, 0)[0, 1]

    return f


def _taking(n: Any) -> Function:
    rows = np.array([2, 0, 2])
    return lambda x: (
        n.tanh(x)[rows] * x[(x[1:] > 0.5).astype(np.int32) + 1] + n.take(x, n.argmax(x)) ** 2
    )


def _putting(n: Any) -> Function:
    rows = np.array([3, 0, 3])

    def f(x: Any) -> Any:
        added = n.sin(x).at[rows].add(x[:3] * x[1:]).at[1].set(x[0] * x[2])
        return added.at[rows[:2]].multiply(x[2:], unique_indices=True).at[2].max(x[3])

    return f


def _cumulative(n: Any) -> Function:
    return lambda x: n.cumsum(x * x) * n.cumprod(x) + n.diff(x, append=1.0)


def _python_control_flow(n: Any) -> Function:
    return lambda x: sum((n.sin(x * k) for k in range(3)), x * x) if x.ndim == 1 else x


def _fourier(n: Any, fft: Callable[[Any], Any]) -> Function:
    def f(x: Any) -> Any:
        spectrum = fft(x * x + 0j)
        return n.abs(spectrum) ** 2 + spectrum.real * n.imag(spectrum)[::-1]

    return f


def _folded(x: Any) -> Any:
    folded = ops.reduce(x.reshape(2, 2), 0.0, lambda a, b: a + b + 0.3 * a * b, (0,))
    window = ops.reduce_window(x, 0.0, lambda a, b: a + b + 0.3 * a * b, (2,), (1,), "VALID")
    return mnp.concatenate([folded, window])


def _jax_folded(x: Any) -> Any:
    y = x.reshape(2, 2)
    one, other = (jnp.concatenate(p) for p in ((y[0], x[:-1]), (y[1], x[1:])))
    return one + other + 0.3 * one * other


def _ragged(x: Any) -> Any:
    dot = (((1,), (1,)), ((), ()))
    numbers = ops.RaggedDotDimensionNumbers(dot, (0,), (0,))
    groups = _W[:4].reshape(2, 2, 6)[:, :, :3]
    return ops.ragged_dot(mnp.outer(x[1:], x[:2]), groups, np.array([1, 2]), numbers)[:, 1] * x[0]


def _jax_ragged(x: Any) -> Any:
    y, groups = jnp.outer(x[1:], x[:2]), _W[:4].reshape(2, 2, 6)[:, :, :3]
    return jnp.concatenate([y[:1] @ groups[0], y[1:] @ groups[1]])[:, 1] * x[0]


def _convolution(x: Any) -> Any:
    kernel = mnp.sin(x).reshape(2, 1, 1, 2)
    y = mx.nn.conv(mnp.outer(x, x[:3]).reshape(1, 4, 3, 1), kernel)
    return mx.nn.max_pool(y, (2, 2), (2, 1))[0, :, :, 1].sum(1)


def _jax_convolution(x: Any) -> Any:
    operands = jnp.outer(x, x[:3]).reshape(1, 4, 3, 1), jnp.sin(x).reshape(2, 1, 1, 2)
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(*operands, (1, 1), "SAME", dimension_numbers=numbers)
    window = (1, 2, 2, 1), (1, 2, 1, 1)
    return lax.reduce_window(y, -jnp.inf, lax.max, *window, "VALID")[0, :, :, 1].sum(1)


def _window_sum(x: Any) -> Any:
    y = mx.nn.avg_pool((x * x)[None, :, None], (3,), padding="SAME", count_include_pad=False)
    return y[0, :, 0] * x


def _jax_window_sum(x: Any) -> Any:
    sums = lax.reduce_window(x * x, 0.0, lax.add, (3,), (1,), "SAME")
    return sums / np.array([2, 3, 3, 2]) * x


def _scattered_windows(x: Any) -> Any:
    return ops.select_and_scatter(x, ops.ge, (2,), (2,), "VALID", mnp.sin(x[1:3]), 0.5, ops.add)


def _jax_scattered_windows(x: Any) -> Any:
    # The transpose of what picks the greater of each pair.
    first = x[::2] >= x[1::2]
    source = jnp.sin(x[1:3])
    return jnp.stack([source * first, source * ~first], 1).reshape(4) + 0.5


def _normalized(x: Any) -> Any:
    y = mnp.outer(x, mnp.sin(x[:2]))
    y = mx.nn.batch_norm(y, x[1:3], x[:2] * x[2], 1e-3)[0]
    return mx.nn.batch_norm_inference(y, x[:2], x[2:], x[1:3], x[:2] ** 2, 1e-3).sum(1)


def _jax_normalized(x: Any) -> Any:
    epsilon = float(np.float32(1e-3))  # XLA's is an f32.
    y = jnp.outer(x, jnp.sin(x[:2]))
    scaled = (y - y.mean(0)) / jnp.sqrt(y.var(0) + epsilon)
    y = scaled * x[1:3] + x[:2] * x[2]
    return ((y - x[1:3]) / jnp.sqrt(x[:2] ** 2 + epsilon) * x[:2] + x[2:]).sum(1)


def _dynamic_slices(x: Any) -> Any:
    start = mnp.floor(x[0] * 2).astype(np.int32)
    part = ops.dynamic_slice(x * x, [start], (2,))
    return ops.dynamic_update_slice(mnp.sin(x), part * x[1], [start + 1])


def _jax_dynamic_slices(x: Any) -> Any:
    start = jnp.floor(x[0] * 2).astype(np.int32)
    # JAX counts negative starts from the end; XLA clamps them.
    part = lax.dynamic_slice(x * x, [jnp.clip(start, 0, 2)], (2,))
    return lax.dynamic_update_slice(jnp.sin(x), part * x[1], [jnp.clip(start + 1, 0, 2)])


def _top(x: Any) -> Any:
    values, places = ops.top_k(x * x, 2)
    return values * x[places]


def _jax_top(x: Any) -> Any:
    values, places = lax.top_k(x * x, 2)
    return values * x[places]


def _solved(x: Any) -> Any:
    a = mnp.outer(x, x) + 2 * mnp.eye(4)
    factor = ops.cholesky(a[:3, :3])
    return ops.triangular_solve(factor, mnp.sin(x[1:])[:, None], True, True)[:, 0] + factor[2]


def _jax_solved(x: Any) -> Any:
    factor = jnp.linalg.cholesky((jnp.outer(x, x) + 2 * jnp.eye(4))[:3, :3])
    solution = jax.scipy.linalg.solve_triangular(factor, jnp.sin(x[1:]), lower=True)
    return solution + factor[2]


def _random(x: Any) -> Any:
    state = np.array([1, 2], np.uint64)
    _, bits = ops.rng_bit_generator("rng_three_fry", state, Shape(np.uint32, (4,)))
    return mnp.sin(x) * (bits >> 8).astype(np.float64) / 2**24


def _jax_random(x: Any) -> Any:
    state = jnp.array([1, 0, 2, 0], jnp.uint32)
    algorithm = lax.RandomAlgorithm.RNG_THREE_FRY
    _, bits = lax.rng_bit_generator(state, (4,), algorithm=algorithm)
    return jnp.sin(x) * (bits >> 8).astype(np.float64) / 2**24


def _sorted(x: Any) -> Any:
    keys, payload = ops.sort([x, mnp.sin(x)], lambda a, b, *_: ops.lt(a, b))
    return keys**2 * payload


def _jax_sorted(x: Any) -> Any:
    keys, payload = lax.sort((x, jnp.sin(x)), num_keys=1)
    return keys**2 * payload


def _mapped_scalars(x: Any) -> Any:
    return ops.map([x, mnp.sin(x)], lambda a, b: a * b + ops.exp(a))


#: What one module of operations after the other does.
OPERATIONS = {
    "unary": _both(_unary),
    "binary": _both(_binary),
    "selection": _both(_selection),
    "integers": _both(_integers),
    # The derivative passes through f32, to which rules round in different places.
    "conversions": _both(_conversions, tolerance=1e-6),
    "complex": _both(_complex),
    "fft": Program(_fourier(mnp, lambda z: ops.fft(z, "FFT", (4,))), _fourier(jnp, jnp.fft.fft)),
    "reductions": _both(_reductions),
    "general reducers": Program(_folded, _jax_folded),
    "products": _both(_products),
    "ragged dot": Program(_ragged, _jax_ragged),
    "convolution, max pool": Program(_convolution, _jax_convolution),
    "average pool": Program(_window_sum, _jax_window_sum),
    "select and scatter": Program(_scattered_windows, _jax_scattered_windows),
    "batch norm": Program(_normalized, _jax_normalized),
    "softmax": _both(_softmax),
    "movement": _both(_movement),
    "gather": _both(_taking),
    "scatter": _both(_putting),
    "dynamic slices": Program(_dynamic_slices, _jax_dynamic_slices),
    "sort": Program(_sorted, _jax_sorted),
    "top-k": Program(_top, _jax_top),
    "cumulative": _both(_cumulative),
    "linear algebra": Program(_solved, _jax_solved),
    "random bits": Program(_random, _jax_random),
    "map operation": Program(_mapped_scalars, lambda x: x * jnp.sin(x) + jnp.exp(x)),
    "Python control flow": _both(_python_control_flow),
}
