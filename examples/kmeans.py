"""Finds clusters of points by Lloyd's algorithm, in a loop that ends when no point moves.

The first centres are those of k-means++ (D. Arthur and S. Vassilvitskii, 2007). Everything is one
compiled program.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from sklearn.datasets import make_blobs

import minixla as mx
import minixla.numpy as np


def distances(points: Any, centres: Any) -> Any:
    """Squared distances, f32[points,centres]."""
    return np.square(points[:, None] - centres).sum(-1)


def first_centres(points: Any, uniform: Any) -> Any:
    """Points far from each other: each is drawn with weights that are squared distances."""
    place = (uniform[0] * len(points)).astype(np.int32)
    centres = np.broadcast_to(points[place], (len(uniform), points.shape[1]))
    for number in range(1, len(uniform)):
        # Of those that are not drawn yet the first stands in.
        weights = np.cumsum(distances(points, centres).min(1))
        place = (weights < uniform[number] * weights[-1]).sum()
        centres = centres.at[number].set(points[place])
    return centres


@mx.jit
def clustered(points: Any, uniform: Any) -> tuple[Any, Any, Any]:
    """Centres, the number of each point's, and how many rounds it took."""

    def is_moving(state: Any) -> Any:
        _, labels, before, rounds = state
        return (labels != before).any() & (rounds < 100)

    def step(state: Any) -> Any:
        centres, labels, _, rounds = state
        counts = np.zeros(len(centres)).at[labels].add(1)
        sums = np.zeros_like(centres).at[labels].add(points)
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        return means, distances(points, means).argmin(1), labels, rounds + 1

    centres = first_centres(points, uniform)
    labels = distances(points, centres).argmin(1)
    centres, labels, _, rounds = mx.while_loop(is_moving, step, (centres, labels, labels - 1, 0))
    return centres, labels, rounds


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Prints the centres; returns them, the mean squared distance and the number of rounds."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clusters", type=int, default=5)
    arguments.add_argument("--points", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    points: Any = make_blobs(options.points, centers=options.clusters, random_state=options.seed)[0]
    points = points.astype("float32")
    uniform = mx.random.uniform(mx.random.key(options.seed), (options.clusters,))
    centres, labels, rounds = clustered(points, uniform)
    within = np.square(points - centres[labels]).sum(1).mean()
    for number, centre in enumerate(centres):
        where = ", ".join([f"{float(each):7.3f}" for each in centre])
        print(f"centre {number}: {where}   {int((labels == number).sum()):5d} points")
    print(f"mean squared distance {float(within):.4f} after {int(rounds)} rounds")
    return [*map(float, centres.ravel()), float(within), float(rounds)]


if __name__ == "__main__":
    main()
