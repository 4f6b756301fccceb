"""Our own CPU code that programs call, in a library that is built with the package.

Programs call it if the library exists and XLA:CPU's implementation is clearly slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

#: Prefix of the names of its functions, which are targets of custom calls.
PREFIX = "minixla_"
_left_out = ContextVar("_left_out", default=False)


def library() -> Path | None:
    """Return the path of the library; None if it was not built (no compiler) or is switched off."""
    return None if _left_out.get() else _built()


@contextmanager
def left_out() -> Iterator[None]:
    """Lower programs in this block without the library, so that XLA knows their costs."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


@cache
def _built() -> Path | None:
    # The last suffix has no Python version, as in the wheels.
    suffixes = reversed(EXTENSION_SUFFIXES)
    paths = [Path(__file__).with_name(f"library{suffix}") for suffix in suffixes]
    return next(filter(Path.is_file, paths), None)
