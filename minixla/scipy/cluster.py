"""Vector quantization (JAX: jax.scipy.cluster)."""

from jax.scipy import cluster
from jax.scipy.cluster import vq as vq

from minixla.scipy.registration import register

register(cluster)
