"""Interpolation on grids (JAX: jax.scipy.interpolate)."""

from jax.scipy import interpolate
from jax.scipy.interpolate import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(interpolate)
