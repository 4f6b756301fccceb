"""Sample the posterior of a logistic regression by Hamiltonian Monte Carlo.

`mx.vmap` runs several chains at once, and each chain is one `mx.scan`. The step size is adapted
while the chains warm up (M. D. Hoffman and A. Gelman, The No-U-Turn Sampler, 2014, section 3.2).

Source: R. M. Neal, MCMC using Hamiltonian dynamics (2011).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

import drawing
from sklearn.datasets import load_breast_cancer

import minixla as mx
import minixla.numpy as np

LEAPS = 8
WANTED = 0.8


def log_density(weights: Any, features: Any, labels: Any) -> Any:
    """The logarithm of the posterior's density, up to a constant; weights are N(0, 1) before."""
    scores = features @ weights[1:] + weights[0]
    return mx.nn.log_sigmoid(np.where(labels, scores, -scores)).sum() - weights @ weights / 2


def leapt(density: Callable[[Any], Any], place: Any, momentum: Any, size: Any) -> tuple[Any, Any]:
    """Where Hamilton's equations lead in LEAPS steps, by the leapfrog method."""
    slope = mx.grad(density)

    def step(_: Any, state: Any) -> Any:
        place, momentum = state
        place = place + size * momentum
        return place, momentum + size * slope(place)

    momentum = momentum + size / 2 * slope(place)
    place, momentum = mx.fori_loop(0, LEAPS, step, (place, momentum))
    return place, momentum - size / 2 * slope(place)


def chain(density: Callable[[Any], Any], key: Any, start: Any, warm_up: int, draws: int) -> Any:
    """Places f32[draws,...], and how likely each proposal was taken."""

    def step(state: Any, given: Any) -> Any:
        place, log_size, mean_error, smooth = state
        key, number = given
        own = mx.random.split(key)
        momentum = mx.random.normal(own[0], place.shape)
        size = np.exp(np.where(number < warm_up, log_size, smooth))
        proposed, after = leapt(density, place, momentum, size)
        energy = density(place) - momentum @ momentum / 2
        rate = np.exp(np.minimum(density(proposed) - after @ after / 2 - energy, 0))
        taken = mx.random.uniform(own[1]) < rate
        place = np.where(taken, proposed, place)
        # The step's size moves until the wanted share of proposals is taken.
        count = np.minimum(number, warm_up) + 1.0
        mean_error += (WANTED - rate - mean_error) / (count + 10)
        log_size = math.log(0.1) - np.sqrt(count) / 0.05 * mean_error
        weight = count**-0.75
        smooth = np.where(number < warm_up, weight * log_size + (1 - weight) * smooth, smooth)
        return (place, log_size, mean_error, smooth), (place, rate)

    zero = np.zeros(())
    given = mx.random.split(key, warm_up + draws), np.arange(warm_up + draws)
    found = mx.scan(step, (start, zero + math.log(0.01), zero, zero), given)[1]
    return mx.tree.map(lambda each: each[warm_up:], found)


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Print and return the posterior's moments."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--chains", type=int, default=4)
    arguments.add_argument("--warm-up", type=int, default=300)
    arguments.add_argument("--draws", type=int, default=500)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    data: Any = load_breast_cancer()
    names = list(data.feature_names[:6])
    features = ((data.data - data.data.mean(0)) / data.data.std(0))[:, :6].astype("float32")
    labels = data.target.astype(bool)

    @mx.jit
    def sampled(key: Any) -> tuple[Any, Any]:
        keys = mx.random.split(key, options.chains + 1)
        start = 0.1 * mx.random.normal(keys[0], (options.chains, len(names) + 1))

        def density(weights: Any) -> Any:
            return log_density(weights, features, labels)

        def one(key: Any, start: Any) -> Any:
            return chain(density, key, start, options.warm_up, options.draws)

        return mx.vmap(one)(keys[1:], start)

    places, rates = sampled(mx.random.key(options.seed))
    mean, deviation = places.mean((0, 1)), places.std((0, 1))
    # A. Gelman and D. B. Rubin (1992): 1 where the chains agree.
    between = places.mean(1).var(0, ddof=1) / places.var(1, ddof=1).mean(0)
    for name, *row in zip(["(constant)", *names], mean, deviation, between, strict=True):
        value, spread, ratio = map(float, row)
        print(f"{name:18} {value:7.3f} +- {spread:.3f}   R-hat {math.sqrt(1 + ratio):.3f}")
    print(f"{100 * float(rates.mean()):.1f}% of the proposals were taken")
    chains = {f"chain {number}": chain[:, 1] for number, chain in enumerate(places)}
    drawing.curves("hamiltonian_monte_carlo", chains, "draw", f"weight of {names[0]}")
    return [*map(float, mean), *map(float, deviation), *map(float, between), float(rates.mean())]


if __name__ == "__main__":
    main()
