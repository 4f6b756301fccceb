"""export: our functions as bytes that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.export

from minixla.transforms.jit import jit

__all__ = ["export"]


def export(
    fun: Callable[..., Any], *args: Any, platforms: Sequence[str] | None = None, **kwargs: Any
) -> bytes:
    """A function for arguments of the given shapes, as bytes.

    `jax.export.deserialize` reads them where minixla is not installed, and
    `mx.import_stablehlo` reads them too.

    Args:
        fun: a function of pytrees of arrays, jitted or not.
        *args: arguments, or jax.ShapeDtypeStructs of their shapes.
        platforms: those that it is compiled for, such as `("cpu", "cuda", "tpu")`; default: the
            one that runs here.
        **kwargs: arguments by name.
    """
    jitted = fun if hasattr(fun, "lower") else jit(fun)
    compiled = jax.jit(lambda *a, **k: jitted(*a, **k))
    exported = jax.export.export(compiled, platforms=platforms)(*args, **kwargs)
    return bytes(exported.serialize())
