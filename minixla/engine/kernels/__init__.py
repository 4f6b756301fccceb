"""Code of our own that programs for the CPU call: a library that is built with the package.

It is called where XLA:CPU's form takes clearly longer, and where the library could be built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

#: What the names of its functions, which are targets of custom calls, begin with.
PREFIX = "minixla_"
_left_out = ContextVar("_left_out", default=False)


def library() -> Path | None:
    """The library's path; None where it was not built, for want of a compiler, or is left out."""
    return None if _left_out.get() else _built()


@contextmanager
def left_out() -> Iterator[None]:
    """Programs that are lowered here have XLA's own forms, whose costs XLA knows."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


@cache
def _built() -> Path | None:
    # The last suffix names no version of Python, as in the wheels.
    suffixes = reversed(EXTENSION_SUFFIXES)
    paths = [Path(__file__).with_name(f"library{suffix}") for suffix in suffixes]
    return next(filter(Path.is_file, paths), None)
