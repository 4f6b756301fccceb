"""Images at given coordinates (JAX: jax.scipy.ndimage)."""

from jax.scipy import ndimage
from jax.scipy.ndimage import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(ndimage)
