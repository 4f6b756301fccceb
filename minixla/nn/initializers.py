"""Initial values of parameters (JAX: jax.nn.initializers)."""

import sys

from jax.nn import initializers
from jax.nn.initializers import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = initializers
