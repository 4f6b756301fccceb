"""Right programs in which tests plant faults: each operation stands in a line of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.tools.planting import random_arrays

_random = random_arrays()
X, Y, ROW, W = _random(3, 4), _random(3, 4), _random(4), _random(4, 4)
SQUARE, POSITIVE = _random(4, 4), np.float32([0.5, 1.5, 2.5, 3.0])
Z = (_random(4) + 1j * _random(4)).astype("c8")
INTEGERS = np.int32([12, -7, 20, 15, 11])
IMAGE, KERNEL = _random(1, 6, 6, 2), _random(3, 3, 2, 2)
BF16, F16 = X.astype(ml_dtypes.bfloat16), X.astype("f2")
LARGE, TALL = _random(64, 48), _random(48, 5)
MATRIX, RIGHT_SIDE = _random(3, 3), _random(3, 2)
CORNER = np.float32([0, 1.5, -2, 0.5])
FORWARD = {"gradients": False}


def dense(x: Any, w: Any) -> Any:
    """Compute a layer."""
    hidden = x @ w
    active = mnp.tanh(hidden)
    total = active.sum(axis=1)
    return total * 0.5


def elementary(x: Any) -> Any:
    """Apply functions of elements."""
    wave = mnp.sin(x)
    power = mnp.exp(x)
    root = mnp.sqrt(power)
    gate = mx.nn.sigmoid(x)
    growth = mnp.log1p(root)
    return mnp.stack([wave, gate, growth])


def cubes(x: Any) -> Any:
    """Multiply by hand."""
    square = x * x
    cube = square * x
    return cube - square


def quotient(x: Any, y: Any) -> Any:
    """Divide."""
    size = mnp.abs(y) + 1.0
    return x / size


def remainder(x: Any, y: Any) -> Any:
    """Divide, and keep the rest, which jumps where the quotient is whole."""
    rest = mx.lax.rem(x, y)
    return rest * 2


def looped(x: Any, y: Any) -> Any:
    """Run a loop."""

    def body(i: Any, state: Any) -> Any:
        active = mnp.tanh(state)
        return active + y

    return mx.fori_loop(0, 3, body, x)


def while_small(x: Any) -> Any:
    """Run a loop until a value is large."""

    def body(state: Any) -> Any:
        grown = mnp.exp(state * 0.5)
        return grown + state

    return mx.while_loop(lambda state: state.sum() < 20, body, x)


def branching(x: Any, y: Any) -> Any:
    """Choose one of two branches."""

    def one(z: Any) -> Any:
        active = mnp.tanh(z)
        return active * y

    return mx.cond(x.sum() < 1e6, one, lambda z: z, x)


def scanned(x: Any) -> Any:
    """Scan rows."""

    def step(carry: Any, row: Any) -> Any:
        carry = mnp.sin(carry)
        return carry + row, carry * 2

    return mx.scan(step, x[0], x)


def nested(x: Any, w: Any) -> Any:
    """Call jitted functions in jitted functions."""
    inner = mx.jit(lambda h: mnp.tanh(h))
    outer = mx.jit(lambda h: inner(h @ w))
    return outer(x)


def per_row(x: Any, w: Any) -> Any:
    """Map over rows."""

    def row(each: Any) -> Any:
        hidden = each @ w
        active = mnp.exp(hidden * 0.1)
        top = active.max()
        order = mnp.sort(active)
        return order / top

    return mx.vmap(row)(x)


def rows_shifted(x: Any) -> Any:
    """Map over rows: slices, padding, concatenation, sums, transposition."""

    def row(each: Any) -> Any:
        head = each[1:]
        padded = mnp.pad(head, (0, 1))
        joined = mnp.concatenate([padded, each])
        both = joined.reshape(2, 4)
        flipped = both.T
        total = flipped.sum(axis=0)
        return mnp.cumsum(each) * total[0]

    return mx.vmap(row)(x)


def loss_gradient(x: Any, w: Any) -> Any:
    """Compute a gradient."""

    def loss(w: Any) -> Any:
        hidden = x @ w
        active = mnp.tanh(hidden)
        return (active * active).sum()

    return mx.grad(loss)(w)


def second_derivative(x: Any) -> Any:
    """Compute a gradient of a gradient."""

    def energy(x: Any) -> Any:
        wave = mnp.sin(x)
        power = mnp.exp(wave)
        return (power * x).sum()

    def slope(x: Any) -> Any:
        return (mx.grad(energy)(x) * x).sum()

    return mx.grad(slope)(x)


def train_step(w: Any, x: Any) -> Any:
    """Take a step of descent in a loop."""

    def loss(w: Any) -> Any:
        active = mx.nn.sigmoid(x @ w)
        return (active**2).mean()

    def step(i: Any, w: Any) -> Any:
        return w - 0.1 * mx.grad(loss)(w)

    return mx.fori_loop(0, 2, step, w)


def row_gradients(w: Any, x: Any) -> Any:
    """Compute gradients for each row."""

    def loss(w: Any, row: Any) -> Any:
        hidden = w * row
        return mnp.tanh(hidden).sum()

    return mx.vmap(mx.grad(loss), in_axes=(None, 0))(w, x)


def tangents(x: Any) -> Any:
    """Compute a forward derivative."""

    def curve(x: Any) -> Any:
        wave = mnp.cos(x)
        return wave * x

    return mx.jvp(curve, (x,), (mnp.ones_like(x),))[1]


def integers(i: Any) -> Any:
    """Compute with integers."""
    tripled = i * 3
    part = mx.lax.div(tripled, mnp.int32(4))
    rest = tripled & 6
    bits = rest ^ part
    shifted = bits >> 1
    best = mnp.maximum(shifted, -i)
    return best - mnp.min(shifted)


def ordered(x: Any) -> Any:
    """Sort and search."""
    order = mnp.sort(x)
    best = mnp.argmax(x)
    picked = x[best]
    sums = mnp.cumsum(order)
    backwards = sums[::-1]
    return backwards * picked


def masked(x: Any) -> Any:
    """Compare and select."""
    is_large = x > 0.5
    chosen = mnp.where(is_large, x, -x)
    clipped = mnp.clip(chosen, -1, 2)
    whole = mnp.floor(clipped)
    return clipped + whole


def complex_wave(z: Any) -> Any:
    """Compute with complex numbers."""
    power = mnp.exp(z)
    product = power * z
    other = mnp.conj(product)
    size = mnp.abs(product)
    return other * size


def spectrum(x: Any) -> Any:
    """Transform and filter."""
    waves = mnp.fft.fft(x)
    power = waves.imag
    return power * x


def solved(a: Any, b: Any) -> Any:
    """Solve linear systems."""
    positive = a @ a.T + 4 * mnp.eye(3)
    factor = mnp.linalg.cholesky(positive)
    return mx.lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)


def moved(x: Any) -> Any:
    """Move elements."""
    turned = x.T
    joined = mnp.concatenate([turned, x])
    part = joined[1:5]
    wide = mnp.pad(part, ((0, 1), (0, 0)))
    picked = wide[np.array([0, 3, 2])]
    return picked * 2


def updated(x: Any) -> Any:
    """Write elements."""
    start = mnp.zeros(6)
    placed = mx.lax.dynamic_update_slice(start, x, (1,))
    return placed * 3


def images(x: Any, kernel: Any) -> Any:
    """Convolve and pool."""
    filtered = mx.nn.conv(x, kernel)
    pooled = mx.nn.max_pool(filtered, (2, 2), (2, 2))
    return mnp.tanh(pooled)


def narrow(x: Any) -> Any:
    """Compute in a narrow type."""
    active = mnp.tanh(x)
    product = active * x
    wide = product.astype("float32")
    return wide.sum()


def rounded(x: Any) -> Any:
    """Round in the middle."""
    small = x.astype(mnp.bfloat16)
    wide = small.astype("float32")
    return mnp.sin(wide)


def normalized(x: Any) -> Any:
    """Normalize rows."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    scale = mx.lax.rsqrt(variance + 1e-5)
    return centred * scale


def probabilities(x: Any) -> Any:
    """Compute probabilities."""
    top = x.max(axis=-1, keepdims=True)
    power = mnp.exp(x - top)
    total = power.sum(axis=-1, keepdims=True)
    return power / total


def in_jax(x: Any) -> Any:
    """Compute with JAX's functions."""
    hidden = jnp.tanh(x)
    total = jnp.cumsum(hidden)
    return jnp.where(total > 0, total, jnp.exp(x))


def jax_loop(x: Any) -> Any:
    """Run JAX's loop."""

    def body(i: Any, state: Any) -> Any:
        return jnp.sin(state) + x

    return jax.lax.fori_loop(0, 3, body, x)


def scalar(x: Any) -> Any:
    """Compute with an array of rank 0."""
    wave = mnp.cos(x)
    return wave * x


IMPORTED = mx.make_graph(lambda x: mnp.exp(mnp.tanh(x)) * x)(np.ones(4, "f4")).stablehlo()


def imported(x: Any) -> Any:
    """Call an imported program."""
    return mx.import_stablehlo(IMPORTED)(x)


def rows_in_loops(x: Any) -> Any:
    """Map loops and branches over rows."""

    def row(each: Any) -> Any:
        grown = mx.while_loop(lambda y: y.sum() < 9, lambda y: y * 1.5 + 1, each)
        chosen = mx.cond(each[0] > 0, mnp.exp, mnp.negative, each)
        return mx.scan(lambda c, y: (c * y, c), chosen[0], grown)[1]

    return mx.vmap(row)(x)


def step_through_a_scan(w: Any, x: Any) -> Any:
    """Take a step of training of a recurrent net."""

    def loss(w: Any) -> Any:
        start = mnp.zeros(4)
        last, _ = mx.scan(lambda c, row: (mnp.tanh(c * w + row), None), start, x)
        return (last * last).sum()

    return w - 0.1 * mx.grad(loss)(w)


def large_map(x: Any) -> Any:
    """Apply functions to a large array."""
    wave = mnp.sin(x)
    return wave * x
