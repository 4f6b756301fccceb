"""Functions of trees of values and their registration, as they are (JAX: jax.tree_util)."""

import sys

from jax import tree_util
from jax.tree_util import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = tree_util
