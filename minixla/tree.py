"""Functions of trees of values by short names, as they are (JAX: jax.tree)."""

import sys

from jax import tree
from jax.tree import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = tree
