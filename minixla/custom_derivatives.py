"""Functions with derivative rules (JAX: jax.custom_derivatives)."""

import sys

from jax import custom_derivatives
from jax.custom_derivatives import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # for type checkers

sys.modules[__name__] = custom_derivatives
