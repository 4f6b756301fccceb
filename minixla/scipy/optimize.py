"""Minimization (JAX: jax.scipy.optimize)."""

from jax.scipy import optimize
from jax.scipy.optimize import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(optimize)
