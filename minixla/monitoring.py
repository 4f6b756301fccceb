"""Events that JAX records, as they are (JAX: jax.monitoring)."""

import sys

from jax import monitoring
from jax.monitoring import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = monitoring
