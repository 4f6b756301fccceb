"""Share code of the examples that train on several devices: create devices, compare losses."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np


def use_cpu_devices(count: int) -> None:
    """Create `count` CPU devices; JAX must not have started yet."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)


def report(names: Sequence[str], first: np.ndarray, second: np.ndarray, tolerance: float) -> float:
    """Print the losses of two runs at some of the steps; return the largest difference.

    Differences are relative to the second run's losses.
    """
    differences = np.abs(first - second) / second
    widths = [max(22, len(name) + 4) for name in names]
    header = "".join([f"{name:>{width}}" for name, width in zip(names, widths, strict=True)])
    print(f"{'step':>6}{header}{'relative difference':>22}")
    last = len(first) - 1
    for step in sorted({round(last * part / 10) for part in range(11)}):
        losses = f"{first[step]:>{widths[0]}.6f}{second[step]:>{widths[1]}.6f}"
        print(f"{step:>6}{losses}{differences[step]:>22.1e}")
    largest = float(differences.max())
    verdict = "within" if largest <= tolerance else "NOT within"
    print(f"largest relative difference {largest:.1e}, {verdict} the tolerance of {tolerance:g}")
    return largest
