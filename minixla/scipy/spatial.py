"""Rotations (JAX: jax.scipy.spatial)."""

from jax.scipy import spatial
from jax.scipy.spatial import transform as transform

from minixla.scipy.registration import register

register(spatial)
