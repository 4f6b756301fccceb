"""The process behind `parallel.py`: runs modules on several of XLA:CPU's devices at once."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import ir
from jax.sharding import NamedSharding, PartitionSpec

from minixla.tools.worker import next_context, serve


@lru_cache(maxsize=256)
def compiled(text: str) -> tuple[Any, Any]:
    """The executable of a module, whose attribute says for how many replicas, and their devices."""
    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        replicas = ir.IntegerAttr(module.operation.attributes["mhlo.num_replicas"]).value
    client: Any = backend.get_backend("cpu")
    devices = client.local_devices()[:replicas]
    options = backend.get_compile_options(
        num_replicas=replicas,
        num_partitions=1,
        device_assignment=np.arange(replicas).reshape(replicas, 1),
    )
    mesh = jax.make_mesh((replicas,), ("replica",), devices=devices)
    sharding = NamedSharding(mesh, PartitionSpec("replica"))
    return client.compile_and_load(text, devices, options), sharding


def evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of @main for each replica, stacked; so are the arguments."""
    executable, sharding = compiled(text)
    joined = [np.concatenate(list(argument)) for argument in arguments]
    sharded = [jax.device_put(each, sharding) for each in joined]
    results = executable.execute_sharded(sharded).disassemble_into_single_device_arrays()
    return [np.stack([np.asarray(each) for each in result]) for result in results]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    serve(evaluate)
