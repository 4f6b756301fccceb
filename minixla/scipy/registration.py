"""Modules of jax.scipy under the names of this package."""

import sys
from types import ModuleType


def register(module: ModuleType) -> None:
    """Register a module of `jax.scipy` and its submodules under the same names in this package."""
    sys.modules[module.__name__.replace("jax", __name__.partition(".")[0], 1)] = module
    for value in vars(module).values():
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
            register(value)
