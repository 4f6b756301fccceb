"""Programs that run in several processes: another name for `jax.distributed`."""

import sys

from jax import distributed
from jax.distributed import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = distributed
