"""Arrays of other libraries: another name for `jax.dlpack`."""

import sys

from jax import dlpack
from jax.dlpack import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = dlpack
