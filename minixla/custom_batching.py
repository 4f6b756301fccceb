"""Functions with batching rules (JAX: jax.custom_batching)."""

import sys

from jax import custom_batching
from jax.custom_batching import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = custom_batching
