"""Convolutions and spectra of signals (JAX: jax.scipy.signal)."""

from jax.scipy import signal
from jax.scipy.signal import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from minixla.scipy.registration import register

register(signal)
