"""XLA's compilers for TPU v5e and H100, as functions from programs to what they make of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from minixla.core.errors import TransformError
from minixla.engine.far import Compiled, Refused, compile_far, exported_for, platform_named

#: Platforms, by a short name.
PLATFORMS = {"tpu": "tpu v5e:2x2", "gpu": "gpu h100"}


def compile_on(platform: str, jitted: Any, *shapes: Any) -> Compiled:
    """A jitted function compiled for a platform.

    Raises:
        TransformError: minixla refuses it there.
        Refused: XLA does.
    """
    target = platform_named(PLATFORMS.get(platform, platform))
    return compile_far(target, exported_for(target, jitted, shapes))


@functools.cache
def missing(platform: str) -> str:
    """Why nothing can be compiled for a platform here; nothing where it can."""
    import minixla as mx

    try:
        compile_on(platform, mx.jit(lambda x: x + 1), np.ones(3, np.float32))
    except (
        TransformError,
        Refused,
    ) as error:  # missing, or a compiler that this machine cannot run
        return str(error)[:500]
    return ""


def require(platform: str) -> None:
    """Skips the test where nothing compiles for a platform."""
    if why := missing(platform.partition(" ")[0]):
        pytest.skip(f"nothing compiles for {platform} here: {why}")


def refusals(
    platform: str, programs: Mapping[Any, tuple[Callable[..., Any], Sequence[Any]]]
) -> dict[Any, str]:
    """By their keys the programs that XLA refuses, or dies of, and in what words.

    Those that minixla refuses are told by an error of ours, and are not among them.
    """
    found = {}
    for key, (jitted, shapes) in programs.items():
        try:
            compile_on(platform, jitted, *shapes)
        except TransformError:
            continue
        except Refused as refused:
            found[key] = str(refused)
    return found
