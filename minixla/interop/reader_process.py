"""A process in which MLIR reads programs: its readers may die or hang of damaged ones.

Run as a script. A request is a letter (`B` for a program in binary form, `T` for text), 8 bytes of
length and the program; a reply is a letter (`T` for the text of what was binary, or nothing of what
was text; `E` for the place of an error, a line break and a message; `D` where the reader died), 8
bytes of length and UTF-8. A child serves until it dies; the next one needs no imports.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
from typing import Any

import jax.export
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

# What a healthy program needs, several times over: seconds of CPU, and bytes of memory.
_SECONDS, _SECONDS_PER_BYTE = 2.0, 2e-5
_BYTES, _BYTES_PER_BYTE = 4 << 30, 1000


# Making one takes longer than reading a small program.
_CONTEXT: Any = make_ir_context()
_CONTEXT.emit_error_diagnostics = False


def text_of(source: bytes) -> str:
    """The program in MLIR's text, with source lines."""
    if not source.startswith(b"ML\xefR"):
        source = bytes(jax.export.deserialize(bytearray(source)).mlir_module_serialized)
    with _CONTEXT:
        if b"StableHLO_v" in source[:64]:
            module = stablehlo.deserialize_portable_artifact(_CONTEXT, source)
        else:
            module = ir.Module.parse(source)
        return str(module.operation.get_asm(enable_debug_info=True))


def check(source: bytes) -> str:
    """Parses text; nothing where that works."""
    with _CONTEXT:
        ir.Module.parse(source.decode())
    return ""


def error_text(error: Exception) -> str:
    """The place that MLIR names, or nothing, and in the next line what is wrong."""
    if isinstance(error, ir.MLIRError) and error.error_diagnostics:
        first = error.error_diagnostics[0]
        return f"{first.location}\n{first.message}"
    return f"\n{type(error).__name__}: {error}"


def _limit(size: int) -> None:
    """Ends this process where it needs much more than a program of `size` bytes should."""
    signal.setitimer(signal.ITIMER_PROF, _SECONDS + size * _SECONDS_PER_BYTE)
    with contextlib.suppress(OSError, ValueError):  # where the system does not tell, or forbids
        with open("/proc/self/statm") as file:
            own = int(file.read().split()[0]) * resource.getpagesize()
        most = own + _BYTES + size * _BYTES_PER_BYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _read(count: int) -> bytes:
    """`count` bytes of the requests; none where there are no more."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _reply(letter: bytes, text: str) -> None:
    data = text.encode(errors="replace")
    data = letter + struct.pack("<Q", len(data)) + data
    while data:
        data = data[os.write(1, data) :]


def serve() -> None:
    """Answers until there are no more requests."""
    while header := _read(9):
        read = text_of if header[:1] == b"B" else check
        source = _read(struct.unpack("<Q", header[1:])[0])
        try:
            _limit(len(source))
            text = read(source)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _reply(b"T", text)
        except Exception as error:  # whatever it meets in damaged bytes, the other side is told
            signal.setitimer(signal.ITIMER_PROF, 0)
            _reply(b"E", error_text(error))


def main() -> None:
    """Forks a child that serves, and another when it has died."""
    while True:
        child = os.fork()
        if child == 0:
            serve()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        _reply(b"D", "")


if __name__ == "__main__":
    main()
