"""Answering requests in a process that may die of them, or never end.

The process forks a child that answers until it dies; the next one needs no imports. This is the
side of the process that helps: `children.Helper` asks it.
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
#: What is said of a request of which a child died: it took too long.
SLOW = "it does not end in reasonable time"
_REASONS = {
    signal.SIGPROF: SLOW,
    signal.SIGABRT: "it gives up, or needs too much memory",
    signal.SIGSEGV: "it reads memory that it does not have",
    signal.SIGFPE: "it divides by zero",
}
# The number of a request, and whether it is answered.
_REQUEST = struct.Struct("<Q?")
# Characters of what a child wrote before it died.
_MOST_SAID = 4000


@contextlib.contextmanager
def limits(seconds: float, memory: int) -> Iterator[None]:
    """Ends this process where it takes more CPU time, or more bytes than it has, in a block."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with contextlib.suppress(OSError, ValueError):  # the system does not tell, or forbids
            with open("/proc/self/statm") as file:
                resident = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (resident + memory, resource.RLIM_INFINITY))
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(OSError, ValueError):  # the next request may be a long one
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def problem_of(error: Exception) -> dict[str, object]:
    """A reply that says what is wrong with a request, and where if MLIR says so."""
    said = getattr(error, "error_diagnostics", None)
    if said:
        return {"problem": said[0].message, "place": str(said[0].location)}
    return {"problem": f"{type(error).__name__}: {error}"}


def serve_in_forks(answer: Answer) -> None:
    """Answers requests until there are no more, in a child, and another when it has died.

    Args:
        answer: makes a reply and its blocks of bytes of a request and its blocks. Of a request
            of which the child dies the reply is `{"problem": why, "died": True, "said": text}`,
            with what it wrote to its standard error.
    """
    stream = stream_to_parent()
    # Which request it is, and whether it is answered: memory that the child shares, so that its
    # death is told of the request of which it died. What it read is freed after the answer.
    shared = mmap.mmap(-1, _REQUEST.size)
    while True:
        child = os.fork()
        if child == 0:
            _serve(stream, shared, answer)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # there are no more requests, or they cannot be read
            return
        ended = os.WTERMSIG(status)
        reason = _REASONS.get(ended) or f"signal {ended}"  # type: ignore[call-overload]  # equal to a Signals
        number, is_answered = _REQUEST.unpack(shared[:])
        if number == 0:
            return
        said = os.pread(2, _MOST_SAID, 0).decode(errors="replace").strip()
        send(stream, number, {"problem": reason, "died": True, "said": said})
        if is_answered:  # what it took of the next request is lost: that is asked elsewhere
            while stream.read1(1 << 16):
                pass
            return


def _serve(stream: BufferedRWPair, shared: Any, answer: Answer) -> None:
    with contextlib.suppress(EOFError):
        while True:
            taken = receive(stream)
            # Before what the last request left is freed, of which it may die.
            shared[:] = _REQUEST.pack(taken[0], False)
            number, request, blocks = taken
            reply = answer(request, blocks)
            # Of a death now nobody is told: the other side would take it for what is missing.
            shared[:] = bytes(_REQUEST.size)
            send(stream, number, *reply)
            shared[:] = _REQUEST.pack(number, True)
