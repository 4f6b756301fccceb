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
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minixla.core.children import end_child, start_child

_SCRIPT = Path(__file__).with_name("reader_process.py")
# The process limits its own time; this is for one that sleeps.
_SECONDS = 300.0
# Also what reader_process says.
_SLOW = "it does not end in reasonable time"


class Sent(NamedTuple):
    """A program that MLIR's readers live through.

    Attributes:
        module: MLIR's bytecode, in which resources stand for large constants.
        constants: the bytes of each by the resource's name.
        strings: MLIR's text, where a binary program has strings beyond ASCII; what stands beside an
            HLO program, as JSON.
    """

    module: bytes
    constants: dict[str, np.ndarray]
    strings: str


class Refusal(Exception):
    """What is no program.

    Attributes:
        place: as MLIR names it, or nothing.
        problem: what MLIR says, or of what it died.
        died: whether it died.
        beside: what stands beside an HLO program, if it came so far.
    """

    def __init__(self, place: str, problem: str, died: bool = False, beside: str = "") -> None:
        super().__init__(problem)
        self.place, self.problem, self.died, self.beside = place, problem, died, beside

    @property
    def is_slow(self) -> bool:
        """Whether the reader took too long."""
        return self.problem == _SLOW


class _Worker:
    """The process, started when first needed and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._requests = 0
        self._lock = threading.Lock()

    def ask(self, kind: bytes, source: bytes) -> Sent:
        """What the process answers: see reader_process.

        Raises:
            Refusal: it refuses the program, or dies of it.
        """
        constants: dict[str, np.ndarray] = {}
        strings, letter, data = "", b"", np.empty(0, np.uint8)
        with self._lock:
            try:
                for letter, data in self._replies(self._started(), kind, source):
                    if letter == b"L":
                        constants[f"minixla{len(constants)}"] = data
                    elif letter == b"S":
                        strings = data.tobytes().decode()
            except TimeoutError:
                self.stop()
                raise Refusal("", _SLOW, died=True) from None
            except (EOFError, OSError):
                self.stop()
                raise Refusal("", "its process is gone", died=True) from None
            except BaseException:  # an interrupt: what comes later would answer the next request
                self.stop()
                raise
        if letter == b"M":
            return Sent(data.tobytes(), constants, strings)
        reply = data.tobytes().decode(errors="replace")
        if letter == b"D":
            raise Refusal("", reply, died=True)
        place, _, problem = reply.partition("\n")
        raise Refusal(place, problem, beside=strings)

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is None or process.poll() is not None or self._owner != os.getpid():
            # -P: modules that lie beside the script do not hide others.
            process = start_child(
                [sys.executable, "-P", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
            self._process, self._owner, self._requests = process, os.getpid(), 0
        return process

    def _replies(
        self, process: subprocess.Popen[bytes], kind: bytes, source: bytes
    ) -> Iterator[tuple[bytes, np.ndarray]]:
        """The parts of the reply, up to the last."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(kind + struct.pack("<Q", len(source)))
        process.stdin.write(source)
        process.stdin.flush()
        until = time.monotonic() + _SECONDS
        number = process.stdout.fileno()
        self._requests += 1
        letter = b"L"
        while letter in (b"L", b"S"):
            header = _read(number, 17, until).tobytes()
            request, size = struct.unpack("<QQ", header[1:])
            data = _read(number, size, until)
            if request == self._requests:  # not of its death after the answer to the last one
                letter = header[:1]
                yield letter, data

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            end_child(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # nobody reads what was to be written
                        pipe.close()


def _read(number: int, count: int, until: float) -> np.ndarray:
    """`count` bytes from a pipe; EOFError or TimeoutError where they do not come."""
    data = np.empty(count, np.uint8)
    rest = memoryview(data.data)
    while rest:
        ready, _, _ = select.select([number], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        found = os.readv(number, [rest])
        if not found:
            raise EOFError
        rest = rest[found:]
    return data


_WORKER = _Worker()
atexit.register(_WORKER.stop)


def sent(source: str | bytes, is_hlo: bool = False) -> Sent:
    """A program after MLIR has read it elsewhere.

    Args:
        source: text; or bytes: bytecode, a portable artifact, or what jax.export serialized.
        is_hlo: whether a text is HLO's, not MLIR's.

    Raises:
        Refusal: it is no program.
    """
    if isinstance(source, str):
        return _WORKER.ask(b"H" if is_hlo else b"T", source.encode())
    return _WORKER.ask(b"B", source)
