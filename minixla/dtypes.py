"""Element types and their limits, as they are (JAX: jax.dtypes)."""

import sys

from jax import dtypes
from jax.dtypes import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = dtypes
