"""Trains a small convolutional network on handwritten digits and checks its gradients against JAX.

The data are the 1,797 scanned digits that scikit-learn ships (UCI's optical recognition of
handwritten digits). Run it with `make demo`; it writes out/train_digits.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import minixla as mx
from comparison import compare_with_jax, print_table

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Parameters = dict[str, Any]
BATCH = 64
# How much of the running moments a step keeps.
MOMENTUM = 0.9


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images f32[n,8,8,1] in [0, 1] and labels s32[n]: training and a held-out fifth."""
    digits: Any = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return x, y, x_test, y_test


def initial_parameters(seed: int) -> Parameters:
    """Weights scaled as He et al. (2015) propose, normalisations at the identity."""
    random = np.random.default_rng(seed)

    def weights(*sizes: int) -> np.ndarray:
        fan_in = np.prod(sizes[:-1])
        return (random.standard_normal(sizes) * np.sqrt(2 / fan_in)).astype(np.float32)

    return {
        "conv1": weights(3, 3, 1, 32),
        "scale1": np.ones(32, np.float32),
        "offset1": np.zeros(32, np.float32),
        "conv2": weights(3, 3, 32, 64),
        "scale2": np.ones(64, np.float32),
        "offset2": np.zeros(64, np.float32),
        "dense1": weights(2 * 2 * 64, 128),
        "bias1": np.zeros(128, np.float32),
        "dense2": weights(128, 10),
        "bias2": np.zeros(10, np.float32),
    }


def initial_moments() -> Parameters:
    """Running mean and variance of both normalisations."""
    sizes = {"1": 32, "2": 64}
    means = {f"mean{k}": np.zeros(n, np.float32) for k, n in sizes.items()}
    return means | {f"variance{k}": np.ones(n, np.float32) for k, n in sizes.items()}


def logits(parameters: Parameters, images: Any, moments: Parameters | None) -> tuple[Any, Parameters]:
    """The network: two blocks of conv, batch norm, relu and max pool, then two dense layers.

    Args:
        parameters: see `initial_parameters`.
        images: f32[batch,8,8,1].
        moments: those to normalise with; None takes the batch's own, for training.

    Returns:
        f32[batch,10], and the moments that were used.
    """
    x, used = images, {}
    for block in ("1", "2"):
        x = mx.nn.conv(x, parameters["conv" + block])
        scale, offset = parameters["scale" + block], parameters["offset" + block]
        if moments is None:
            x, used["mean" + block], used["variance" + block] = mx.nn.batch_norm(x, scale, offset)
        else:
            mean, variance = moments["mean" + block], moments["variance" + block]
            x = mx.nn.batch_norm_inference(x, scale, offset, mean, variance)
        x = mx.nn.max_pool(mx.nn.relu(x), (2, 2), (2, 2))
    x = x.reshape(len(x), -1)
    x = mx.nn.relu(x @ parameters["dense1"] + parameters["bias1"])
    return x @ parameters["dense2"] + parameters["bias2"], used


def loss(parameters: Parameters, images: Any, labels: Any) -> tuple[Any, tuple[Any, Parameters]]:
    """Mean cross-entropy; beside it the accuracy and the batch's moments."""
    scores, moments = logits(parameters, images, None)
    accuracy = (scores.argmax(-1) == labels).mean()
    return mx.nn.cross_entropy(scores, labels).mean(), (accuracy, moments)


@mx.jit
def train_step(
    parameters: Parameters, adam: Any, moments: Parameters, images: Any, labels: Any, rate: Any
) -> tuple[Any, ...]:
    """One step of Adam (Kingma and Ba, 2015)."""
    (value, (accuracy, batch_moments)), gradient = mx.value_and_grad(loss, has_aux=True)(
        parameters, images, labels
    )
    step, first, second = adam
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)

    def update(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m / (1 - 0.9**step)) / (mx.numpy.sqrt(v / (1 - 0.999**step)) + 1e-8)

    parameters = jax.tree.map(update, parameters, first, second)
    moments = jax.tree.map(lambda m, b: MOMENTUM * m + (1 - MOMENTUM) * b, moments, batch_moments)
    return parameters, (step, first, second), moments, value, accuracy


@mx.jit
def predict(parameters: Parameters, moments: Parameters, images: Any) -> Any:
    """The most probable digit for each image."""
    return logits(parameters, images, moments)[0].argmax(-1)


def train(
    x: np.ndarray, y: np.ndarray, epochs: int, seed: int
) -> tuple[Parameters, Parameters, list[float]]:
    """Trains from scratch; returns parameters, moments and the loss of each step."""
    parameters, moments = initial_parameters(seed), initial_moments()
    zeros = jax.tree.map(np.zeros_like, parameters)
    adam = (np.float32(0), zeros, zeros)
    random = np.random.default_rng(seed)
    steps = epochs * (len(x) // BATCH)
    losses: list[float] = []
    with tqdm(total=steps, unit="step") as bar:
        for _ in range(epochs):
            order = random.permutation(len(x))
            for start in range(0, len(x) - BATCH + 1, BATCH):
                chosen = order[start : start + BATCH]
                rate = np.float32(2e-3 * 0.5 * (1 + np.cos(np.pi * len(losses) / steps)))
                parameters, adam, moments, value, accuracy = train_step(
                    parameters, adam, moments, x[chosen], y[chosen], rate
                )
                losses.append(float(value))
                bar.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{float(accuracy):.3f}")
                bar.update()
    return parameters, moments, losses


def plot(losses: list[float], images: np.ndarray, guesses: np.ndarray, labels: np.ndarray) -> Path:
    """Writes the loss curve and some predictions (wrong ones first, in red)."""
    path = Path("out/train_digits.png")
    path.parent.mkdir(exist_ok=True)
    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1])
    axes = left.subplots()
    axes.semilogy(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross-entropy", title="Training loss")
    axes.grid(alpha=0.3)
    order = np.argsort(guesses == labels, kind="stable")[:12]
    for axes, index in zip(right.subplots(3, 4).flat, order, strict=True):
        axes.imshow(images[index, ..., 0], cmap="gray_r")
        colour = "black" if guesses[index] == labels[index] else "red"
        axes.set_title(f"{guesses[index]} ({labels[index]})", color=colour, fontsize=9)
        axes.set_axis_off()
    right.suptitle("Prediction (truth)")
    figure.savefig(path, dpi=130)
    return path


def main() -> None:
    """Trains, tests, compares with JAX, plots."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=40)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    started = time.perf_counter()
    x, y, x_test, y_test = load()
    print(f"{len(x)} digits to learn from, {len(x_test)} held out")
    parameters, moments, losses = train(x, y, options.epochs, options.seed)
    guesses = np.asarray(predict(parameters, moments, x_test))
    accuracy = float((guesses == y_test).mean())
    print(f"test accuracy {accuracy:.2%} ({(guesses != y_test).sum()} of {len(y_test)} wrong)")
    print(f"trained and tested in {time.perf_counter() - started:.1f} s\n")
    print_table(compare_with_jax(loss, parameters, x[:BATCH], y[:BATCH]))
    print(f"\nplot written to {plot(losses, x_test, guesses, y_test)}")


if __name__ == "__main__":
    main()
