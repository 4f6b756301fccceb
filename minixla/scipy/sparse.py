"""Iterative solvers (JAX: jax.scipy.sparse)."""

from jax.scipy import sparse
from jax.scipy.sparse import linalg as linalg

from minixla.scipy.registration import register

register(sparse)
