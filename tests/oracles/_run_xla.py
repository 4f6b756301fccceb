"""The process behind `xla.py`: compiles and runs modules on XLA:CPU."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import ir

from tests.oracles._mlir import check_arguments, find_main, make_context
from tests.oracles._worker import serve


@lru_cache(maxsize=1024)
def compiled(text: str) -> tuple[Any, Any]:
    """The executable of a module, with the options of `jax.jit`, and its device."""
    client: Any = backend.get_backend("cpu")
    device = client.local_devices()[0]
    options = backend.get_compile_options(num_replicas=1, num_partitions=1)
    return client.compile_and_load(text, [device], options), device
