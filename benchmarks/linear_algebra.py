"""Measure factorizations and systems: compiled, outside jit, and their compiled gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved

#: Functions of a symmetric positive definite matrix, by NumPy's names.
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda linalg, a: linalg.cholesky(a),
    "solve": lambda linalg, a: linalg.solve(a, a[..., :4]),
    "inv": lambda linalg, a: linalg.inv(a),
    "qr": lambda linalg, a: linalg.qr(a),
    "eigh": lambda linalg, a: linalg.eigh(a),
    "svd": lambda linalg, a: linalg.svd(a),
}
#: Sizes of stacks, and the rounds of a full run.
_SIZES = {(16, 16): 200, (64, 16, 16): 60, (200, 200): 30, (8, 200, 200): 12, (1000, 1000): 6}
#: Frameworks by name: NumPy's functions, `jit` and `grad`.
_FRAMEWORKS: dict[str, tuple[Any, Any, Any]] = {
    "minixla": (mx.numpy, mx.jit, mx.grad),
    "jax": (jnp, jax.jit, jax.grad),
}


def linear_algebra(effort: Effort) -> Iterator[Comparison]:
    """Measure each function, compiled and outside jit, and its compiled gradient, by size."""
    sizes = dict(list(_SIZES.items())[:1]) if effort.small else _SIZES
    for shape, rounds in sizes.items():
        a = _positive(*shape)
        for name in _FUNCTIONS:
            for way, made in _WAYS.items():
                variants = {each: made(name, *_FRAMEWORKS[each], a) for each in _FRAMEWORKS}
                text = f"{way} {name}, f32[{','.join(map(str, shape))}]"
                yield interleaved(text, variants, effort.rounds(rounds))


def _compiled(name: str, numpy: Any, jit: Any, grad: Any, a: Any) -> Callable[[], Any]:
    return blocking(jit(lambda a: _FUNCTIONS[name](numpy.linalg, a)), a)


def _eager(name: str, numpy: Any, jit: Any, grad: Any, a: Any) -> Callable[[], Any]:
    return blocking(_FUNCTIONS[name], numpy.linalg, a)


def _gradient(name: str, numpy: Any, jit: Any, grad: Any, a: Any) -> Callable[[], Any]:
    def loss(a: Any) -> Any:
        return sum(numpy.sum(x) for x in jax.tree.leaves(_FUNCTIONS[name](numpy.linalg, a)))

    return blocking(jit(grad(loss)), a)


_WAYS: dict[str, Callable[..., Any]] = {
    "compiled": _compiled,
    "eager": _eager,
    "gradient of": _gradient,
}


def _positive(*shape: int) -> Any:
    root = np.random.default_rng(0).standard_normal(shape)
    product = root @ np.swapaxes(root, -1, -2) / shape[-1] + np.eye(shape[-1])
    return jnp.asarray(product, np.float32)
