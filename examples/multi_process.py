"""Run the program of sharded_mlp.py in two processes, which connect by `jax.distributed`.

Each process has four devices, and the mesh has all eight. Both processes run this file. On several
machines, each machine gets a process number and the address of the first; this example does so on
one machine. The losses are those of one process with one device.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Sequence

import drawing
import jax
import numpy as np
from losses import report, use_cpu_devices
from sharded_mlp import TOLERANCE, sharded_step, step, train

import minixla as mx

PROCESSES, DEVICES = 2, 4


def trained(address: str, number: int, steps: int, seed: int) -> np.ndarray:
    """Return the losses of process `number`; the processes connect at `address`."""
    use_cpu_devices(DEVICES)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, PROCESSES, number, initialization_timeout=60)
    mesh = mx.sharding.Mesh(jax.devices(), ("data", "model"), shape=(PROCESSES, DEVICES))
    losses = train(sharded_step(mesh), steps, seed, mesh)
    jax.distributed.shutdown()
    return losses


def free_address() -> str:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def of_processes(options: argparse.Namespace) -> list[np.ndarray]:
    """The losses that each of the processes found."""
    address, command = free_address(), [sys.executable, *sys.orig_argv[1:]]
    started = [
        subprocess.Popen(
            [*command, "--address", address, "--number", str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        raise SystemExit(f"a process failed: {[process.returncode for process in started]}")
    return [np.array(json.loads(output.splitlines()[-1])) for output in outputs]


def main(argv: Sequence[str] | None = None) -> float:
    """Train in two processes and in this one; return the largest difference of the losses."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--address", help="where the processes meet")
    arguments.add_argument("--number", type=int, help="which of them this is")
    options = arguments.parse_args(argv)
    if options.number is not None:
        losses = trained(options.address, options.number, options.steps, options.seed)
        print(json.dumps(losses.tolist()))
        return 0.0
    first, second = of_processes(options)
    print(f"both processes found the same losses: {np.array_equal(first, second)}")
    use_cpu_devices(1)
    one = train(mx.jit(step), options.steps, options.seed)
    names = (f"{PROCESSES} processes, {DEVICES} devices each", "1 device")
    drawing.curves("multi_process", dict(zip(names, (first, one), strict=True)))
    return report(names, first, one, TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main() > TOLERANCE)
