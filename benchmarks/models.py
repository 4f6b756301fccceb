"""The benchmark models, each written once and run on either framework.

Where the frameworks' layers differ, JAX gets what its own libraries (Flax, Optax) run, or what is
faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx


class Framework(NamedTuple):
    """The functions of a framework that a model uses."""

    name: str
    numpy: Any
    nn: Any
    jit: Callable[..., Any]
    value_and_grad: Callable[..., Any]
    library: Any  # grad, vmap, random, scipy ...
    control: Any  # loops and branches


def _jax_normalised(x: Any, axes: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Normalize as Flax does: the variance as E[x^2] - E[x]^2 takes one pass less."""
    mean = x.mean(axes, keepdims=True)
    variance = jnp.maximum(0, jnp.square(x).mean(axes, keepdims=True) - jnp.square(mean))
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset, mean, variance


class _JaxLayers:
    """The functions of `mx.nn` that models use, as a JAX user writes them."""

    relu = staticmethod(jax.nn.relu)
    gelu = staticmethod(jax.nn.gelu)
    softmax = staticmethod(jax.nn.softmax)

    @staticmethod
    def conv(
        x: Any,
        kernel: Any,
        strides: int = 1,
        padding: Any = "SAME",
        *,
        input_dilation: int = 1,
        kernel_dilation: int = 1,
        feature_group_count: int = 1,
    ) -> Any:
        sizes = "DHW"[5 - x.ndim :]
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (strides,) * len(sizes),
            padding,
            (input_dilation,) * len(sizes),
            (kernel_dilation,) * len(sizes),
            (f"N{sizes}C", f"{sizes}IO", f"N{sizes}C"),
            feature_group_count,
        )

    @staticmethod
    def batch_norm(x: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
        return _jax_normalised(x, (0, 1, 2), scale, offset)

    @staticmethod
    def max_pool(x: Any, window: Any, strides: Any) -> Any:
        return jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, *window, 1), (1, *strides, 1), "VALID"
        )

    @staticmethod
    def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
        return _jax_normalised(x, -1, scale, offset)[0]

    @staticmethod
    def cross_entropy(logits: Any, labels: Any) -> Any:
        return -(jax.nn.one_hot(labels, logits.shape[-1]) * jax.nn.log_softmax(logits)).sum(-1)


MINIXLA = Framework("minixla", mx.numpy, mx.nn, mx.jit, mx.value_and_grad, mx, mx)
JAX = Framework("jax", jnp, _JaxLayers, jax.jit, jax.value_and_grad, jax, jax.lax)
FRAMEWORKS = (MINIXLA, JAX)


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def _as_it_is(layer: Callable[..., Any]) -> Callable[..., Any]:
    return layer


class Model(NamedTuple):
    """A model: its loss on either framework, parameters and one batch.

    The loss of a model of equal layers takes two more arguments: a function that wraps each layer,
    and whether the layers are one loop over stacked parameters.
    """

    name: str
    loss: Callable[..., Callable[..., Any]]
    parameters: Any
    batch: tuple[Any, ...]


def random_array(*sizes: int) -> np.ndarray:
    """Return normal numbers, the same for each shape; products with them keep their size."""
    generator = np.random.default_rng(math.prod(sizes))
    scale = 1 / math.sqrt(sizes[0])
    return (generator.standard_normal(sizes) * scale).astype(np.float32)


def _mlp_loss(
    framework: Framework, wrap: Wrap = _as_it_is, is_loop: bool = False
) -> Callable[..., Any]:
    @wrap
    def layer(parameters: Any, x: Any) -> Any:
        weights, bias = parameters
        return framework.numpy.tanh(x @ weights + bias)

    return _chain(framework, layer, is_loop)


def _chain(framework: Framework, layer: Callable[..., Any], is_loop: bool) -> Callable[..., Any]:
    """Return the loss of a sequence of layers."""

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        if is_loop:
            stacked = jax.tree.map(lambda *each: framework.numpy.stack(each), *parameters)
            x, _ = framework.control.scan(lambda x, each: (layer(each, x), None), x, stacked)
        else:
            for each in parameters:
                x = layer(each, x)
        return ((x - y) ** 2).mean()

    return loss


def _mlp(layers: int = 100, width: int = 64, batch: int = 32) -> Model:
    parameters = [(random_array(width, width), np.zeros(width, np.float32)) for _ in range(layers)]
    return Model(f"MLP, {layers} layers", _mlp_loss, parameters, (random_array(batch, width),) * 2)


def _cnn_loss(framework: Framework) -> Callable[..., Any]:
    nn = framework.nn

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        x = images
        for kernel, scale, offset in parameters["blocks"]:
            x = nn.conv(x, kernel)
            x, _, _ = nn.batch_norm(x, scale, offset)
            x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = x.reshape(x.shape[0], -1) @ parameters["dense"] + parameters["bias"]
        return nn.cross_entropy(x, labels).mean()

    return loss


def _cnn(batch: int = 32, size: int = 32) -> Model:
    blocks, features = [], 3
    for wide in (16, 32, 64):
        scale, offset = np.ones(wide, np.float32), np.zeros(wide, np.float32)
        blocks.append((random_array(3, 3, features, wide) / 3, scale, offset))
        features = wide
    flat = features * (size // 8) ** 2
    parameters = {
        "blocks": blocks,
        "dense": random_array(flat, 10),
        "bias": np.zeros(10, np.float32),
    }
    labels = (np.arange(batch) % 10).astype(np.int32)
    return Model(
        "CNN, 3 blocks", _cnn_loss, parameters, (random_array(batch, size, size, 3), labels)
    )


def _transformer_loss(
    framework: Framework, wrap: Wrap = _as_it_is, is_loop: bool = False
) -> Callable[..., Any]:
    np_, nn = framework.numpy, framework.nn

    @wrap
    def block(p: Any, x: Any) -> Any:
        normed = nn.layer_norm(x, p["scale1"], p["offset1"])
        q, k, v = (np_.einsum("bsd,dhk->bshk", normed, p[name]) for name in ("q", "k", "v"))
        scores = np_.einsum("bqhk,bshk->bhqs", q, k) / math.sqrt(q.shape[-1])
        length = x.shape[1]
        causal = np_.tril(np_.ones((length, length), bool))
        weights = nn.softmax(np_.where(causal, scores, -1e9), axis=-1)
        mixed = np_.einsum("bhqs,bshk->bqhk", weights, v)
        x = x + np_.einsum("bqhk,hkd->bqd", mixed, p["out"])
        normed = nn.layer_norm(x, p["scale2"], p["offset2"])
        return x + nn.gelu(normed @ p["up"] + p["bias_up"]) @ p["down"] + p["bias_down"]

    return _chain(framework, block, is_loop)


def _transformer(
    batch: int = 8, length: int = 64, width: int = 128, heads: int = 4, layers: int = 1
) -> Model:
    depth = width // heads
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    parameters = {
        **{name: random_array(width, heads, depth) for name in ("q", "k", "v")},
        "out": random_array(heads, depth, width) / math.sqrt(depth),
        "up": random_array(width, 4 * width),
        "bias_up": np.zeros(4 * width, np.float32),
        "down": random_array(4 * width, width),
        "bias_down": zeros,
        "scale1": ones,
        "offset1": zeros,
        "scale2": ones,
        "offset2": zeros,
    }
    x = random_array(batch, length, width)
    name = "transformer block" if layers == 1 else f"transformer, {layers} layers"
    return Model(name, _transformer_loss, [parameters] * layers, (x, x))


def models(small: bool = False) -> list[Model]:
    """Return the models; `small` ones have the same parts and run quickly."""
    if small:
        return [_mlp(3, 8, 4), _cnn(2, 8), _transformer(1, 4, 8, 2)]
    return [_mlp(), _cnn(), _transformer()]


def deep_transformer(small: bool = False, layers: int = 4) -> Model:
    """Return a transformer of several layers."""
    return _transformer(1, 4, 8, 2, layers) if small else _transformer(layers=layers)


def deep_models(small: bool = False) -> list[Model]:
    """Return networks of equal layers."""
    if small:
        return [deep_transformer(small), _mlp(5, 8, 4)]
    return [_transformer(layers=12), _mlp(layers=200)]


def small_mlp() -> Model:
    """Return two layers, so small that arithmetic takes no time."""
    return _mlp(layers=2, width=32, batch=8)


def digits_cnn(batch: int) -> Model:
    """Return the CNN for images of 8x8, the size of handwritten digits."""
    return _cnn(batch, 8)._replace(name=f"CNN, {batch} images of 8x8")
