"""Stages of compilation: another name for `jax.stages`."""

import sys

from jax import stages
from jax.stages import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = stages
