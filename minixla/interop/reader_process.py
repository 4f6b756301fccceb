"""A process in which MLIR reads programs: its readers may die or hang of damaged ones.

Run as a script. A request is a letter, 8 bytes of length, and so many bytes: `B`, a program in
binary form, `T`, MLIR's text, or `H`, HLO's behind a line of JSON: what stands for opcodes that
XLA's translation lacks. Each part of a reply is a letter, the number of the request and the length,
8 bytes each, and the bytes. A reply is any number of `L`, the data of a large constant, and of `S`,
MLIR's text where a binary program has strings beyond ASCII, or what stands beside an HLO program,
as JSON; and then `M`, the module as bytecode, or `E`, the place of an error, a line break and a
message, or `D`, why the reader died. A child serves until it dies; the next one needs no imports.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import mmap
import os
import re
import resource
import signal
import struct
from pathlib import Path
from typing import Any

import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

# What a healthy program needs, several times over: seconds of CPU, and bytes of memory.
_SECONDS, _SECONDS_PER_BYTE = 2.0, 2e-5
_BYTES, _BYTES_PER_BYTE = 4 << 30, 1000
# A context keeps all that it read, so that long programs have one of their own.
_LONG = 1 << 20
# Bytes of a constant that travels beside the module, and the most that an element has.
_LARGE = 1 << 16
_WIDEST = 16
_BEYOND_ASCII = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")


def _new_context() -> Any:
    context = make_ir_context()
    context.emit_error_diagnostics = False
    return context


def _load(path: Path) -> Any:
    """A module of the engine, without the engine."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_hlo = _load(Path(__file__).parents[1] / "engine" / "hlo_protos.py")
# Making one takes longer than reading a small program.
_CONTEXT = _new_context()
_requests = os.fdopen(0, "rb", closefd=False)
# Which request it is, from 1: memory that the child shares, so that its death is told of the
# request of which it died. It may die of one that it has answered: modules are freed afterwards.
_number = mmap.mmap(-1, 8)


def read(kind: bytes, source: bytes) -> None:
    """Parses a program, and sends it."""
    if kind == b"H":
        stand_ins, _, text = source.decode().partition("\n")
        source, tables = _hlo.translated(text, json.loads(stand_ins))
        _send(b"S", json.dumps(tables).encode())
    if kind == b"B" and not source.startswith(b"ML\xefR"):
        source = jax.export.deserialize(source).mlir_module_serialized  # type: ignore[arg-type]  # reads any buffer
    is_artifact = kind == b"B" and b"StableHLO_v" in source[:64]
    # Reading an artifact loads dialects, in which other programs may not be written.
    context = _new_context() if is_artifact or len(source) > _LONG else _CONTEXT
    with context:
        if is_artifact:
            module = stablehlo.deserialize_portable_artifact(context, source)
        else:
            module = ir.Module.parse(source.decode() if kind == b"T" else source)
        is_long = len(source) > _LARGE
        del source
        if is_long:
            _send_constants(module)
        if kind == b"B":
            _send_strings(module)
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _send(b"M", stream.getbuffer())


def _send_constants(module: Any) -> None:
    """Sends the data of large constants; in their place stand resources `minixla0`, ..."""
    count = 0

    def visit(operation: Any) -> Any:
        nonlocal count
        if operation.name in ("stablehlo.constant", "chlo.constant"):
            data = _large_data(operation)
            if data is not None:
                _send(b"L", data)
                value = f"dense_resource<minixla{count}> : {operation.results[0].type}"
                operation.attributes["value"] = ir.Attribute.parse(value)
                count += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _send_strings(module: Any) -> None:
    """Sends the text, in which other bytes than ASCII are escaped, if there are some."""
    text = module.operation.get_asm(enable_debug_info=True)
    if _BEYOND_ASCII.search(text) is not None:
        _send(b"S", text.encode())


class _LargeChunks:
    """Takes MLIR's bytecode, in which the data of an attribute is a chunk, and keeps what is large.

    That is the one way to the data of nearly every element type.
    """

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, data: bytes) -> None:
        """One more chunk."""
        if len(data) >= _LARGE:
            self.chunks.append(data)


def _large_data(constant: Any) -> bytes | None:
    """The data of a constant; None where it is small, or has attributes of the user's beside it."""
    type_ = constant.results[0].type
    if len(constant.attributes) != 1 or math.prod(type_.shape) * _WIDEST < _LARGE:
        return None
    if str(type_.element_type) == "i1":
        value = constant.attributes["value"]  # of which the bytecode has bits
        is_large = not value.is_splat and math.prod(type_.shape) >= _LARGE
        return np.asarray(value).tobytes() if is_large else None
    written = _LargeChunks()
    # A copy: of what has several readers MLIR writes their order too, and dies of it.
    constant.clone(ip=False).write_bytecode(written)
    is_one = len(written.chunks) == 1 and not len(written.chunks[0]) % math.prod(type_.shape)
    return written.chunks[0] if is_one else None


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


def _send(letter: bytes, data: bytes | memoryview) -> None:
    os.write(1, letter + _number[:] + struct.pack("<Q", len(data)))
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def serve() -> None:
    """Answers until there are no more requests."""
    while header := _requests.read(9):
        _number[:] = struct.pack("<Q", struct.unpack("<Q", _number[:])[0] + 1)
        size = struct.unpack("<Q", header[1:])[0]
        try:
            _limit(size)
            read(header[:1], _requests.read(size))
        except Exception as error:  # whatever it meets in damaged bytes, the other side is told
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(b"E", error_text(error).encode(errors="replace"))


_REASONS = {
    signal.SIGPROF: "it does not end in reasonable time",
    signal.SIGABRT: "it gives up, or needs too much memory",
    signal.SIGSEGV: "it reads memory that it does not have",
    signal.SIGFPE: "it divides by zero",
}


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
        number = os.WTERMSIG(status)
        reason = _REASONS.get(number) or f"signal {number}"  # type: ignore[call-overload]  # equal to a Signals
        _send(b"D", reason.encode())


if __name__ == "__main__":
    main()
