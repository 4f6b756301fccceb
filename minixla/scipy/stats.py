"""Statistics and distributions (JAX: jax.scipy.stats)."""

from jax.scipy import stats
from jax.scipy.stats import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(stats)
