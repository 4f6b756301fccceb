"""Compile a sharded training step for 256 TPU chips without the hardware, and print its costs.

XLA's compiler for TPUs comes from PyPI (docs/platforms.md). The program is compiled and does not
run.

    python examples/far_pod.py [--chips 4]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import minixla as mx
from minixla.sharding import PartitionSpec as P

LAYERS, WIDTH, BATCH = 8, 4096, 8192
Parameters = list[tuple[Any, Any]]


def loss(parameters: Parameters, x: Any) -> Any:
    """The mean square of what layers of two products each add to their input."""
    for up, down in parameters:
        x = x + mx.nn.gelu(x @ up) @ down
    return (x * x).mean()


def step(parameters: Parameters, x: Any) -> tuple[Parameters, Any]:
    """Run one step of gradient descent."""
    value, gradients = mx.value_and_grad(loss)(parameters, x)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, parameters, gradients), value


def sharded_step(rows: int, columns: int) -> tuple[Any, tuple[Any, Any]]:
    """Return the step over a mesh of `rows` times `columns` chips, and shapes of its arguments.

    The batch is sharded along the rows. In each layer, the first matrix is sharded by columns and
    the second by rows, so the layer needs one exchange."""
    mesh = mx.sharding.Mesh(None, ("data", "model"), (rows, columns))
    weights = [(P(None, "model"), P("model"))] * LAYERS
    given, made = (weights, P("data")), (weights, P())
    jitted = mx.jit(step, mesh=mesh, in_shardings=given, out_shardings=made)
    matrix = jax.ShapeDtypeStruct((WIDTH, WIDTH), np.float32)
    batch = jax.ShapeDtypeStruct((BATCH, WIDTH), np.float32)
    return jitted, ([(matrix, matrix)] * LAYERS, batch)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Compile the step; print XLA's numbers for one chip and return them."""
    options = argparse.ArgumentParser(description="A training step compiled for TPUs.")
    options.add_argument("--chips", type=int, choices=(4, 16, 64, 256), default=256)
    side = round(options.parse_args(argv).chips ** 0.5)
    jitted, shapes = sharded_step(side, side)
    report = mx.cost(jitted, *shapes, platform=f"tpu v5e:{side}x{side}")
    print(report)
    found = Counter(row.opcode for row in report.device_rows)
    talk = {name: n for name, n in found.items() if name.startswith(COLLECTIVES)}
    print(f"\ncollectives of each chip: {talk}")
    expected = jitted.shardings(*shapes).collectives()
    print(
        f"predicted from the shardings: {len(expected)}, {expected.bytes:,} bytes; XLA joins some"
    )
    held, most = report.xla["arguments"], report.xla["peak"]
    print(f"bytes of each chip: {held:,.0f} of arguments, {most:,.0f} at most")
    print(f"time of a step: {estimated_seconds(report.xla, expected.bytes) * 1e3:.3g} ms")
    return report.xla


def estimated_seconds(figures: dict[str, float], exchanged: float) -> float:
    """Return XLA's estimate of a step's time, or minixla's if chips exchange bytes.

    A chip computes for the time of its cycles, or of its memory if that is longer. It then
    exchanges the bytes of its collectives; an all-reduce passes each byte twice."""
    if "seconds" in figures:
        return figures["seconds"]
    return max(figures["seconds_by_cycles"], figures["seconds_by_bytes"]) + 2 * exchanged / LINKS


#: Bytes per second between a chip and the others: 1,600 Gbit/s for a TPU v5e, says Google.
LINKS = 200e9
COLLECTIVES = ("all-", "collective-", "reduce-scatter")

if __name__ == "__main__":
    main()
