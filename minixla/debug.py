"""Print values and shardings while programs run (JAX: jax.debug)."""

from minixla.transforms.debug import *  # noqa: F403 - its public names
from minixla.transforms.debug import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
