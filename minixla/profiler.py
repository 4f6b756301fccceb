"""Profiles of running programs, as they are (JAX: jax.profiler)."""

import sys

from jax import profiler
from jax.profiler import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = profiler
