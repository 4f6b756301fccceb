"""Profiles of running programs: another name for `jax.profiler`."""

import sys

from jax import profiler
from jax.profiler import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = profiler
