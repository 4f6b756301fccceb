"""An Equinox CNN and an Equinox transformer, with losses of plain pytrees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Network(NamedTuple):
    """A network in JAX.

    Attributes:
        loss: of parameters, inputs and labels.
        parameters: a list of arrays.
        batch: inputs and labels.
    """

    loss: Callable[..., Any]
    parameters: list[Any]
    batch: tuple[np.ndarray, np.ndarray]


class Convolutional(eqx.Module):
    """Convolution, group norm, max pooling, dropout-free dense layer: scores of one image."""

    convolution: eqx.nn.Conv2d
    norm: eqx.nn.GroupNorm
    pool: eqx.nn.MaxPool2d
    scores: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second = jax.random.split(key)
        self.convolution = eqx.nn.Conv2d(2, 4, 3, padding=1, key=first)
        self.norm = eqx.nn.GroupNorm(2, 4)
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.scores = eqx.nn.Linear(4 * 3 * 3, 5, key=second)

    def __call__(self, x: Any) -> Any:
        x = self.pool(jax.nn.relu(self.norm(self.convolution(x))))
        return self.scores(x.ravel())


class Block(eqx.Module):
    """Attention and a dense layer, each with its norm and a residual connection."""

    attention: eqx.nn.MultiheadAttention
    norms: list[eqx.nn.LayerNorm]
    dense: eqx.nn.MLP

    def __init__(self, size: int, key: Any) -> None:
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(2, size, key=first)
        self.norms = [eqx.nn.LayerNorm(size), eqx.nn.LayerNorm(size)]
        self.dense = eqx.nn.MLP(size, size, 2 * size, 1, jax.nn.gelu, key=second)

    def __call__(self, x: Any, mask: Any) -> Any:
        y = jax.vmap(self.norms[0])(x)
        x = x + self.attention(y, y, y, mask=mask)
        return x + jax.vmap(self.dense)(jax.vmap(self.norms[1])(x))


class Transformer(eqx.Module):
    """Scores of the next token at each place."""

    embedding: eqx.nn.Embedding
    positions: jax.Array
    block: Block
    scores: eqx.nn.Linear

    def __init__(self, tokens: int, length: int, size: int, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.embedding = eqx.nn.Embedding(tokens, size, key=keys[0])
        self.positions = 0.1 * jax.random.normal(keys[1], (length, size))
        self.block = Block(size, keys[2])
        self.scores = eqx.nn.Linear(size, tokens, key=keys[3])

    def __call__(self, tokens: Any) -> Any:
        x = jax.vmap(self.embedding)(tokens) + self.positions
        mask = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
        return jax.vmap(self.scores)(self.block(x, mask))


def _network(make: Callable[[Any], eqx.Module], inputs: np.ndarray, labels: np.ndarray) -> Network:
    # Only the shapes: NumPy draws the parameters.
    module = eqx.filter_eval_shape(lambda: make(jax.random.key(0)))
    shapes, rest = eqx.partition(module, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    drawn, tree = jax.tree.flatten(shapes)
    random = np.random.default_rng(1)
    leaves = [random.normal(0, 0.3, each.shape).astype(each.dtype) for each in drawn]

    def loss(parameters: Any, inputs: Any, labels: Any) -> Any:
        whole = eqx.combine(jax.tree.unflatten(tree, parameters), rest)
        scores = jax.vmap(whole)(inputs)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    return Network(loss, leaves, (inputs, labels))


NAMES = ["CNN", "transformer"]


@functools.cache
def networks() -> dict[str, Network]:
    """Both, by name."""
    random = np.random.default_rng(0)
    images = random.normal(size=(4, 2, 6, 6)).astype(np.float32)
    tokens = random.integers(0, 11, (3, 8)).astype(np.int32)
    both = [
        _network(Convolutional, images, random.integers(0, 5, 4).astype(np.int32)),
        _network(functools.partial(Transformer, 11, 7, 8), tokens[:, :-1], tokens[:, 1:]),
    ]
    return dict(zip(NAMES, both, strict=True))
