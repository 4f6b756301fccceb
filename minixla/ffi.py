"""Calls of compiled code (JAX: jax.ffi)."""

import sys

from jax import ffi
from jax.ffi import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = ffi
