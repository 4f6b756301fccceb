"""SciPy-style functions, with the API of jax.scipy.

Linear algebra and many special functions have their own implementation, which is faster or more
accurate than JAX's. All others are JAX's functions.
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
        spatial,
        special,
        stats,
    )

__all__ = ["cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize"]
__all__ += ["signal", "sparse", "spatial", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minixla.scipy' has no attribute {name!r}")
    return importlib.import_module(f"minixla.scipy.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
