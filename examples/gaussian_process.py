"""Fit a noisy curve by Gaussian process regression, with the uncertainty of each value.

Gradient descent on the likelihood of the data fits the scales of the kernel. Its derivative goes
through a Cholesky decomposition (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for
Machine Learning, 2006, algorithm 2.1).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import drawing
import optax

import minixla as mx
import minixla.numpy as np

Parameters = dict[str, Any]


def kernel(parameters: Parameters, x: Any, y: Any) -> Any:
    """Return the covariances of the values at two lists of points, f32[x,y]."""
    distance = (x[:, None] - y) / np.exp(parameters["length"])
    return np.exp(2 * parameters["amplitude"] - distance**2 / 2)


def decomposed(parameters: Parameters, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the root of the data's covariance, and its inverse times the data."""
    noise = np.exp(2 * parameters["noise"]) + 1e-5
    root = np.linalg.cholesky(kernel(parameters, x, x) + noise * np.eye(len(x)))
    return root, np.linalg.solve(root.T, np.linalg.solve(root, y))


def loss(parameters: Parameters, x: Any, y: Any) -> Any:
    """Return the negative log-likelihood of the data, per point."""
    root, weights = decomposed(parameters, x, y)
    total = y @ weights / 2 + np.log(np.diagonal(root)).sum()
    return total / len(x) + math.log(2 * math.pi) / 2


@mx.jit
def predicted(parameters: Parameters, x: Any, y: Any, places: Any) -> tuple[Any, Any]:
    """Return the mean and the standard deviation of the curve at some places."""
    root, weights = decomposed(parameters, x, y)
    between = kernel(parameters, x, places)
    known = np.square(np.linalg.solve(root, between)).sum(0)
    variance = np.exp(2 * parameters["amplitude"]) - known
    return between.T @ weights, np.sqrt(np.maximum(variance, 0))


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Fit and print the curve; return the losses, and means and deviations at some places."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--points", type=int, default=40)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    keys = mx.random.split(mx.random.key(options.seed))
    x = mx.random.uniform(keys[0], (options.points,), minval=-3, maxval=2)
    y = np.sin(2 * x) + 0.1 * mx.random.normal(keys[1], x.shape)
    parameters: Parameters = dict.fromkeys(("amplitude", "length", "noise"), np.float32(0))
    optimizer = optax.adam(5e-2)
    update, apply_updates = map(mx.from_jax, (optimizer.update, optax.apply_updates))

    @mx.jit
    def train_step(parameters: Parameters, state: Any) -> Any:
        value, gradient = mx.value_and_grad(loss)(parameters, x, y)
        updates, state = update(gradient, state)
        return apply_updates(parameters, updates), state, value

    state, losses = optimizer.init(parameters), []
    for _ in range(options.steps):
        parameters, state, value = train_step(parameters, state)
        losses.append(float(value))
    scales = ", ".join([f"{name} {float(np.exp(each)):.3f}" for name, each in parameters.items()])
    print(f"negative log-likelihood {losses[0]:.4f}, then {losses[-1]:.4f}; {scales}\n")
    places = np.linspace(-3, 3, 13)
    mean, deviation = predicted(parameters, x, y, places)
    for place, value, each in zip(places, mean, deviation, strict=True):
        print(f"at {float(place):5.1f}: {float(value):7.3f} +- {float(each):.3f}", end="")
        print(f"   (sin(2 x) = {math.sin(2 * float(place)):6.3f})")
    fine = np.linspace(-3, 3, 121)
    mean_there, there = predicted(parameters, x, y, fine)
    lines = {"data": (x, y), "mean": (fine, mean_there)}
    lines |= {"mean + 2 deviations": (fine, mean_there + 2 * there)}
    lines |= {"mean - 2 deviations": (fine, mean_there - 2 * there)}
    drawing.curves("gaussian_process", lines, "x", "y")
    return [*losses, *map(float, mean), *map(float, deviation)]


if __name__ == "__main__":
    main()
