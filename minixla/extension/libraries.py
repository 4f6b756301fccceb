"""Compiled code of kernels: shared libraries, their symbols, and XLA's names for them."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import jax

from minixla.core.errors import AttributeValueError, explain


class OpLibrary:
    """A shared library with handlers of XLA's typed foreign function interface.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"OpLibrary({str(self.path)!r})"


def register_target(operation: str, symbol: str, library: Any, platform: str) -> str:
    """Makes a handler known to XLA; its name there, which holds those of operation and library.

    Raises:
        AttributeValueError: there is no such library, or no such symbol in it.
    """
    if library is None:
        return symbol
    path = Path(library).resolve()
    target = f"{operation}.{symbol}.{_digest(str(path))}"
    _register(operation, symbol, str(path), target, platform)
    return target


@cache
def _register(operation: str, symbol: str, path: str, target: str, platform: str) -> None:
    handler = _symbol(operation, symbol, path)
    known = {"cuda": "CUDA", "rocm": "ROCM"}.get(platform, platform)
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform=known)


def _symbol(operation: str, symbol: str, path: str) -> Any:
    try:
        loaded = _loaded(path)
    except OSError as error:
        problem = f"the library {path} cannot be loaded"
        shown, advice = [str(error)], "Give the path of a shared library, or build_op_library(...)."
        raise explain(AttributeValueError, operation, problem, shown, advice) from None
    try:
        return getattr(loaded, symbol)
    except AttributeError:
        problem = f"the library {path} has no symbol {symbol!r}"
        advice = f"Define it there: XLA_FFI_DEFINE_HANDLER_SYMBOL({symbol}, ...)."
        raise explain(AttributeValueError, operation, problem, (), advice) from None


@cache
def _loaded(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def _digest(path: str) -> str:
    """What tells libraries apart."""
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    return hashlib.sha256(path.encode() + content).hexdigest()[:12]
