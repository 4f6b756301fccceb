"""Events that JAX records: another name for `jax.monitoring`."""

import sys

from jax import monitoring
from jax.monitoring import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = monitoring
