"""A tree of arrays as one vector (JAX: jax.flatten_util)."""

import sys

from jax import flatten_util
from jax.flatten_util import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = flatten_util
