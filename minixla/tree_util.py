"""Functions of pytrees and their registration: another name for `jax.tree_util`."""

import sys

from jax import tree_util
from jax.tree_util import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = tree_util
