"""Train an Equinox network with an Optax optimizer inside minixla's training step.

The network and the optimizer are JAX code, and run unchanged inside `mx.jit` and
`mx.value_and_grad`. The results of the same steps in JAX are printed beside minixla's. Finally,
NumPy evaluates the trained network in double precision, without XLA.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import drawing
import equinox as eqx
import jax
import numpy as np
import optax
from sklearn.datasets import load_digits

import minixla as mx


class Network(eqx.Module):
    """A convolution, max pooling and two dense layers, for one image f32[1,8,8]."""

    convolution: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    hidden: eqx.nn.Linear
    scores: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.convolution = eqx.nn.Conv2d(1, 8, 3, padding=1, key=keys[0])
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.hidden = eqx.nn.Linear(8 * 4 * 4, 32, key=keys[1])
        self.scores = eqx.nn.Linear(32, 10, key=keys[2])

    def __call__(self, image: jax.Array) -> jax.Array:
        x = self.pool(jax.nn.relu(self.convolution(image)))
        return self.scores(jax.nn.relu(self.hidden(x.ravel())))


def batches(seed: int, size: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random batches of digits: images f32[size,1,8,8], labels s32[size]."""
    digits: Any = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    random = np.random.default_rng(seed)
    for _ in range(count):
        rows = random.integers(0, len(labels), size)
        yield images[rows], labels[rows]


def training(library: Any, loss: Any, optimizer: Any) -> Callable[..., Any]:
    """Return a compiled training step; `library` is minixla or jax."""

    def step(parameters: Any, state: Any, images: Any, labels: Any) -> Any:
        value, gradient = library.value_and_grad(loss)(parameters, images, labels)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    return library.jit(step)


def main(argv: Sequence[str] | None = None) -> float:
    """Train with both libraries, print the losses and return their largest difference."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    network = Network(jax.random.key(options.seed))
    parameters, structure = eqx.partition(network, eqx.is_array)
    optimizer = optax.adamw(1e-2)

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        scores = jax.vmap(eqx.combine(parameters, structure))(images)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    steps = {
        "minixla": training(mx, loss, optimizer),
        "jax": training(jax, loss, optimizer),
    }
    states: dict[str, Any] = {name: (parameters, optimizer.init(parameters)) for name in steps}
    print(" step   loss in minixla       loss in JAX    difference")
    largest, curves = 0.0, {"minixla": [], "jax": []}
    data = list(batches(options.seed, 64, options.steps))
    for number, batch in enumerate(data):
        losses = {}
        for name, step in steps.items():
            *states[name], losses[name] = step(*states[name], *batch)
            curves[name].append(float(losses[name]))
        difference = abs(float(losses["minixla"]) - float(losses["jax"]))
        largest = max(largest, difference)
        if number % max(options.steps // 6, 1) == 0 or number == options.steps - 1:
            ours, theirs = losses["minixla"], losses["jax"]
            print(f"{number:5d}{float(ours):18.6f}{float(theirs):18.6f}{difference:14.1e}")
    trained = states["minixla"][0]
    truth = mx.reference(loss, precision="float64")(trained, *data[-1])
    print(f"\nloss of the last batch by XLA      {float(loss(trained, *data[-1])):.9f}")
    print(f"... by NumPy, double precision     {float(truth):.9f}")
    drawing.curves("optax_equinox", curves)
    return largest


if __name__ == "__main__":
    main()
