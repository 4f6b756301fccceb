"""Resize and transform images (JAX: jax.image)."""

import sys

from jax import image
from jax.image import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

sys.modules[__name__] = image
