"""Fit a planet's orbit with Optax from JAX code; the model is minixla's.

The planet's position follows from Kepler's equation, E - e sin E = M, solved with Newton's method
in a `while` loop. The number of iterations depends on the data, so JAX has no reverse derivative of
this loop. `jax.value_and_grad` of a minixla function uses minixla's rules, also inside JAX. The
gradient is printed beside that of the implicit function theorem, in JAX.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import drawing
import jax
import jax.numpy as jnp
import numpy as np
import optax

import minixla as mx


def anomaly(mean_anomaly: Any, eccentricity: Any) -> Any:
    """E with E - e sin E = M, by Newton's method."""

    def residual(angle: Any) -> Any:
        return angle - eccentricity * mx.numpy.sin(angle) - mean_anomaly

    def is_far(angle: Any) -> Any:
        return abs(residual(angle)).max() > 1e-12

    def newton(angle: Any) -> Any:
        return angle - residual(angle) / (1 - eccentricity * mx.numpy.cos(angle))

    return mx.while_loop(is_far, newton, mean_anomaly + eccentricity)


def anomaly_in_jax(mean_anomaly: Any, eccentricity: Any) -> Any:
    """The same, a fixed number of steps, with the derivative of the implicit function theorem."""

    def solved(m: Any, e: Any) -> Any:
        angle = m + e
        for _ in range(20):
            angle -= (angle - e * jnp.sin(angle) - m) / (1 - e * jnp.cos(angle))
        return angle

    implicit = jax.custom_jvp(solved)

    @implicit.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        angle = solved(*primals)
        slope = (tangents[0] + jnp.sin(angle) * tangents[1]) / (1 - primals[1] * jnp.cos(angle))
        return angle, slope

    return implicit(mean_anomaly, eccentricity)


def loss_with(library: Any, solve: Any) -> Any:
    """The mean squared distance between model and observations, in a library's words."""

    def loss(parameters: Any, times: Any, observed: Any) -> Any:
        eccentricity = 1 / (1 + library.exp(-parameters["eccentricity"]))
        angle = solve(times * parameters["motion"] + parameters["phase"], eccentricity)
        x = library.cos(angle) - eccentricity
        y = library.sqrt(1 - eccentricity**2) * library.sin(angle)
        return ((x - observed[0]) ** 2 + (y - observed[1]) ** 2).mean()

    return loss


def observations(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times and noisy positions of a planet of eccentricity 0.6."""
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, 12, count))
    angle = np.asarray(anomaly_in_jax(times * 0.9 + 0.3, 0.6))
    exact = np.stack([np.cos(angle) - 0.6, 0.8 * np.sin(angle)])
    return times, exact + random.normal(0, 0.01, exact.shape)


def main(argv: Sequence[str] | None = None) -> float:
    """Fit, print and return the eccentricity."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    times, observed = observations(80, options.seed)
    parameters = {"eccentricity": 0.0, "motion": 0.85, "phase": 0.1}
    parameters = jax.tree.map(jnp.float64, parameters)
    loss = loss_with(mx.numpy, anomaly)
    theirs = jax.jit(jax.value_and_grad(loss_with(jnp, anomaly_in_jax)))
    optimizer = optax.adam(3e-2)

    @jax.jit
    def step(parameters: Any, state: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(parameters, times, observed)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value, gradient

    state = optimizer.init(parameters)
    print(" step        loss   eccentricity   gradient through the loop   implicit function")
    for number in range(options.steps + 1):
        before = parameters
        parameters, state, value, gradient = step(parameters, state)
        if number % max(options.steps // 5, 1) == 0:
            _, implicit = theirs(before, times, observed)
            shape = 1 / (1 + float(np.exp(-before["eccentricity"])))
            ours, other = float(gradient["eccentricity"]), float(implicit["eccentricity"])
            print(f"{number:5d}{float(value):12.6f}{shape:15.5f}{ours:28.10f}{other:20.10f}")
    fitted = 1 / (1 + float(np.exp(-parameters["eccentricity"])))
    print(f"\nfitted eccentricity {fitted:.4f}, true 0.6000")
    phase = np.linspace(0, 2 * np.pi, 200)
    orbit = np.cos(phase) - fitted, np.sqrt(1 - fitted**2) * np.sin(phase)
    lines = {"data": (observed[0], observed[1]), "fitted orbit": orbit}
    drawing.curves("optax_orbit", lines, "x", "y")
    return fitted


if __name__ == "__main__":
    main()
