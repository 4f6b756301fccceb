"""Arrays of other libraries, as they are (JAX: jax.dlpack)."""

import sys

from jax import dlpack
from jax.dlpack import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = dlpack
