"""Learn the equation of a spiral from points on it: a neural ordinary differential equation.

The solver chooses its step sizes (P. Bogacki and L. F. Shampine, 1989) in a `while_loop`, which
runs as many steps as it needs. `mx.grad` differentiates this loop. Optax's Adam is JAX code and
becomes part of the program.

Source: R. T. Q. Chen and others, Neural Ordinary Differential Equations (2018).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import drawing
import optax

import minixla as mx
import minixla.numpy as np

Parameters = dict[str, Any]
TOLERANCE = 1e-3
#: The time between points.
INTERVAL = 0.25


def network(parameters: Parameters, y: Any) -> Any:
    """Return the velocity at a point, f32[2]."""
    hidden = np.tanh(y**3 @ parameters["in"] + parameters["bias"])
    return hidden @ parameters["out"]


def spiral(y: Any) -> Any:
    """Return the true velocity."""
    return y**3 @ np.array([[-0.1, 2.0], [-2.0, -0.1]])


def solved(velocity: Callable[[Any], Any], y: Any, duration: Any) -> tuple[Any, Any]:
    """Return the point after some time, and how many steps the solver tried."""

    def is_before(state: Any) -> Any:
        return state[0] < duration

    def step(state: Any) -> Any:
        time, y, size, count = state
        size = np.minimum(size, duration - time)
        k1 = velocity(y)
        k2 = velocity(y + size / 2 * k1)
        k3 = velocity(y + size * 3 / 4 * k2)
        after = y + size * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
        k4 = velocity(after)
        error = size * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)
        worst = np.abs(error / (TOLERANCE * (1 + np.abs(y)))).max()
        is_good = worst <= 1
        # The last step must end exactly, so that rounding leaves no remaining time.
        is_last = is_good & (size >= duration - time)
        factor = np.clip(0.9 * np.maximum(worst, 1e-6) ** (-1 / 3), 0.2, 3)
        time = np.where(is_last, duration, np.where(is_good, time + size, time))
        return time, np.where(is_good, after, y), size * factor, count + 1

    start = (0 * duration, y, 0.1 * duration, 0)
    _, y, _, count = mx.while_loop(is_before, step, start)
    return y, count


def trajectory(velocity: Callable[[Any], Any], start: Any, points: int) -> Any:
    """Return points on a trajectory, f32[points,2]."""

    def advance(y: Any, _: Any) -> Any:
        return solved(velocity, y, np.float32(INTERVAL))[0], y

    return mx.scan(advance, start, None, length=points)[1]


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; print and return the losses."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--points", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    keys = mx.random.split(mx.random.key(options.seed))
    parameters = {
        "in": 0.3 * mx.random.normal(keys[0], (2, 32)),
        "bias": np.zeros(32),
        "out": 0.3 * mx.random.normal(keys[1], (32, 2)),
    }
    start = np.array([1.5, 0.0])
    truth = mx.jit(lambda: trajectory(spiral, start, options.points))()
    optimizer = optax.adam(1e-2)
    update, apply_updates = map(mx.from_jax, (optimizer.update, optax.apply_updates))

    def loss(parameters: Parameters) -> tuple[Any, Any]:
        """Return the error of the next point after each point."""

        def after(y: Any) -> tuple[Any, Any]:
            return solved(lambda y: network(parameters, y), y, np.float32(INTERVAL))

        found, counts = mx.vmap(after)(truth[:-1])
        return np.square(found - truth[1:]).mean(), counts.sum()

    @mx.jit
    def train_step(parameters: Parameters, state: Any) -> Any:
        (value, count), gradient = mx.value_and_grad(loss, has_aux=True)(parameters)
        updates, state = update(gradient, state)
        return apply_updates(parameters, updates), state, value, count

    state, losses = optimizer.init(parameters), []
    for number in range(options.steps):
        parameters, state, value, count = train_step(parameters, state)
        losses.append(float(value))
        if number % max(options.steps // 10, 1) == 0 or number == options.steps - 1:
            print(f"step {number:4d}   loss {losses[-1]:.6f}   {int(count)} steps of the solver")
    way = mx.jit(lambda: trajectory(lambda y: network(parameters, y), start, options.points))()
    furthest = float(np.abs(way - truth).max())
    print(f"started at the first point, it stays within {furthest:.3f} of the spiral")
    lines = {"data": (truth[:, 0], truth[:, 1]), "network": (way[:, 0], way[:, 1])}
    drawing.curves("neural_ode", lines, "x", "y")
    return [*losses, furthest]


if __name__ == "__main__":
    main()
