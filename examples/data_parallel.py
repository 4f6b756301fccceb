"""Train the digits network on four devices, and again on one: the losses agree.

A step is one function of a part of the batch. `mx.pmean` averages gradients, losses and the running
moments of batch normalization over the parts. `mx.pmap` runs it on four devices, with one part on
each. `mx.vmap` runs it on one device, with all parts at once. Both normalize each part with that
part's moments, as is usual for a batch on several devices. The results therefore agree except for
rounding. The devices are CPU cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import drawing
import jax
import numpy as np
from losses import report, use_cpu_devices
from train_digits import BATCH, Parameters, load, loss, predict, train, updated

import minixla as mx

#: The largest relative difference between the two runs' losses in a step. Sums in f32 that are
#: ordered differently make it, and it grows with the steps, as Adam divides by the size of each
#: gradient: after 110 steps it was 2e-6 at most, of three seeds.
TOLERANCE = 1e-4


def part_step(
    parameters: Parameters, adam: Any, moments: Parameters, images: Any, labels: Any, rate: Any
) -> tuple[Any, ...]:
    """A step for one part of the batch, whose results are the same in all parts."""
    (value, (accuracy, own_moments)), gradient = mx.value_and_grad(loss, has_aux=True)(
        parameters, images, labels
    )
    gradient, own_moments, value, accuracy = mx.pmean(
        (gradient, own_moments, value, accuracy), "parts"
    )
    state = updated(parameters, adam, moments, gradient, own_moments, rate)
    return *state, value, accuracy


def in_parts(step: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a step that splits the batch for `step`, which is mapped over the parts."""

    def train_step(
        parameters: Parameters, adam: Any, moments: Parameters, images: Any, labels: Any, rate: Any
    ) -> Any:
        parts = images.reshape(count, -1, *images.shape[1:]), labels.reshape(count, -1)
        return step(parameters, adam, moments, *parts, rate)

    return train_step


def main(argv: Sequence[str] | None = None) -> float:
    """Train twice, print both losses and return the largest relative difference."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=110)
    arguments.add_argument("--devices", type=int, default=4, help="a divisor of 64")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    if BATCH % options.devices:
        arguments.error(f"--devices must divide the batch of {BATCH}")
    use_cpu_devices(options.devices)
    x, y, x_test, y_test = load()
    axes = {"in_axes": (None, None, None, 0, 0, None), "out_axes": None, "axis_name": "parts"}
    steps = {
        f"{options.devices} devices (mx.pmap)": mx.pmap(part_step, **axes),
        "1 device (mx.vmap)": mx.jit(mx.vmap(part_step, **axes)),
    }
    losses = []
    for name, step in steps.items():
        print(f"{name}: {options.steps} steps, {options.devices} parts of a batch", flush=True)
        started = time.perf_counter()
        parameters, moments, found = train(
            x, y, options.steps, options.seed, in_parts(step, options.devices)
        )
        losses.append(np.array(found))
        parameters, moments = jax.tree.map(np.asarray, (parameters, moments))
        accuracy = np.mean(np.asarray(predict(parameters, moments, x_test)) == y_test)
        seconds = time.perf_counter() - started
        print(f"test accuracy {accuracy:.2%}, {seconds:.1f} s\n", flush=True)
    drawing.curves("data_parallel", dict(zip(steps, losses, strict=True)))
    return report(list(steps), losses[0], losses[1], TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main() > TOLERANCE)
