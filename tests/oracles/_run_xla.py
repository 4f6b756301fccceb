"""The process behind `xla.py`: compiles and runs modules on XLA:CPU."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import ir

from minixla.engine.foreign_code import prepare_target
from minixla.tools.worker import check_arguments, find_main, next_context, serve

Options = tuple[tuple[str, Any], ...]


@lru_cache(maxsize=1024)
def compiled(text: str, options: Options) -> tuple[Any, list[str], Any]:
    """The executable of a module, the types that it takes, and its device."""
    with next_context(), ir.Location.unknown():
        # Named, for its functions do not keep it alive: without it they point to freed memory.
        module = ir.Module.parse(text)
        _, types = find_main(module)
    for target in re.findall(r'"((?:lapack|minixla)_\w+)"', text):
        prepare_target(target, None)
    client: Any = backend.get_backend("cpu")
    device = client.local_devices()[0]
    chosen = backend.get_compile_options(
        num_replicas=1, num_partitions=1, env_options_overrides=dict(options)
    )
    return client.compile_and_load(text, [device], chosen), types, device


def evaluate(text: str, arguments: Sequence[np.ndarray], options: Options = ()) -> list[np.ndarray]:
    """Results of the module's @main, compiled with some of XLA's options."""
    executable, types, device = compiled(text, options)
    check_arguments(arguments, types)
    buffers = [jax.device_put(argument, device) for argument in arguments]
    results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(result) for (result,) in results]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    serve(evaluate)
