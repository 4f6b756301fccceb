"""JAX's errors (JAX: jax.errors). minixla's errors are names of `minixla` itself."""

import sys

from jax import errors
from jax.errors import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = errors
