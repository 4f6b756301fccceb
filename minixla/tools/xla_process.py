"""XLA as a function from module text and arrays to arrays, which a program may kill without harm.

The process that receives requests forks another one, which runs the programs. If a program kills
that one, it forks again. It imports JAX and starts no backend, so it has one thread and a fork
takes 20 ms.
"""

import contextlib
import os
import pickle
import re
import select
import signal
import socket
import tempfile
from collections.abc import Sequence
from io import BufferedRWPair
from typing import Any, NamedTuple

import jax
import numpy as np

from minixla.engine.foreign_code import prepare_target
from minixla.engine.subprocesses import Helper, HelperDied, receive, send, stream_to_parent
from minixla.tools.evaluators import NotEvaluated
from minixla.tools.reproducer_script import run_on_xla

_helper = Helper("-m", "minixla.tools.xla_process")
# The time in which the process must start.
_START = 60.0
_TARGET = re.compile(r'"((?:lapack|minixla)_\w+)"')


class Outcome(NamedTuple):
    """The outcome of compiling and running a program.

    Attributes:
        ending: None, or why results are missing: `died`, `hangs`, `error` (XLA raises one).
        message: what the process wrote, or the error.
        results: the results.
    """

    ending: str | None
    message: str = ""
    results: Sequence[np.ndarray] = ()


def run_xla(
    text: str, arguments: Sequence[np.ndarray], platform: str = "cpu", seconds: float = 60.0
) -> Outcome:
    """Compile and run a StableHLO module in another process.

    Args:
        text: the module.
        arguments: an array for each argument of @main, of its shape and element type.
        platform: the platform that XLA compiles for.
        seconds: the time after which the program counts as an infinite loop.

    Returns:
        The results, or the reason why they are missing.

    Raises:
        NotEvaluated: no process can be started.
    """
    request = text, list(map(np.asarray, arguments)), platform, seconds
    try:
        return Outcome(*_helper.ask(request, seconds + _START)[0])
    except HelperDied as death:  # not because of a program, which runs in a fork
        raise NotEvaluated(f"the process that runs XLA {death}") from death


def stop() -> None:
    """End the process; the next program starts a new one, with the environment at that time."""
    _helper.stop()


class _Child:
    """A fork of this process that runs programs for a platform until it ends."""

    def __init__(self, parent: BufferedRWPair, platform: str) -> None:
        self.platform = platform
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (`ending` closes it)
        self._connection, remote = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            parent.close()
            os.dup2(self._errors.fileno(), 2)
            try:
                _run_programs(remote.makefile("rwb"), platform)
            finally:
                os._exit(0)
        remote.close()
        self._stream = self._connection.makefile("rwb")

    def outcome(self, request: Any) -> Outcome:
        """Return the outcome of running a program."""
        self._errors.seek(0)
        self._errors.truncate()
        try:
            send(self._stream, 0, request)
            if not select.select([self._connection], [], [], request[3])[0]:
                return Outcome("hangs", f"no result after {request[3]:g} seconds")
            return Outcome(*receive(self._stream)[1])
        except (EOFError, OSError, pickle.UnpicklingError):  # perhaps in the middle of its reply
            return Outcome("died", self._ending())

    def _ending(self) -> str:
        """Return how the process ended, and the first line that it wrote about the program."""
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        how = f"status {status}" if status >= 0 else signal.Signals(-status).name
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with {how}{f': {lines[0]}' if lines else ''}"

    def end(self) -> None:
        """End the process, if it runs, and close its connection."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._errors.close()
        self._connection.close()
        with contextlib.suppress(OSError):  # bytes that the process has not read
            self._stream.close()


def _run_programs(stream: BufferedRWPair, platform: str) -> None:
    jax.config.update("jax_platforms", platform if platform == "cpu" else f"{platform},cpu")
    jax.config.update("jax_enable_x64", True)
    while True:
        text, arguments, *_ = receive(stream)[1]
        for target in _TARGET.findall(text):
            prepare_target(target, None)
        try:
            reply = Outcome(None, "", run_on_xla(text, arguments, platform))
        except Exception as error:  # XLA may raise any error
            reply = Outcome("error", str(error))
        send(stream, 0, tuple(reply))


def _serve() -> None:
    """Run the programs from the connection that the command line names."""
    stream = stream_to_parent()
    child: _Child | None = None
    with contextlib.suppress(EOFError):
        while True:
            number, request, _ = receive(stream)
            if child is not None and child.platform != request[2]:
                child.end()
                child = None
            child = child or _Child(stream, request[2])
            outcome = child.outcome(request)
            if outcome.ending in ("died", "hangs"):
                child.end()
                child = None
            send(stream, number, tuple(outcome))
    if child is not None:
        child.end()


if __name__ == "__main__":
    _serve()
