"""Train a variational autoencoder to draw digits (D. P. Kingma and M. Welling, 2014).

Noise comes from keys of `mx.random`, which have no derivative. Optax's Adam is JAX code and becomes
part of the program.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import drawing
import optax
from sklearn.datasets import load_digits

import minixla as mx
import minixla.numpy as np

Parameters = dict[str, Any]
HIDDEN, CODE = 128, 8
SHADES = " .:-=+*#%@"


def initial_parameters(key: Any) -> Parameters:
    """Weights as X. Glorot and Y. Bengio (2010) want them, and no biases."""
    sizes = {"in": (64, HIDDEN), "code": (HIDDEN, 2 * CODE), "back": (CODE, HIDDEN)}
    sizes |= {"out": (HIDDEN, 64)}
    keys, drawn = mx.random.split(key, len(sizes)), mx.nn.initializers.glorot_normal()
    return {
        name: {"weights": drawn(each, size), "bias": np.zeros(size[1])}
        for each, (name, size) in zip(keys, sizes.items(), strict=True)
    }


def dense(parameters: Parameters, x: Any) -> Any:
    """A layer without an activation."""
    return x @ parameters["weights"] + parameters["bias"]


def decoded(parameters: Parameters, code: Any) -> Any:
    """Log-odds of each pixel, f32[batch,64]."""
    return dense(parameters["out"], mx.nn.relu(dense(parameters["back"], code)))


def loss(parameters: Parameters, key: Any, images: Any) -> Any:
    """The negative evidence lower bound, in nats for each picture."""
    hidden = mx.nn.relu(dense(parameters["in"], images))
    mean, log_variance = np.split(dense(parameters["code"], hidden), 2, axis=-1)
    noise = mx.random.normal(key, mean.shape)
    logits = decoded(parameters, mean + np.exp(log_variance / 2) * noise)
    likelihood = images * mx.nn.log_sigmoid(logits) + (1 - images) * mx.nn.log_sigmoid(-logits)
    divergence = (np.exp(log_variance) + mean**2 - 1 - log_variance) / 2
    return (divergence.sum(-1) - likelihood.sum(-1)).mean()


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; print losses and new digits; return the losses."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=2000)
    arguments.add_argument("--batch", type=int, default=128)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    digits: Any = load_digits()
    images = np.asarray(digits.data / 16, np.float32)
    optimizer = optax.adam(1e-3)
    update, apply_updates = map(mx.from_jax, (optimizer.update, optax.apply_updates))

    @mx.jit
    def train_step(parameters: Parameters, state: Any, key: Any, number: Any) -> Any:
        keys = mx.random.split(mx.random.fold_in(key, number))
        rows = mx.random.randint(keys[0], (options.batch,), 0, len(images))
        value, gradient = mx.value_and_grad(loss)(parameters, keys[1], np.take(images, rows, 0))
        updates, state = update(gradient, state)
        return apply_updates(parameters, updates), state, value

    keys = mx.random.split(mx.random.key(options.seed), 3)
    parameters = initial_parameters(keys[0])
    state, losses = optimizer.init(parameters), []
    for number in range(options.steps):
        parameters, state, value = train_step(parameters, state, keys[1], np.uint32(number))
        losses.append(float(value))
        if number % max(options.steps // 8, 1) == 0 or number == options.steps - 1:
            print(f"step {number:5d}   loss {losses[-1]:.4f}")
    drawn = mx.nn.sigmoid(decoded(parameters, mx.random.normal(keys[2], (6, CODE))))
    print("new digits:")
    for rows in drawn.reshape(6, 8, 8).transpose(1, 0, 2):
        shades = (rows * (len(SHADES) - 0.01)).astype(int)
        print("  ".join(["".join([2 * SHADES[int(each)] for each in row]) for row in shades]))
    new = mx.nn.sigmoid(decoded(parameters, mx.random.normal(keys[2], (8, CODE))))
    drawing.images(
        "variational_autoencoder", {"new": new.reshape(8, 8, 8), "data": digits.images[:8]}
    )
    return losses


if __name__ == "__main__":
    main()
