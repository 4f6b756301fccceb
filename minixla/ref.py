"""Mutable arrays (JAX: jax.ref)."""

import sys

from jax import ref
from jax.ref import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = ref
