"""Element types and their limits: another name for `jax.dtypes`."""

import sys

from jax import dtypes
from jax.dtypes import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = dtypes
