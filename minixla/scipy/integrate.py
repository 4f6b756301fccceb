"""Integrals of samples (JAX: jax.scipy.integrate)."""

from jax.scipy import integrate
from jax.scipy.integrate import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(integrate)
