"""Networks of Equinox, Flax and Haiku train with Optax as in JAX, step by step."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import flax.linen as linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import minixla as mx
from tests.libraries.beside_jax import assert_same, cross_entropy, images, train

pytestmark = pytest.mark.full


def assert_trains(losses: list[float]) -> None:
    """Check that the second batch's loss has decreased; the last number is a checksum."""
    assert losses[-2] < losses[1]


class EquinoxNetwork(eqx.Module):
    """A convolution, attention between rows, a recurrent cell and dense layers."""

    convolution: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    cell: eqx.nn.GRUCell
    dropout: eqx.nn.Dropout
    scores: eqx.nn.Linear
    scale: float = 0.5

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.convolution = eqx.nn.Conv2d(1, 4, 3, padding=1, key=keys[0])
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.attention = eqx.nn.MultiheadAttention(2, 16, key=keys[1])
        self.norm = eqx.nn.LayerNorm(16)
        self.cell = eqx.nn.GRUCell(16, 8, key=keys[2])
        self.dropout = eqx.nn.Dropout(0.1)
        self.scores = eqx.nn.Linear(8, 4, key=keys[3])

    def __call__(self, image: Any, key: Any) -> Any:
        x = self.pool(jax.nn.relu(self.convolution(image.transpose(2, 0, 1))))
        x = x.transpose(1, 0, 2).reshape(4, 16)
        x = jax.vmap(self.norm)(x + self.scale * self.attention(x, x, x))
        hidden, _ = jax.lax.scan(lambda h, row: (self.cell(row, h), None), jnp.zeros(8), x)
        return self.scores(self.dropout(hidden, key=key))


def test_equinox() -> None:
    parameters, static = eqx.partition(EquinoxNetwork(jax.random.key(0)), eqx.is_inexact_array)

    def run(library: Any) -> list[float]:
        def loss(parameters: Any, batch: Any, key: Any) -> Any:
            x, labels = batch
            key, now = jax.random.split(key)
            network = eqx.combine(parameters, static)
            logits = library.vmap(network)(x, jax.random.split(now, len(x)))
            return cross_entropy(logits, labels), key

        return train(library, loss, parameters, images(), jax.random.key(1))

    assert_trains(assert_same(run))


def test_equinox_state() -> None:
    """Batch normalization reads and writes Equinox's state, inside a named axis."""

    class Network(eqx.Module):
        dense: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        scores: eqx.nn.Linear

        def __init__(self, key: Any) -> None:
            first, second = jax.random.split(key)
            self.dense = eqx.nn.Linear(64, 16, key=first)
            self.norm = eqx.nn.BatchNorm(16, axis_name="batch", mode="batch")
            self.scores = eqx.nn.Linear(16, 4, key=second)

        def __call__(self, image: Any, state: Any) -> Any:
            x, state = self.norm(self.dense(image.ravel()), state)
            return self.scores(jnp.tanh(x)), state

    network, state = eqx.nn.make_with_state(Network)(jax.random.key(0))
    parameters, static = eqx.partition(network, eqx.is_inexact_array)

    def run(library: Any) -> list[float]:
        def loss(parameters: Any, batch: Any, state: Any) -> Any:
            x, labels = batch
            mapped = library.vmap(
                eqx.combine(parameters, static),
                axis_name="batch",
                in_axes=(0, None),
                out_axes=(0, None),
            )
            logits, state = mapped(x, state)
            return cross_entropy(logits, labels), state

        return train(library, loss, parameters, images(), state)

    assert_trains(assert_same(run))


def test_equinox_filters_around_minixla() -> None:
    """Apply Equinox's transformations to functions that use `mx.numpy` and `mx.grad`."""
    network = eqx.nn.MLP(3, 3, 8, 1, activation=mx.numpy.tanh, key=jax.random.key(0))
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)

    def loss_of(library: Any) -> Any:
        numpy = library.numpy

        def loss(network: Any, x: Any) -> Any:
            slope = library.grad(lambda y: numpy.sum(network(y) ** 2))
            values = eqx.filter_vmap(lambda y: numpy.sin(slope(y)) + network(y))(x)
            return numpy.mean(values**2)

        return loss

    def run(library: Any) -> Any:
        own = eqx.tree_at(lambda n: n.activation, network, library.numpy.tanh)
        loss = loss_of(library)
        value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))(own, x)
        plain = eqx.filter_grad(loss)(own, x)
        _, tangent = eqx.filter_jvp(lambda x: loss(own, x), (x,), (x,))
        leaves = [jax.tree.leaves(eqx.filter(each, eqx.is_array)) for each in (gradient, plain)]
        return value, leaves, tangent

    assert_same(run)


class LinenNetwork(linen.Module):
    """Convolutions, batch normalization, dropout, a scanned cell and a checkpointed layer."""

    @linen.compact
    def __call__(self, x: Any, is_training: bool = True) -> Any:
        x = linen.Conv(4, (3, 3))(x)
        x = linen.BatchNorm(use_running_average=not is_training, momentum=0.9)(x)
        x = linen.avg_pool(linen.gelu(x), (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], 4, -1)
        x = x + linen.MultiHeadDotProductAttention(num_heads=2)(linen.LayerNorm()(x))
        x = linen.RNN(linen.OptimizedLSTMCell(8))(x)[:, -1]
        x = linen.remat(linen.Dense)(16)(x)
        x = linen.Dropout(0.1, deterministic=not is_training)(x)
        return linen.Dense(4)(linen.relu(x))


def test_flax_linen() -> None:
    network, batches = LinenNetwork(), images()
    variables = network.init(jax.random.key(0), batches[0][0])
    start = {"statistics": variables["batch_stats"], "key": jax.random.key(1)}

    def run(library: Any) -> list[float]:
        def loss(parameters: Any, batch: Any, state: Any) -> Any:
            x, labels = batch
            key, now = jax.random.split(state["key"])
            given = {"params": parameters, "batch_stats": state["statistics"]}
            rngs = {"dropout": now}
            logits, changed = network.apply(given, x, mutable=["batch_stats"], rngs=rngs)
            state = {"statistics": changed["batch_stats"], "key": key}
            return cross_entropy(logits, labels), state

        return train(library, loss, variables["params"], batches, start)

    assert_trains(assert_same(run))


def test_flax_linen_init_in_jit() -> None:
    x = images(1)[0][0]
    network = LinenNetwork()
    assert_same(lambda library: library.jit(network.init)(jax.random.key(0), x))


class NnxNetwork(nnx.Module):
    """A convolution, batch normalization, dropout, attention and dense layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.convolution = nnx.Conv(1, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 16, rngs=rngs, decode=False)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.scores = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.norm(self.convolution(x)))
        x = nnx.max_pool(x, (2, 2), strides=(2, 2)).reshape(x.shape[0], 4, 16)
        x = x + self.attention(x)
        return self.scores(self.dropout(x.mean(1)))


def test_flax_nnx() -> None:
    """Use `nnx.split` and `nnx.merge`, as Flax's guide says for other transformations."""
    structure, parameters, start = nnx.split(NnxNetwork(nnx.Rngs(0)), nnx.Param, ...)

    def run(library: Any) -> list[float]:
        def loss(parameters: Any, batch: Any, state: Any) -> Any:
            x, labels = batch
            network = nnx.merge(structure, parameters, state, copy=True)
            value = cross_entropy(network(x), labels)
            return value, nnx.state(network, nnx.Not(nnx.Param))

        return train(library, loss, parameters, images(), start)

    assert_trains(assert_same(run))


def test_flax_nnx_transformations_around_minixla() -> None:
    """Apply `nnx.jit` and `nnx.value_and_grad` to functions that use `mx.numpy` and `mx.vmap`."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)

    def run(library: Any) -> Any:
        network = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        numpy = library.numpy

        @nnx.jit
        def step(network: Any) -> Any:
            def loss(network: Any) -> Any:
                return numpy.mean(numpy.square(library.vmap(lambda row: network(row))(x)))

            return nnx.value_and_grad(loss)(network)

        value, gradient = step(network)
        return value, jax.tree.leaves(gradient)

    assert_same(run)


def test_haiku() -> None:
    def network(x: Any, is_training: bool) -> Any:
        x = hk.Conv2D(4, 3)(x)
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training))
        x = hk.MaxPool(2, 2, "VALID")(x).reshape(x.shape[0], 4, -1)
        x, _ = hk.dynamic_unroll(hk.LSTM(8), x, hk.LSTM(8).initial_state(len(x)), time_major=False)
        x = hk.dropout(hk.next_rng_key(), 0.1, x[:, -1])
        return hk.nets.MLP([16, 4])(hk.LayerNorm(-1, True, True)(x))

    transformed, batches = hk.transform_with_state(network), images()
    parameters, statistics = transformed.init(jax.random.key(0), batches[0][0], True)
    start = {"statistics": statistics, "key": jax.random.key(1)}

    def run(library: Any) -> list[float]:
        def loss(parameters: Any, batch: Any, state: Any) -> Any:
            x, labels = batch
            key, now = jax.random.split(state["key"])
            logits, statistics = transformed.apply(parameters, state["statistics"], now, x, True)
            return cross_entropy(logits, labels), {"statistics": statistics, "key": key}

        return train(library, loss, parameters, batches, start)

    assert_trains(assert_same(run))
