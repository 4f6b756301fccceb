"""Find clusters of points with Lloyd's algorithm, in a loop that ends when no point moves.

The initial centers are those of k-means++ (D. Arthur and S. Vassilvitskii, 2007). The whole
algorithm is one compiled program.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import drawing
from sklearn.datasets import make_blobs

import minixla as mx
import minixla.numpy as np


def distances(points: Any, centers: Any) -> Any:
    """Return squared distances, f32[points,centers]."""
    return np.square(points[:, None] - centers).sum(-1)


def first_centers(points: Any, uniform: Any) -> Any:
    """Return points far from each other, drawn with squared distances as weights."""
    place = (uniform[0] * len(points)).astype(np.int32)
    centers = np.broadcast_to(points[place], (len(uniform), points.shape[1]))
    for number in range(1, len(uniform)):
        # The first center stands for centers that are not drawn yet.
        weights = np.cumsum(distances(points, centers).min(1))
        place = (weights < uniform[number] * weights[-1]).sum()
        centers = centers.at[number].set(points[place])
    return centers


@mx.jit
def clustered(points: Any, uniform: Any) -> tuple[Any, Any, Any]:
    """Return the centers, the index of each point's center, and the number of rounds."""

    def is_moving(state: Any) -> Any:
        _, labels, before, rounds = state
        return (labels != before).any() & (rounds < 100)

    def step(state: Any) -> Any:
        centers, labels, _, rounds = state
        counts = np.zeros(len(centers)).at[labels].add(1)
        sums = np.zeros_like(centers).at[labels].add(points)
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        return means, distances(points, means).argmin(1), labels, rounds + 1

    centers = first_centers(points, uniform)
    labels = distances(points, centers).argmin(1)
    centers, labels, _, rounds = mx.while_loop(is_moving, step, (centers, labels, labels - 1, 0))
    return centers, labels, rounds


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Print and return the centers, the mean squared distance and the number of rounds."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clusters", type=int, default=5)
    arguments.add_argument("--points", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    points: Any = make_blobs(options.points, centers=options.clusters, random_state=options.seed)[0]
    points = points.astype("float32")
    uniform = mx.random.uniform(mx.random.key(options.seed), (options.clusters,))
    centers, labels, rounds = clustered(points, uniform)
    within = np.square(points - centers[labels]).sum(1).mean()
    for number, center in enumerate(centers):
        where = ", ".join([f"{float(each):7.3f}" for each in center])
        print(f"center {number}: {where}   {int((labels == number).sum()):5d} points")
    print(f"mean squared distance {float(within):.4f} after {int(rounds)} rounds")
    drawing.points("kmeans", points, labels, centers)
    return [*map(float, centers.ravel()), float(within), float(rounds)]


if __name__ == "__main__":
    main()
