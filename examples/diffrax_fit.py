"""Fit the rates of predators and prey with Diffrax and Optax: JAX code in `mx.jit` and `mx.grad`.

Diffrax solves the equations of Lotka and Volterra with steps of adaptive size. `mx.value_and_grad`
differentiates the solver's loop, through the rules that Diffrax declares with JAX. The gradient of
each printed step is compared with JAX's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import diffrax
import drawing
import jax
import jax.numpy as jnp
import numpy as np
import optax

import minixla as mx

#: Growth of prey, predation, growth of predators, death of predators.
RATES = np.array([1.1, 0.4, 0.1, 0.4])
START = np.array([10.0, 5.0])


def velocity(time: Any, state: Any, rates: Any) -> Any:
    """Compute the right-hand side of the equations."""
    prey, predators = state
    grow, predation, feed, die = rates
    return jnp.stack([prey * (grow - predation * predators), predators * (feed * prey - die)])


def solution(rates: Any, times: Any) -> Any:
    """Return prey and predators at some times."""
    return diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Tsit5(),
        t0=0.0,
        t1=times[-1],
        dt0=0.05,
        y0=jnp.asarray(START),
        args=rates,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-7, atol=1e-7),
    ).ys


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Fit, print and return the rates."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    times = jnp.linspace(0.0, 8.0, 33)
    random = np.random.default_rng(options.seed)
    observed = solution(jnp.asarray(RATES), times) * np.exp(random.normal(0, 0.02, (33, 2)))

    def loss(logarithms: Any) -> Any:
        states = solution(jnp.exp(logarithms), times)
        return jnp.mean((jnp.log(states) - jnp.log(observed)) ** 2)

    optimizer = optax.adam(3e-2)
    theirs = jax.jit(jax.value_and_grad(loss))

    @mx.jit
    def step(logarithms: Any, state: Any) -> Any:
        value, gradient = mx.value_and_grad(loss)(logarithms)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(logarithms, updates), state, value, gradient

    logarithms: Any = jnp.log(jnp.asarray(RATES) * np.array([1.2, 0.85, 1.2, 0.85]))
    state: Any = optimizer.init(logarithms)
    print(" step        loss   gradient of the first rate        in JAX")
    for number in range(options.steps + 1):
        before = logarithms
        logarithms, state, value, gradient = step(logarithms, state)
        if number % max(options.steps // 5, 1) == 0:
            expected = theirs(before)[1]
            print(f"{number:5d}{value:12.6f}{gradient[0]:29.10f} {expected[0]:13.10f}")
    fitted = [float(each) for each in jnp.exp(logarithms)]
    for name, rate, true in zip(
        ("growth", "predation", "feeding", "death"), fitted, RATES, strict=True
    ):
        print(f"{name:10s} fitted {rate:.4f}, true {true:.4f}")
    curve = solution(jnp.array(fitted), times)
    lines = {"data": (jnp.stack([times, times], 1), observed)}
    lines |= {"prey": (times, curve[:, 0]), "predators": (times, curve[:, 1])}
    drawing.curves("diffrax_fit", lines, "time", "population")
    return fitted


if __name__ == "__main__":
    main()
