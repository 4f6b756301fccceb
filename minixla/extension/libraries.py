"""Compiled code of kernels: shared libraries, their symbols, and XLA's names for them."""

from __future__ import annotations

import ctypes
import hashlib
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax

from minixla.core.errors import AttributeValueError, explain
from minixla.engine.foreign_code import register_code

#: XLA's names for the compiled kernels of operations.
TARGETS: set[str] = set()
# Sizes of the header of an ELF file and of one of its program headers.
_ELF_HEADER, _ELF_SEGMENT = 64, 56
# The shared libraries by path, and digests of their contents.
_LOADED: dict[str, tuple[ctypes.CDLL, str]] = {}


class OpLibrary:
    """A shared library with handlers of XLA's typed foreign function interface.

    Attributes:
        path: its path.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"OpLibrary({str(self.path)!r})"


def register_target(operation: str, symbol: str, library: Any, platform: str) -> str:
    """Register a handler with XLA; return its name there, which contains operation and library.

    Raises:
        AttributeValueError: the library or the symbol does not exist.
    """
    if library is None:
        TARGETS.add(symbol)
        return symbol
    path = Path(library).resolve()
    target = f"{operation}.{symbol}.{_digest(str(path))}"
    loaded(operation, str(path))
    try:
        register_code(target, str(path), symbol, platform)
    except AttributeError:
        problem = f"the library {path} has no symbol {symbol!r}"
        advice = f"Define it there: XLA_FFI_DEFINE_HANDLER_SYMBOL({symbol}, ...)."
        raise explain(AttributeValueError, operation, problem, (), advice) from None
    TARGETS.add(target)
    return target


@lru_cache(maxsize=1024)
def split_batches(target: str) -> None:
    """Let XLA split calls of a handler along the batch dimensions that they name."""
    jax.ffi.register_ffi_target_as_batch_partitionable(target)


def loaded(subject: str, path: str) -> ctypes.CDLL:
    """Load a shared library; return the same object for the same path.

    Raises:
        AttributeValueError: it is not a library, or has changed since the process loaded it.
    """
    digest = _digest(path)
    code, known_digest = _LOADED.get(path, (None, digest))
    if known_digest != digest:
        problem = f"the library {path} has changed since this process loaded it"
        advice = "The old code stays: build to another path, as build_op_library does, or start "
        advice += "a new process."
        raise explain(AttributeValueError, subject, problem, (), advice)
    try:
        _refuse_truncated(path)
        code = code or ctypes.CDLL(path)
        return _LOADED.setdefault(path, (code, digest))[0]
    except OSError as error:
        problem = f"the library {path} cannot be loaded"
        details, advice = (
            [str(error)],
            "Pass the path of a shared library, or build_op_library(...).",
        )
        raise explain(AttributeValueError, subject, problem, details, advice) from None


def _refuse_truncated(path: str) -> None:
    """Raise OSError for a truncated library: loading it would end the process."""
    content = Path(path).read_bytes()
    if content[:5] != b"\x7fELF\x02" or len(content) < _ELF_HEADER:
        return  # not an ELF file; the loader checks it
    start, size, count = (
        *struct.unpack_from("Q", content, 32),
        *struct.unpack_from("2H", content, 54),
    )
    ends = [start + size * count]
    for at in range(start, min(ends[0], len(content) - _ELF_SEGMENT + 1), max(size, 1)):
        ends.append(sum(struct.unpack_from("Q", content, at + field)[0] for field in (8, 32)))
    if max(ends) > len(content):
        raise OSError(f"the file is truncated: it has {len(content)} bytes of {max(ends)}")


def _digest(path: str) -> str:
    """Return a digest that identifies a library."""
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    return hashlib.sha256(path.encode() + content).hexdigest()[:12]
