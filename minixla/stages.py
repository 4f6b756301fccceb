"""Stages of compilation, as they are (JAX: jax.stages)."""

import sys

from jax import stages
from jax.stages import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = stages
