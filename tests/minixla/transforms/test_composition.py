"""Every pair of transformations on a set of programs, against JAX, in double precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla import ops

Function = Callable[..., Any]


class Side(NamedTuple):
    """One framework's transformations."""

    jit: Function
    grad: Function
    jvp: Function
    vjp: Function
    vmap: Function
    numpy: Any


OURS = Side(mx.jit, mx.grad, mx.jvp, mx.vjp, mx.vmap, mnp)
JAX = Side(jax.jit, jax.grad, jax.jvp, jax.vjp, jax.vmap, jnp)

# Each maps a function from arrays to one array to another such function.
TRANSFORMATIONS: dict[str, Callable[[Side, Function], Function]] = {
    "jit": lambda side, f: side.jit(f),
    "grad": lambda side, f: side.grad(lambda *xs: (f(*xs) ** 2).sum()),
    "jvp": lambda side, f: lambda *xs: side.jvp(f, xs, tuple(0.5 * x + 1 for x in xs))[1],
    "vjp": lambda side, f: lambda *xs: _pulled(side, f, xs),
    "vmap": lambda side, f: (
        lambda *xs: side.vmap(f, in_axes=1)(*(side.numpy.stack([x, 1.5 * x, -x], 1) for x in xs))
    ),
}


PAIRS = list(itertools.product(TRANSFORMATIONS, repeat=2))


def _pulled(side: Side, f: Function, xs: tuple[Any, ...]) -> Any:
    out, pullback = side.vjp(f, *xs)
    return pullback(side.numpy.ones_like(out) * 0.7)[-1]


def _softmax_dot(numpy: Any) -> Function:
    def f(x: Any, w: Any) -> Any:
        exponentials = numpy.exp(x - x.max(1, keepdims=True))
        return exponentials / exponentials.sum(1, keepdims=True) @ w

    return f


def _convolution(conv: Function) -> Function:
    return lambda x, k: conv(x.reshape(1, 4, 3, 2), k.reshape(2, 2, 2, 1))


def _our_conv(x: Any, k: Any) -> Any:
    return mx.nn.max_pool(mx.nn.conv(x, k), (2, 2))


def _jax_conv(x: Any, k: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=numbers)
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, window, (1, 1, 1, 1), "VALID")


def _with_rule(custom_jvp: Function, numpy: Any) -> Function:
    rule = custom_jvp(lambda x, y: numpy.sin(x) * y)
    rule.defjvp(lambda p, t: (rule(*p), numpy.cos(p[0]) * p[1] * t[0] * 2 + numpy.sin(p[0]) * t[1]))
    return rule


def _indexed(numpy: Any) -> Function:
    rows = np.array([2, 0, 2])
    return lambda x, y: numpy.tanh(x)[rows, 1:].at[0].add(y[:2]) * y[0]


def _batch_norm(x: Any, y: Any) -> Any:
    return mx.nn.batch_norm(x, y, y + 1, 1e-3)[0]


def _jax_batch_norm(x: Any, y: Any) -> Any:
    mean = x.mean(0)
    variance = ((x - mean) ** 2).mean(0)
    # XLA's epsilon is an f32.
    return (x - mean) / jnp.sqrt(variance + float(np.float32(1e-3))) * y + y + 1


_R = np.random.default_rng(0)
_X, _Y, _W = _R.standard_normal((4, 3)), _R.standard_normal(3), _R.standard_normal((3, 2))

# name: ours, JAX's, arguments
PROGRAMS: dict[str, tuple[Function, Function, tuple[np.ndarray, ...]]] = {
    "elementwise": (
        lambda x, y: mnp.tanh(x) * y + mnp.exp(-x) / (1 + x * x),
        lambda x, y: jnp.tanh(x) * y + jnp.exp(-x) / (1 + x * x),
        (_X, _Y),
    ),
    "strict": (
        lambda x, y: ops.mul(ops.sin(x), y, broadcast_dimensions=(1,)),
        lambda x, y: jnp.sin(x) * y,
        (_X, _Y),
    ),
    "softmax and dot": (_softmax_dot(mnp), _softmax_dot(jnp), (_X, _W)),
    "select": (
        lambda x, y: mnp.where(x > y, x * y, mnp.sin(x)),
        lambda x, y: jnp.where(x > y, x * y, jnp.sin(x)),
        (_X, _Y),
    ),
    "movement": (
        lambda x, y: mnp.concatenate([x.T[::-1], x.reshape(3, 4) * 2]).transpose() @ mnp.tile(y, 2),
        lambda x, y: jnp.concatenate([x.T[::-1], x.reshape(3, 4) * 2]).transpose() @ jnp.tile(y, 2),
        (_X, _Y),
    ),
    "reductions": (
        lambda x, y: (x.prod(0) + x.max(0) + x.std(0)) * y.cumsum(),
        lambda x, y: (x.prod(0) + x.max(0) + x.std(0)) * y.cumsum(),
        (_X, _Y),
    ),
    "convolution and pooling": (
        _convolution(_our_conv),
        _convolution(_jax_conv),
        (_R.standard_normal((4, 6)), _R.standard_normal((2, 4))),
    ),
    "batch norm": (_batch_norm, _jax_batch_norm, (_X, _Y)),
    "indexing": (_indexed(mnp), _indexed(jnp), (_X, _Y)),
    "custom_jvp": (_with_rule(mx.custom_jvp, mnp), _with_rule(jax.custom_jvp, jnp), (_Y, _Y + 1)),
    "stop_gradient": (
        lambda x, y: mx.stop_gradient(x) * x * y,
        lambda x, y: jax.lax.stop_gradient(x) * x * y,
        (_X, _Y),
    ),
    "Python control flow": (
        lambda x, y: sum((x * k for k in range(3)), y) if x.ndim == 2 else x,
        lambda x, y: sum((x * k for k in range(3)), y) if x.ndim == 2 else x,
        (_X, _Y),
    ),
    "jit inside": (
        mx.jit(lambda x, y: mx.jit(mnp.cos)(x) * y),
        jax.jit(lambda x, y: jax.jit(jnp.cos)(x) * y),
        (_X, _Y),
    ),
}


def _assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("pair", PAIRS, ids="-of-".join)
def test_pairs_in_the_reference(program: str, pair: tuple[str, str]) -> None:
    ours, theirs, arguments = PROGRAMS[program]
    for name in reversed(pair):
        ours = TRANSFORMATIONS[name](OURS, ours)
        theirs = TRANSFORMATIONS[name](JAX, theirs)
    with jax.enable_x64(True):
        _assert_close(mx.reference(ours)(*arguments), theirs(*arguments))


@pytest.mark.parametrize("program", ["convolution and pooling"])
@pytest.mark.parametrize("pair", PAIRS, ids="-of-".join)
def test_pairs_compiled(program: str, pair: tuple[str, str]) -> None:
    ours, theirs, arguments = PROGRAMS[program]
    for name in reversed(pair):
        ours = TRANSFORMATIONS[name](OURS, ours)
        theirs = TRANSFORMATIONS[name](JAX, theirs)
    with jax.enable_x64(True):
        _assert_close(mx.jit(ours)(*arguments), theirs(*arguments))


@pytest.mark.parametrize("program", ["batch norm", "indexing"])
@pytest.mark.parametrize("inner", [None, "grad", "vmap"])
@pytest.mark.parametrize("outer", TRANSFORMATIONS)
def test_inside_jax(program: str, inner: str | None, outer: str) -> None:
    ours, theirs, arguments = PROGRAMS[program]
    if inner is not None:
        ours = TRANSFORMATIONS[inner](OURS, ours)
        theirs = TRANSFORMATIONS[inner](JAX, theirs)
    # One program for JAX, as it is used; operation by operation would compile each of them.
    ours, theirs = TRANSFORMATIONS[outer](JAX, mx.jit(ours)), TRANSFORMATIONS[outer](JAX, theirs)
    with jax.enable_x64(True):
        _assert_close(ours(*arguments), theirs(*arguments))


@pytest.mark.parametrize("program", ["batch norm"])
def test_jax_hessian_of_our_function(program: str) -> None:
    ours, theirs, arguments = PROGRAMS[program]
    with jax.enable_x64(True):
        hessian = jax.hessian(mx.jit(lambda *xs: (ours(*xs) ** 2).sum()))(*arguments)
        _assert_close(hessian, jax.hessian(lambda *xs: (theirs(*xs) ** 2).sum())(*arguments))


@pytest.mark.parametrize(
    "triple", [("grad", "vmap", "jvp"), ("vmap", "grad", "jit"), ("jit", "jvp", "vjp")]
)
def test_triples(triple: tuple[str, str, str]) -> None:
    for ours, theirs, arguments in (PROGRAMS[n] for n in ("reductions", "indexing", "batch norm")):
        for name in reversed(triple):
            ours = TRANSFORMATIONS[name](OURS, ours)
            theirs = TRANSFORMATIONS[name](JAX, theirs)
        with jax.enable_x64(True):
            _assert_close(mx.reference(ours)(*arguments), theirs(*arguments))
