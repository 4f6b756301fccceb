"""JAX's functions on traced values: values, derivatives and batches agree with JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.harness import compiled_rows
from tests.selection import quick_rows

VECTOR = np.linspace(0.1, 1.3, 5, dtype=np.float32)
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4) / 7 - 0.6
SQUARE = np.float32([[2, 0.5, 0.1], [0.3, 3, 0.2], [0.1, 0.4, 1.5]])
TABLE = jnp.arange(10.0)


def windows(x, mode):
    """Gather windows of two elements; two of the windows lie partly outside the operand."""
    numbers = lax.GatherDimensionNumbers((1,), (), (0,))
    return lax.gather(x, jnp.array([[4], [1], [-1]]), numbers, (2,), mode=mode)


def scatter_windows(x):
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    return lax.scatter_max(x, jnp.array([[4], [1], [0]]), jnp.ones((3, 2)), numbers)


#: Functions of one float array, and their arguments, by name.
FUNCTIONS = {
    "elementwise": (lambda x: jnp.sin(x) * jnp.exp(-x) + jnp.log1p(x) / jnp.sqrt(x), VECTOR),
    "weak numbers": (lambda x: 2 * x + 1.5 - x / 3, VECTOR),
    "where": (lambda x: jnp.where(x > 0, x**2, jnp.tanh(x)), MATRIX),
    "matmul": (lambda x: x @ x.T + jnp.dot(x, jnp.ones(4)), MATRIX),
    "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x), MATRIX),
    "reductions": (lambda x: x.sum(0) * x.max() + jnp.mean(x) - jnp.var(x, 0), MATRIX),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), MATRIX),
    "softmax": (lambda x: jax.nn.softmax(x), MATRIX),
    "gelu": (lambda x: jax.nn.gelu(x), MATRIX),
    "relu": (lambda x: jax.nn.relu(x), MATRIX),
    "indexing": (lambda x: x[1:, ::2] + x[..., -1:][1:], MATRIX),
    "gather": (lambda x: x[jnp.array([0, 2, 0])], MATRIX),
    **{
        f"windows outside, {mode}": (lambda x, mode=mode: windows(x, mode), VECTOR)
        for mode in ("promise_in_bounds", "clip", "fill")
    },
    "tangents of a maximum, a window outside": (
        lambda x: jax.jvp(lambda y: scatter_windows(y), (x,), (x,))[1],
        VECTOR,
    ),
    "scatter add": (lambda x: TABLE.at[jnp.array([1, 3, 3])].add(x[:, 0]), MATRIX),
    "scatter set": (lambda x: x.at[1].set(x[0] * 2), MATRIX),
    "concatenate": (lambda x: jnp.concatenate([x, x * 2], axis=1), MATRIX),
    "pad": (lambda x: jnp.pad(x, ((1, 0), (0, 2)), constant_values=3), MATRIX),
    "roll": (lambda x: jnp.roll(x, 1, axis=0), MATRIX),
    "sort": (lambda x: jnp.sort(x, axis=0), MATRIX),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), MATRIX),
    "cumprod": (lambda x: jnp.cumprod(x, axis=1), MATRIX),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T), SQUARE),
    "inv": (lambda x: jnp.linalg.inv(x), SQUARE),
    "solve": (lambda x: jnp.linalg.solve(x, x[0]), SQUARE),
    "det": (lambda x: jnp.linalg.det(x), SQUARE),
    "eigh": (lambda x: jnp.linalg.eigh(x + x.T)[0], SQUARE),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), SQUARE),
    "qr": (lambda x: jnp.linalg.qr(x)[1], SQUARE),
    "expm": (lambda x: jax.scipy.linalg.expm(x), SQUARE),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), VECTOR),
    "gammaln": (lambda x: jax.scipy.special.gammaln(x), VECTOR),
    "erf": (lambda x: jax.scipy.special.erf(x), VECTOR),
    "igamma": (lambda x: lax.igamma(x, x * 2), VECTOR),
    "norm.logpdf": (lambda x: jax.scipy.stats.norm.logpdf(x), VECTOR),
    "conv": (
        lambda x: lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"),
        MATRIX,
    ),
    "max pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        MATRIX,
    ),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y + 1, c.sum()), x[0], x)[1], MATRIX),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x), VECTOR),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), VECTOR),
    "switch": (lambda x: lax.switch(1, [jnp.sin, jnp.cos, jnp.tan], x), VECTOR),
    "map": (lambda x: lax.map(lambda row: row.sum() * row, x), MATRIX),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), VECTOR),
    "checkpoint": (lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x), VECTOR),
    "jit": (lambda x: jax.jit(lambda y: jnp.sin(y) * x.sum())(x), VECTOR),
    "vmap": (lambda x: jax.vmap(lambda y: jnp.sin(y) * x.sum())(x), VECTOR),
    "grad": (lambda x: jax.grad(lambda y: (jnp.cos(y) * x).sum())(x), VECTOR),
    "jvp": (lambda x: jax.jvp(jnp.sin, (x,), (x * x,))[1], VECTOR),
    "hessian": (lambda x: jax.hessian(lambda y: (y**3).sum())(x), VECTOR),
    "linearize": (lambda x: jax.linearize(jnp.sin, x)[1](x), VECTOR),
    "custom_jvp": (lambda x: jax.nn.silu(x) * jax.nn.relu6(x), VECTOR),
    "stop_gradient": (lambda x: x * lax.stop_gradient(x), VECTOR),
    "image.resize": (lambda x: jax.image.resize(x, (6, 6), "linear"), MATRIX),
    "segment_sum": (lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 1]), 2), MATRIX),
    "interp": (lambda x: jnp.interp(x, jnp.arange(3.0), jnp.array([1.0, 4, 2])), VECTOR),
    "histogram": (lambda x: jnp.histogram(x, bins=3)[0].astype(jnp.float32), VECTOR),
    "random": (lambda x: x * jax.random.normal(jax.random.key(0), x.shape), VECTOR),
    "top_k": (lambda x: lax.top_k(x, 2)[0], MATRIX),
}

CASES = pytest.mark.parametrize("name", FUNCTIONS)


def assert_alike(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@functools.cache
def compiled(side):
    """Return the values and the gradients of all functions, in one program each."""
    module, jit = (mx, mx.jit) if side == "ours" else (jax, jax.jit)
    values = {name: (function, (x,)) for name, (function, x) in FUNCTIONS.items()}
    gradients = {
        name: (module.grad(squared(function)), (x,)) for name, (function, x) in FUNCTIONS.items()
    }
    return compiled_rows(values, jit), compiled_rows(gradients, jit)


def squared(function):
    return lambda y: jnp.sum(jnp.asarray(function(y)) ** 2)


@CASES
def test_values(name):
    assert_alike(compiled("ours")[0](name), compiled("jax")[0](name))


@CASES
def test_weak_types(name):
    function, x = FUNCTIONS[name]
    got, want = mx.eval_shape(function, x), jax.eval_shape(function, x)
    flags = [leaf.weak_type for leaf in jax.tree.leaves(got)]
    assert flags == [leaf.weak_type for leaf in jax.tree.leaves(want)]


@CASES
def test_gradients(name):
    assert_alike(compiled("ours")[1](name), compiled("jax")[1](name))


@pytest.mark.parametrize("name", quick_rows(FUNCTIONS, ["where", "gather", "scan", "custom_jvp"]))
def test_gradients_outside_of_jit(name):
    function, x = FUNCTIONS[name]
    assert_alike(mx.grad(squared(function))(x), compiled("jax")[1](name))


@pytest.mark.full
@CASES
def test_forward_derivatives(name):
    function, x = FUNCTIONS[name]
    got = mx.jvp(function, (x,), (np.ones_like(x),))
    assert_alike(list(got), list(jax.jvp(function, (x,), (np.ones_like(x),))))


@pytest.mark.full
@CASES
def test_batches(name):
    function, x = FUNCTIONS[name]
    several = np.stack([x, x * 1.1, x * 0.9])
    assert_alike(mx.vmap(function)(several), jax.vmap(function)(several))


@pytest.mark.full
@CASES
def test_the_reference(name):
    function, x = FUNCTIONS[name]
    assert_alike(mx.reference(function)(x), function(jnp.asarray(x)))


def test_a_batch_of_loops():
    def function(x):
        def halvings(y):
            return lax.while_loop(lambda c: c[1] > 0.2, lambda c: (c[0] + 1, c[1] / 2), (0, y))

        return jax.vmap(halvings)(x)

    for found in (mx.jit(function)(VECTOR), mx.reference(function)(VECTOR)):
        assert_alike(found, function(VECTOR))
    slope = mx.grad(lambda x: function(x)[1].sum())(VECTOR)
    np.testing.assert_allclose(slope, 0.5 ** np.asarray(function(VECTOR)[0]))
