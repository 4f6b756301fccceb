"""Several processes, as they are (JAX: jax.distributed)."""

import sys

from jax import distributed
from jax.distributed import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = distributed
