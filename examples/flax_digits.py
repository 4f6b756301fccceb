"""Train a Flax network with Optax on handwritten digits: JAX code in `mx.jit` and `mx.grad`.

The network, its initialization and the optimizer are JAX code that does not know minixla. The
training step is the same function for both libraries; only `jit` and `value_and_grad` differ. The
losses of both are printed side by side. NumPy then evaluates the trained network in double
precision, without XLA.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import drawing
import jax
import numpy as np
import optax
from flax import linen
from sklearn.datasets import load_digits

import minixla as mx


class Network(linen.Module):
    """Two convolutions with batch normalization, and a dense layer, for images f32[n,8,8,1]."""

    @linen.compact
    def __call__(self, x: Any, is_training: bool) -> Any:
        for features in (8, 16):
            x = linen.Conv(features, (3, 3))(x)
            x = linen.BatchNorm(use_running_average=not is_training)(x)
            x = linen.max_pool(linen.relu(x), (2, 2), strides=(2, 2))
        return linen.Dense(10)(x.reshape(x.shape[0], -1))


def batches(seed: int, size: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield random batches of digits: images f32[size,8,8,1], labels s32[size]."""
    digits: Any = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    random = np.random.default_rng(seed)
    for _ in range(count):
        rows = random.integers(0, len(labels), size)
        yield images[rows], labels[rows]


def loss_of(network: Network) -> Callable[..., Any]:
    """Return a function that gives the loss of a batch and the changed statistics."""

    def loss(parameters: Any, variables: Any, images: Any, labels: Any) -> Any:
        variables = {"params": parameters, "batch_stats": variables["batch_stats"]}
        scores, changed = network.apply(variables, images, True, mutable=["batch_stats"])
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, labels)
        return losses.mean(), changed["batch_stats"]

    return loss


def training(library: Any, loss: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
    """Return a compiled training step; `library` is minixla or jax."""

    @library.jit
    def step(variables: Any, state: Any, images: Any, labels: Any) -> Any:
        derived = library.value_and_grad(loss, has_aux=True)
        (value, statistics), gradient = derived(variables["params"], variables, images, labels)
        updates, state = optimizer.update(gradient, state, variables["params"])
        parameters = optax.apply_updates(variables["params"], updates)
        return {"params": parameters, "batch_stats": statistics}, state, value

    return step


def main(argv: Sequence[str] | None = None) -> float:
    """Train with both libraries, print the losses and return their largest difference."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    network, optimizer = Network(), optax.adamw(1e-2)
    data = list(batches(options.seed, 64, options.steps))
    start = mx.jit(network.init, static_argnums=2)(jax.random.key(0), data[0][0], True)

    loss = loss_of(network)
    steps = {"minixla": training(mx, loss, optimizer), "jax": training(jax, loss, optimizer)}
    states: dict[str, Any] = {name: (start, optimizer.init(start["params"])) for name in steps}
    print(" step   loss in minixla       loss in JAX    difference")
    largest, curves = 0.0, {"minixla": [], "jax": []}
    for number, batch in enumerate(data):
        losses = {}
        for name, step in steps.items():
            *states[name], losses[name] = step(*states[name], *batch)
            curves[name].append(float(losses[name]))
        ours, theirs = float(losses["minixla"]), float(losses["jax"])
        largest = max(largest, abs(ours - theirs))
        if number % max(options.steps // 6, 1) == 0 or number == options.steps - 1:
            print(f"{number:5d}{ours:18.6f}{theirs:18.6f}{abs(ours - theirs):14.1e}")
    trained = states["minixla"][0]

    def of_last_batch(variables: Any) -> Any:
        return loss(variables["params"], variables, *data[-1])[0]

    truth = mx.reference(of_last_batch, precision="float64")(trained)
    print(f"\nloss of the last batch by XLA      {float(of_last_batch(trained)):.9f}")
    print(f"... by NumPy, double precision     {float(truth):.9f}")
    drawing.curves("flax_digits", curves)
    return largest


if __name__ == "__main__":
    main()
