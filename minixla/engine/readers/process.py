"""A process in which MLIR reads programs: its readers may die or hang of damaged ones.

Run as a script, by `readers.sent`. A request is its number, a program (text, or bytes in binary
form) and, for HLO's text, what stands for opcodes that XLA's translation lacks. A reply is the
number and what becomes the arguments of `Sent` or of `Refusal`. A child serves until it dies; the
next one needs no imports.
"""

import contextlib
import io
import math
import mmap
import os
import re
import resource
import signal
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from minixla.core.children import receive, send, stream_to_parent

sys.path.append(str(Path(__file__).parent))
import hlo_protos  # type: ignore[import-not-found]  # of the engine, without it

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


# Making one takes longer than reading a small program.
_CONTEXT = _new_context()
# Which request it is: memory that the child shares, so that its death is told of the request of
# which it died. It may die of one that it has answered: modules are freed afterwards.
_number = mmap.mmap(-1, 8)


def _read(source: Any, is_binary: bool) -> tuple[list[bytes], Any]:
    """Parses a program: its bytecode and the data of large constants, and its strings."""
    if is_binary and not source.startswith(b"ML\xefR"):
        source = jax.export.deserialize(source).mlir_module_serialized
    is_artifact = is_binary and b"StableHLO_v" in source[:64]
    is_long = len(source) > _LARGE
    # Reading an artifact loads dialects, in which other programs may not be written.
    context = _new_context() if is_artifact or len(source) > _LONG else _CONTEXT
    with context:
        if is_artifact:
            module = stablehlo.deserialize_portable_artifact(context, source)
        else:
            module = ir.Module.parse(source)
        del source
        constants = _taken_constants(module) if is_long else []
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
        # The text escapes other bytes than ASCII.
        text: Any = module.operation.get_asm(enable_debug_info=True) if is_binary else ""
    return [stream.getvalue(), *constants], text if _BEYOND_ASCII.search(text) else ""


def _taken_constants(module: Any) -> list[bytes]:
    """The data of large constants, in whose place resources stand: `minixla0`, ..."""
    found: list[bytes] = []

    def visit(operation: Any) -> Any:
        if operation.name in ("stablehlo.constant", "chlo.constant"):
            data = _large_data(operation)
            if data is not None:
                value = f"dense_resource<minixla{len(found)}> : {operation.results[0].type}"
                operation.attributes["value"] = ir.Attribute.parse(value)
                found.append(data)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _large_data(constant: Any) -> bytes | None:
    """The data of a constant; None where it is small, or has attributes of the user's beside it."""
    type_ = constant.results[0].type
    if len(constant.attributes) != 1 or math.prod(type_.shape) * _WIDEST < _LARGE:
        return None
    if str(type_.element_type) == "i1":
        value = constant.attributes["value"]  # of which the bytecode has bits
        is_large = not value.is_splat and math.prod(type_.shape) >= _LARGE
        return np.asarray(value).tobytes() if is_large else None
    # In bytecode the data of an attribute is a chunk by itself: the one way to that of nearly every
    # element type. A copy: of what has several readers MLIR writes their order too, and dies of it.
    large: list[bytes] = []
    keep = SimpleNamespace(write=lambda data: large.append(data) if len(data) >= _LARGE else None)
    constant.clone(ip=False).write_bytecode(keep)
    return large[0] if len(large) == 1 and not len(large[0]) % math.prod(type_.shape) else None


def _limit(size: int) -> None:
    """Ends this process where it needs much more than a program of `size` bytes should."""
    signal.setitimer(signal.ITIMER_PROF, _SECONDS + size * _SECONDS_PER_BYTE)
    with contextlib.suppress(OSError, ValueError):  # where the system does not tell, or forbids
        with open("/proc/self/statm") as file:
            own = int(file.read().split()[0]) * resource.getpagesize()
        most = own + _BYTES + size * _BYTES_PER_BYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _reply(data: bytes, is_text: bool, stand_ins: Any) -> tuple[dict[str, Any], list[bytes]]:
    tables: dict[str, Any] = {}
    try:
        _limit(len(data))
        source: Any = data.decode() if is_text else data
        if stand_ins is not None:
            source, tables = hlo_protos.translated(source, stand_ins)
        blocks, strings = _read(source, not is_text)
        return {"strings": strings, "tables": tables}, blocks
    except Exception as error:  # whatever it meets in damaged bytes, the other side is told
        reply = {"problem": f"{type(error).__name__}: {error}", "tables": tables}
        if isinstance(error, ir.MLIRError) and error.error_diagnostics:
            first = error.error_diagnostics[0]
            reply |= {"place": str(first.location), "problem": first.message}
        return reply, []
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(OSError, ValueError):  # the next request may be a long one
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _serve(stream: Any) -> None:
    with contextlib.suppress(EOFError):
        while True:
            taken = receive(stream)
            # Before what the last request left is freed, of which it may die.
            _number[:] = struct.pack("<Q", taken[0])
            number, request, (source,) = taken
            reply, blocks = _reply(source.tobytes(), *request)
            # Of a death now nobody is told: the other side would take it for what is missing.
            _number[:] = bytes(8)
            send(stream, number, reply, blocks)
            _number[:] = struct.pack("<Q", number)


_REASONS = {
    signal.SIGPROF: "it does not end in reasonable time",
    signal.SIGABRT: "it gives up, or needs too much memory",
    signal.SIGSEGV: "it reads memory that it does not have",
    signal.SIGFPE: "it divides by zero",
}


def main() -> None:
    """Forks a child that serves, and another when it has died."""
    stream = stream_to_parent()
    while True:
        child = os.fork()
        if child == 0:
            _serve(stream)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # there are no more requests, or they cannot be read
            return
        ended = os.WTERMSIG(status)
        reason = _REASONS.get(ended) or f"signal {ended}"  # type: ignore[call-overload]  # equal to a Signals
        number = struct.unpack("<Q", _number[:])[0]
        if number == 0:
            return
        send(stream, number, {"problem": reason, "died": True})


if __name__ == "__main__":
    main()
