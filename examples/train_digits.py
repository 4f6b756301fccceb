"""Train a small convolutional network on handwritten digits and check its gradients against JAX.

The data are the 1,797 scanned digits that scikit-learn ships (UCI's optical recognition of
handwritten digits). Cross-validation on the training part chose the number of epochs, the rate, the
smoothing, the decay and the shifts. Run it with `make demo`; it writes out/train_digits.png.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import drawing
import jax
import matplotlib
import numpy as np
from comparison import compare_with_jax, print_table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import minixla as mx

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Parameters = dict[str, Any]
BATCH = 64
RATE = 5e-3
DECAY = 0.05
# The probability that a label gives to all classes alike (Szegedy et al., 2016).
SMOOTHING = 0.1
# How much of the running moments a step keeps.
MOMENTUM = 0.9


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load images f32[n,8,8,1] in [0, 1] and labels s32[n], then a fifth held out."""
    digits: Any = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    x, x_test, y, y_test = map(np.asarray, parts)
    return x, y, x_test, y_test


def initial_parameters(seed: int) -> Parameters:
    """Return weights scaled as in He et al. (2015), and identity normalizations."""
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
    """Return the running mean and variance of both normalizations."""
    sizes = {"1": 32, "2": 64}
    means = {f"mean{k}": np.zeros(n, np.float32) for k, n in sizes.items()}
    return means | {f"variance{k}": np.ones(n, np.float32) for k, n in sizes.items()}


def logits(
    parameters: Parameters, images: Any, moments: Parameters | None
) -> tuple[Any, Parameters]:
    """Run two blocks of conv, batch norm, relu and max pool, then two dense layers.

    Args:
        parameters: see `initial_parameters`.
        images: f32[batch,8,8,1].
        moments: the moments for normalization; None uses the batch's, for training.

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
    """Return the mean cross-entropy with smoothed labels, the accuracy and the batch's moments."""
    scores, moments = logits(parameters, images, None)
    targets = mx.nn.one_hot(labels, 10) * (1 - SMOOTHING) + SMOOTHING / 10
    accuracy = (scores.argmax(-1) == labels).mean()
    return mx.nn.cross_entropy(scores, targets).mean(), (accuracy, moments)


@mx.jit
def train_step(
    parameters: Parameters, adam: Any, moments: Parameters, images: Any, labels: Any, rate: Any
) -> tuple[Any, ...]:
    """Run one step of training; return the new state, the loss and the accuracy."""
    (value, (accuracy, batch_moments)), gradient = mx.value_and_grad(loss, has_aux=True)(
        parameters, images, labels
    )
    state = updated(parameters, adam, moments, gradient, batch_moments, rate)
    return *state, value, accuracy


def updated(
    parameters: Parameters,
    adam: Any,
    moments: Parameters,
    gradient: Parameters,
    batch_moments: Parameters,
    rate: Any,
) -> tuple[Parameters, Any, Parameters]:
    """Run a step of Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""
    step, first, second = adam
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)

    def update(p: Any, m: Any, v: Any) -> Any:
        direction = (m / (1 - 0.9**step)) / (mx.numpy.sqrt(v / (1 - 0.999**step)) + 1e-8)
        return p - rate * (direction + DECAY * p)

    parameters = jax.tree.map(update, parameters, first, second)
    moments = jax.tree.map(lambda m, b: MOMENTUM * m + (1 - MOMENTUM) * b, moments, batch_moments)
    return parameters, (step, first, second), moments


@mx.jit
def predict(parameters: Parameters, moments: Parameters, images: Any) -> Any:
    """Return the most probable digit for each image."""
    return logits(parameters, images, moments)[0].argmax(-1)


def shifted(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Shift each image by up to one pixel in both directions."""
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = random.integers(0, 3, (count, 1, 1)) + np.arange(height)[:, None]
    columns = random.integers(0, 3, (count, 1, 1)) + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows, columns]


def initial_state(seed: int) -> tuple[Parameters, Any, Parameters]:
    """Return parameters, the state of Adam, and running moments."""
    parameters = initial_parameters(seed)
    zeros = jax.tree.map(np.zeros_like, parameters)
    return parameters, (np.float32(0), zeros, zeros), initial_moments()


def batches(
    x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.float32]]:
    """Yield shifted images, their labels, and a rate that falls along a cosine."""
    random = np.random.default_rng(seed)
    order, start = random.permutation(len(x)), 0
    for step in range(steps):
        if start + BATCH > len(x):
            order, start = random.permutation(len(x)), 0
        chosen = order[start : start + BATCH]
        rate = np.float32(RATE * 0.5 * (1 + np.cos(np.pi * step / steps)))
        yield shifted(x[chosen], random), y[chosen], rate
        start += BATCH


def train(
    x: np.ndarray,
    y: np.ndarray,
    steps: int,
    seed: int,
    train_step: Callable[..., Any] = train_step,
) -> tuple[Parameters, Parameters, list[float]]:
    """Train from scratch; return parameters, moments and the loss of each step."""
    parameters, adam, moments = initial_state(seed)
    losses: list[float] = []
    # One line per second keeps logs short.
    with tqdm(total=steps, unit="step", mininterval=1) as bar:
        for images, labels, rate in batches(x, y, steps, seed):
            parameters, adam, moments, value, accuracy = train_step(
                parameters, adam, moments, images, labels, rate
            )
            losses.append(float(value))
            numbers = {"loss": f"{losses[-1]:.3f}", "accuracy": f"{float(accuracy):.3f}"}
            bar.set_postfix(numbers, refresh=False)
            bar.update()
    return parameters, moments, losses


def plot(
    losses: list[float], images: np.ndarray, guesses: np.ndarray, labels: np.ndarray, path: Path
) -> None:
    """Write a picture of the loss curve and of some predictions, wrong ones first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = plt.figure(figsize=(10, 4), layout="constrained")
    grid = figure.add_gridspec(3, 9)
    axes = figure.add_subplot(grid[:, :5])
    axes.plot(losses, color="tab:blue", linewidth=0.8, label="a batch of 64")
    target = np.full(10, SMOOTHING / 10) + np.eye(10)[0] * (1 - SMOOTHING)
    least = -np.sum(target * np.log(target))
    axes.axhline(least, color="black", linewidth=0.8, linestyle="--", label="least possible")
    axes.set(xlabel="step", ylabel="cross-entropy with smoothed labels", title="Training")
    axes.set(xlim=(0, len(losses)), yscale="log")
    axes.minorticks_off()
    axes.set_yticks(ticks := [0.5, 0.7, 1, 1.5, 2, 3, 4], [f"{tick:g}" for tick in ticks])
    axes.grid(alpha=0.3)
    axes.legend()
    is_right = guesses == labels
    order = np.argsort(is_right, kind="stable")[:12]
    for cell, index in enumerate(order):
        axes = figure.add_subplot(grid[cell // 4, 5 + cell % 4])
        axes.imshow(images[index, ..., 0], cmap="gray_r")
        text = f"{guesses[index]}" if is_right[index] else f"{guesses[index]}, not {labels[index]}"
        axes.set_title(text, color="black" if is_right[index] else "red", fontsize=10)
        axes.set_axis_off()
    figure.suptitle(f"{is_right.sum()} of {len(labels)} held-out digits are read right")
    figure.savefig(path, dpi=100)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, test, compare with JAX, plot."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--plot", type=Path, default=drawing.folder() / "train_digits.png")
    options = arguments.parse_args(argv)
    started = time.perf_counter()
    x, y, x_test, y_test = load()
    print(f"{len(x)} digits for training, {len(x_test)} held out", flush=True)
    steps = options.epochs * (len(x) // BATCH)
    parameters, moments, losses = train(x, y, steps, options.seed)
    guesses = np.asarray(predict(parameters, moments, x_test))
    is_right = guesses == y_test
    print(f"test accuracy {is_right.mean():.2%} ({(~is_right).sum()} of {len(y_test)} wrong)")
    print(f"trained and tested in {time.perf_counter() - started:.1f} s\n", flush=True)
    print_table(compare_with_jax(loss, initial_parameters(options.seed), x[:BATCH], y[:BATCH]))
    plot(losses, x_test, guesses, y_test, options.plot)
    print(f"\nplot written to {options.plot}")


if __name__ == "__main__":
    main()
