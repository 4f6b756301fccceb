"""Answer requests in a process that may die or hang.

The process forks a child, which answers requests until it dies; the next child needs no imports.
This module runs in the helper process, and `subprocesses.Helper` sends the requests.
"""

import contextlib
import mmap
import os
import resource
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from io import BufferedRWPair
from typing import Any

import numpy as np

from minixla.engine.subprocesses import receive, send, stream_to_parent

Answer = Callable[[Any, list[np.ndarray]], tuple[Any, Sequence[bytes]]]
#: The problem if a child was ended because it took too long.
SLOW = "it does not end in reasonable time"
_REASONS = {
    signal.SIGPROF: SLOW,
    signal.SIGABRT: "it gives up, or needs too much memory",
    signal.SIGSEGV: "it reads memory that it does not have",
    signal.SIGFPE: "it divides by zero",
}
# The number of a request, and a flag that it is answered.
_REQUEST = struct.Struct("<Q?")
# Number of characters kept of what a child wrote before it died.
_MOST_SAID = 4000


@contextlib.contextmanager
def limits(seconds: float, memory: int) -> Iterator[None]:
    """Limit the CPU time and additional memory of this process in a block; it ends beyond them."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with contextlib.suppress(
            OSError, ValueError
        ):  # the system has no such file, or forbids the limit
            with open("/proc/self/statm") as file:
                resident = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (resident + memory, resource.RLIM_INFINITY))
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(OSError, ValueError):  # the next request may be long
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def problem_of(error: Exception) -> dict[str, object]:
    """Return a reply with the error of a request, and its location if MLIR reports one."""
    said = getattr(error, "error_diagnostics", None)
    if said:
        return {"problem": said[0].message, "place": str(said[0].location)}
    return {"problem": f"{type(error).__name__}: {error}"}


def serve_in_forks(answer: Answer) -> None:
    """Answer requests until there are no more, in a child that is replaced when it ends.

    Args:
        answer: maps a request and its blocks of bytes to a reply and its blocks. If a request
            ends the child, the reply is `{"problem": why, "died": True, "said": text}`; `text` is
            what the child wrote to its standard error.
    """
    stream = stream_to_parent()
    # Shared memory with the current request and whether it is answered, so that a death can be
    # attributed to its request. The memory of a request is freed after the answer.
    shared = mmap.mmap(-1, _REQUEST.size)
    while True:
        child = os.fork()
        if child == 0:
            _serve(stream, shared, answer)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # no more requests, or they cannot be read
            return
        ended = os.WTERMSIG(status)
        reason = _REASONS.get(ended) or f"signal {ended}"  # type: ignore[call-overload]  # equal to a Signals
        number, is_answered = _REQUEST.unpack(shared[:])
        if number == 0:
            return
        said = os.pread(2, _MOST_SAID, 0).decode(errors="replace").strip()
        send(stream, number, {"problem": reason, "died": True, "said": said})
        if (
            is_answered
        ):  # the bytes it read of the next request are lost; another process gets that request
            while stream.read1(1 << 16):
                pass
            return


def _serve(stream: BufferedRWPair, shared: Any, answer: Answer) -> None:
    with contextlib.suppress(EOFError):
        while True:
            taken = receive(stream)
            # Set before the memory of the last request is freed, which may end the process.
            shared[:] = _REQUEST.pack(taken[0], False)
            number, request, blocks = taken
            reply = answer(request, blocks)
            # A death during the reply is not reported: the parent would read the report as part of
            # the reply.
            shared[:] = bytes(_REQUEST.size)
            send(stream, number, *reply)
            shared[:] = _REQUEST.pack(number, True)
