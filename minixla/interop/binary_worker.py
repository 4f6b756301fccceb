"""A process that turns MLIR's bytecode into text: MLIR's reader may die or hang of damaged bytes.

Run as a script. A request is 8 bytes of length and the bytes of a program; a reply is a letter (`T`
for text, `E` for an error message, `D` where the reader died), 8 bytes of length and UTF-8. A child
serves until it dies; the next one needs no imports.
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


def text_of(source: bytes) -> str:
    """The program in MLIR's text, with source lines."""
    if not source.startswith(b"ML\xefR"):
        source = bytes(jax.export.deserialize(bytearray(source)).mlir_module_serialized)
    context: Any = make_ir_context()
    context.emit_error_diagnostics = False
    with context:
        if b"StableHLO_v" in source[:64]:
            module = stablehlo.deserialize_portable_artifact(context, source)
        else:
            module = ir.Module.parse(source)
        return str(module.operation.get_asm(enable_debug_info=True))


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
    while header := _read(8):
        source = _read(struct.unpack("<Q", header)[0])
        try:
            _limit(len(source))
            text = text_of(source)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _reply(b"T", text)
        except Exception as error:  # whatever it meets in damaged bytes, the other side is told
            signal.setitimer(signal.ITIMER_PROF, 0)
            _reply(b"E", f"{type(error).__name__}: {error}")


def main() -> None:
    """Forks a child that serves, and another when it has died."""
    make_ir_context()  # so that no child needs to load the dialects
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
