"""Functions of pytrees by short names: another name for `jax.tree`."""

import sys

from jax import tree
from jax.tree import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = tree
