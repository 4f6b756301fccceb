"""A process that turns MLIR's bytecode into text: MLIR's reader may die of damaged bytes.

Run as a script. A request is 8 bytes of length and the bytes of a program; a reply is a letter (`T`
for text, `E` for an error message), 8 bytes of length and UTF-8.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

import jax.export
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context


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
        return module.operation.get_asm(enable_debug_info=True)


def serve(requests: Any, replies: Any) -> None:
    """Answers until there are no more requests."""
    while header := requests.read(8):
        source = requests.read(struct.unpack("<Q", header)[0])
        try:
            letter, reply = b"T", text_of(source)
        except Exception as error:  # whatever it meets in damaged bytes, the other side is told
            letter, reply = b"E", f"{type(error).__name__}: {error}"
        data = reply.encode(errors="replace")
        replies.write(letter + struct.pack("<Q", len(data)) + data)
        replies.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
