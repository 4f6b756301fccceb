"""Cosine transforms (JAX: jax.scipy.fft)."""

from jax.scipy import fft
from jax.scipy.fft import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(fft)
