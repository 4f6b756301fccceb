"""Cross-compile programs for a TPU and a GPU, and compare XLA's figures with JAX's programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
import minixla_ops as ops
from benchmarks.measure import Comparison, Effort
from benchmarks.models import FRAMEWORKS, JAX, MINIXLA, Framework, models
from minixla.tools.cost_reports import costs_on

#: The compared figures of each platform. XLA:GPU counts neither operations nor bytes. `seconds` are
#: bytes divided by the memory's speed, and `cycles` the sum of XLA's estimates for instructions.
PLATFORMS = {
    "tpu v5e:2x2": ("flops", "bytes", "seconds", "cycles", "temporary"),
    "gpu h100": ("temporary", "kernels"),
}


class Program(NamedTuple):
    """A function that both frameworks have."""

    name: str
    function: Callable[[Framework], Callable[..., Any]]
    arguments: Any

    @property
    def shapes(self) -> Any:
        """Return the shapes of the arguments."""
        return jax.tree.map(_described, self.arguments)


def programs(small: bool = False) -> list[Program]:
    """Return models and layers; `small` ones compile quickly."""
    return [*map(_step, models(small)), *_layers(small)]


def far(effort: Effort) -> Iterator[Comparison]:
    """Compile models and layers for each platform; report XLA's figures, and no times."""
    for platform, measures in PLATFORMS.items():
        for program in programs(effort.small):
            found = {each.name: _figures(each, program, platform) for each in FRAMEWORKS}
            rows = {program.name: found}
            if program.name in _NORMALISED and not effort.small:
                careful = _figures(_CAREFUL, program, platform)
                rows[f"  {program.name}, by deviations in JAX"] = {**found, "jax": careful}
            for name, both in rows.items():
                yield from _compared(platform, name, both, measures)


def _compared(
    platform: str, name: str, found: dict[str, dict[str, float]], measures: Sequence[str]
) -> Iterator[Comparison]:
    # XLA has no estimate of some calls.
    for measure in [each for each in measures if all(each in x for x in found.values())]:
        medians = {variant: numbers[measure] for variant, numbers in found.items()}
        ours, theirs = medians.values()
        ratio = ours / theirs if theirs else 1.0 if ours == theirs else math.inf
        yield Comparison(f"{platform.split()[0]} {measure}: {name}", "", medians, ratio, 1)


def _by_deviations(x: Any, axes: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Normalize in JAX as `mx.nn` does: the variance is the mean of squared deviations."""
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset, mean, variance


class _Careful(JAX.nn):
    batch_norm = staticmethod(lambda x, *given: _by_deviations(x, (0, 1, 2), *given))
    layer_norm = staticmethod(lambda x, *given: _by_deviations(x, -1, *given)[0])


_CAREFUL = JAX._replace(nn=_Careful)
#: Programs whose formulas differ between the frameworks.
_NORMALISED = ("layer norm", "batch norm", "CNN, 3 blocks", "transformer block")


def _step(model: Any) -> Program:
    arguments = (model.parameters, *model.batch)
    return Program(model.name, lambda each: each.value_and_grad(model.loss(each)), arguments)


def _described(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(np.shape(leaf), np.asarray(leaf).dtype)


def _figures(framework: Framework, program: Program, platform: str) -> dict[str, float]:
    jitted = framework.jit(program.function(framework))
    numbers, rows = costs_on(platform, jitted, program.shapes)
    return numbers | {"kernels": float(len(rows))}


def _gradient(function: Callable[..., Any]) -> Callable[[Framework], Callable[..., Any]]:
    """Return value and gradients of the sum of squares of a function's results."""

    def made(framework: Framework) -> Callable[..., Any]:
        def loss(*args: Any) -> Any:
            return sum([(each**2).sum() for each in jax.tree.leaves(function(framework, *args))])

        def derived(*args: Any) -> Any:
            floats = [n for n, each in enumerate(args) if each.dtype == np.float32]
            return framework.value_and_grad(loss, argnums=tuple(floats))(*args)

        return derived

    return made


def _layers(small: bool) -> Iterator[Program]:
    """Return layers with their gradients, and functions such as linear algebra without."""
    n = 8 if small else 128
    images, wide = _zeros(2 if small else 32, 28, 28, 32), _zeros(n, n)
    sequence, vector, heads = _zeros(4, n, n), _zeros(n), _zeros(4, n, 2, 32)
    yield Program(
        "max pooling", _gradient(lambda f, x: f.nn.max_pool(x, (2, 2), (2, 2))), (images,)
    )
    batch_norm = _gradient(lambda f, *args: f.nn.batch_norm(*args)[0])
    yield Program("batch norm", batch_norm, (images, images[0, 0, 0], images[0, 0, 0]))
    for name, (sizes, kernel, options) in _CONVOLUTIONS.items():
        layer = _gradient(lambda f, *args, options=options: f.nn.conv(*args, **options))
        yield Program(name, layer, (_zeros(2 if small else 32, *sizes), _zeros(*kernel)))
    for name in ("softmax", "gelu"):
        layer = _gradient(lambda f, x, name=name: getattr(f.nn, name)(x))
        yield Program(name, layer, (sequence,))
    layer_norm = _gradient(lambda f, *args: f.nn.layer_norm(*args))
    yield Program("layer norm", layer_norm, (sequence, vector, vector))
    yield Program("attention", _gradient(_attention), (heads, heads, heads))
    words = np.zeros((4, n), np.int32)
    yield Program("embedding", _embedding, (_zeros(10 * n, n), words))
    yield Program("LSTM, 30 steps", _gradient(_lstm), (_zeros(30, 4, n), _zeros(2 * n, 4 * n)))
    yield Program("dropout", _gradient(_dropout), (sequence, np.zeros(2, np.uint32)))
    yield Program("Adam", lambda f: _adam, (wide, wide, wide, wide))
    for name, (ours, theirs) in _FUNCTIONS.items():
        yield Program(name, lambda f, a=ours, b=theirs: a if f is MINIXLA else b, (wide,))


def _zeros(*sizes: int) -> np.ndarray:
    return np.zeros(sizes, np.float32)


def _attention(framework: Framework, q: Any, k: Any, v: Any) -> Any:
    np_ = framework.numpy
    scores = np_.einsum("bqhk,bshk->bhqs", q, k) / math.sqrt(q.shape[-1])
    return np_.einsum("bhqs,bshk->bqhk", framework.nn.softmax(scores), v)


def _embedding(framework: Framework) -> Callable[..., Any]:
    return framework.value_and_grad(lambda table, words: (table[words] ** 2).sum())


def _lstm(framework: Framework, inputs: Any, weights: Any) -> Any:
    np_, scan = framework.numpy, framework.control.scan

    def step(carry: Any, x: Any) -> Any:
        hidden, cell = carry
        gates = np_.concatenate([x, hidden], -1) @ weights
        i, f, g, o = np_.split(gates, 4, -1)
        cell = _sigmoid(np_, f) * cell + _sigmoid(np_, i) * np_.tanh(g)
        hidden = _sigmoid(np_, o) * np_.tanh(cell)
        return (hidden, cell), hidden

    start = np_.zeros(inputs.shape[1:], np.float32)
    return scan(step, (start, start), inputs)[1]


def _sigmoid(np_: Any, x: Any) -> Any:
    return 1 / (1 + np_.exp(-x))


def _dropout(framework: Framework, x: Any, key: Any) -> Any:
    kept = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape)
    return framework.numpy.where(kept, x / 0.9, 0)


def _adam(parameter: Any, gradient: Any, mean: Any, square: Any) -> Any:
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square + 0.001 * gradient**2
    return parameter - 1e-3 * mean / (square**0.5 + 1e-8), mean, square


#: Kinds of convolutions: the sizes of an image, of the kernel, and options.
_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "convolution": ((28, 28, 32), (3, 3, 32, 32), {}),
    "strided convolution": ((28, 28, 32), (3, 3, 32, 64), {"strides": 2}),
    "1x1 convolution": ((28, 28, 32), (1, 1, 32, 128), {}),
    "dilated convolution": ((28, 28, 32), (3, 3, 32, 32), {"kernel_dilation": 2}),
    "transposed convolution": (
        (14, 14, 32),
        (3, 3, 32, 32),
        {"input_dilation": 2, "padding": ((1, 1), (1, 1))},
    ),
    "grouped convolution": ((28, 28, 32), (3, 3, 8, 32), {"feature_group_count": 4}),
    "depthwise convolution": ((28, 28, 32), (3, 3, 1, 32), {"feature_group_count": 32}),
    "1-D convolution": ((512, 32), (9, 32, 32), {}),
    "3-D convolution": ((8, 14, 14, 16), (3, 3, 3, 16, 16), {}),
}

_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sort": (lambda x: ops.sort([x], ops.lt, 1), lambda x: jnp.sort(x, 1)),
    "top-k": (lambda x: ops.top_k(x, 8), lambda x: jax.lax.top_k(x, 8)),
    "cumsum": (lambda x: mx.numpy.cumsum(x, 1), lambda x: jnp.cumsum(x, 1)),
    "Cholesky": (ops.cholesky, lambda x: jnp.linalg.cholesky(x, symmetrize_input=False)),
    "FFT": (
        lambda x: ops.fft(ops.complex(x, x), "FFT", (x.shape[1],)),
        lambda x: jnp.fft.fft(jax.lax.complex(x, x)),
    ),
}
