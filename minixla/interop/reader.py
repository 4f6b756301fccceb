"""MLIR's readers in a process of their own, where they may die of damaged programs."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

__all__ = ["parse_error", "text_of_binary"]

_SCRIPT = Path(__file__).with_name("reader_process.py")
# The process limits its own time; this is for one that sleeps.
_SECONDS = 300.0


class _Worker:
    """The process, started when first needed and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def ask(self, kind: bytes, source: bytes) -> tuple[bytes, str]:
        """The letter and the text of the reply: see reader_process."""
        with self._lock:
            process = self._started()
            try:
                letter, reply = self._ask(process, kind, source)
            except (EOFError, OSError, TimeoutError):
                self.stop()
                letter, reply = b"D", b""
        return letter, reply.decode(errors="replace")

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is None or process.poll() is not None or self._owner != os.getpid():
            # -P: modules that lie beside the script do not hide others.
            process = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
            self._process, self._owner = process, os.getpid()
        return process

    def _ask(
        self, process: subprocess.Popen[bytes], kind: bytes, source: bytes
    ) -> tuple[bytes, bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(kind + struct.pack("<Q", len(source)) + source)
        process.stdin.flush()
        until = time.monotonic() + _SECONDS
        number = process.stdout.fileno()
        header = _read(number, 9, until)
        return header[:1], _read(number, struct.unpack("<Q", header[1:])[0], until)

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # nobody reads what was to be written
                        pipe.close()


def _read(number: int, count: int, until: float) -> bytes:
    """`count` bytes from a pipe; EOFError or TimeoutError where they do not come."""
    parts = []
    while count:
        ready, _, _ = select.select([number], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(number, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


_WORKER = _Worker()
atexit.register(_WORKER.stop)


def text_of_binary(source: bytes) -> str:
    """The MLIR text of bytecode, a portable artifact, or what jax.export serialized.

    Raises:
        ValueError: the bytes are none of these; the message says why.
    """
    letter, text = _WORKER.ask(b"B", source)
    if letter == b"D":
        raise ValueError("MLIR's reader dies of them, or does not end: they are damaged")
    if letter != b"T":
        raise ValueError(text.strip()[:500])
    return text


def parse_error(text: str) -> tuple[str, str] | None:
    """What MLIR's parser says of a text: the place, which may be empty, and the message.

    None where it is a program.
    """
    letter, reply = _WORKER.ask(b"T", text.encode())
    if letter == b"T":
        return None
    if letter == b"D":
        return "", "MLIR's parser dies of the text, or does not end: it is no program"
    place, _, message = reply.partition("\n")
    return place, message
