"""SciPy's functions: those of jax.scipy.

Special functions are our own where programs use them much, or where they are nearer the truth than
JAX's. The others JAX traces; derivatives and batches are JAX's then.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minixla.scipy import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        special,
        stats,
    )

__all__ = ["cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize"]
__all__ += ["signal", "sparse", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minixla.scipy' has no attribute {name!r}")
    return importlib.import_module(f"minixla.scipy.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
