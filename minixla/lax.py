"""Every function of `jax.lax`: our own if we implement the same function, else JAX's."""

# ruff: noqa: F401, F403 - `__all__` lists the public names

import sys

from jax import lax as _lax
from jax.lax import *  # pyright: ignore[reportWildcardImportFromLibrary]
from jax.lax import linalg

from minixla.transforms import (
    all_gather,
    all_to_all,
    associative_scan,
    axis_index,
    axis_size,
    cond,
    fori_loop,
    map,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    scan,
    stop_gradient,
    switch,
    while_loop,
)

_NAMES = [name for name in dir(_lax) if not name.startswith("_")]
__all__ = _NAMES  # pyright: ignore[reportUnsupportedDunderAll]  # computed

# `import minixla.lax.linalg` finds JAX's module.
sys.modules[f"{__name__}.linalg"] = linalg


def __dir__() -> list[str]:
    return __all__
