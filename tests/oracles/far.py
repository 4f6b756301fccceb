"""XLA's compilers for TPU v5e and H100, as functions from programs to what they make of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import TransformError
from minixla.engine.cross_compile import (
    Compiled,
    Refused,
    compile_for,
    exported_for,
    platform_named,
)

#: Platforms, by a short name.
PLATFORMS = {"tpu": "tpu v5e:2x2", "gpu": "gpu h100"}


def compile_on(platform: str, jitted: Any, *shapes: Any) -> Compiled:
    """A jitted function compiled for a platform.

    Raises:
        TransformError: minixla refuses it there.
        Refused: XLA does.
    """
    target = platform_named(PLATFORMS.get(platform, platform))
    return compile_for(target, exported_for(target, jitted, shapes))


@functools.cache
def missing(platform: str) -> str:
    """Why nothing can be compiled for a platform here; nothing where it can."""
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
    platform: str,
    programs: Mapping[Any, tuple[Callable[..., Any], Sequence[Any]]],
    *,
    together: bool = False,
) -> dict[Any, str]:
    """By their keys the programs that XLA refuses, or dies of, and in what words.

    Those that minixla refuses are told by an error of ours, and are not among them.

    Args:
        platform: a short name of `PLATFORMS`, or what `platform_named` takes.
        programs: jitted functions, and the shapes of their arguments.
        together: whether they are compiled as one program first, and each alone only where XLA
            refuses that one. It takes half the time for small programs, and far longer for loops
            and factors of matrices.
    """
    target = platform_named(PLATFORMS.get(platform, platform))
    sent: dict[Any, bytes] = {}
    for key, (jitted, shapes) in programs.items():
        with contextlib.suppress(TransformError):
            sent[key] = exported_for(target, jitted, shapes)
    if together and len(sent) > 1:
        parts = [programs[key] for key in sent]
        with contextlib.suppress(Refused):
            compile_on(platform, _joined([jitted for jitted, _ in parts]), *[x for _, x in parts])
            return {}
    found = {}
    for key, exported in sent.items():
        try:
            compile_for(target, exported)
        except Refused as refused:
            found[key] = str(refused)
    return found


def _joined(functions: Sequence[Callable[..., Any]]) -> Any:
    """One jitted function of the arguments of each, in sequences, with the results of all."""

    def joined(*given: Any) -> list[Any]:
        return [f(*xs) for f, xs in zip(functions, given, strict=True)]

    return mx.jit(joined)
