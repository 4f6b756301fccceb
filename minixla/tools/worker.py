"""An evaluator of programs in a process of its own, which a program may kill without harm.

Both sides are here: `Worker` starts the process and asks it, `serve` is what the process does. A
request is (module text, arrays); a reply is (None, arrays) or (error message, []).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import numpy as np

from minixla.core.children import end_child, start_child


class OracleError(NotImplementedError):
    """An oracle refused a program or its arguments: it does not parse, verify, compile or fit."""


class OracleCrash(OracleError):
    """An oracle died of a program, or did not answer in time; the message has the program."""


def serve(evaluate: Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]) -> None:
    """Evaluate what comes over the connection that the command line names, until it is closed."""
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            text, arguments = connection.recv()
        except EOFError:
            return
        try:
            reply = None, evaluate(text, arguments)
        except Exception as error:  # Whatever is wrong with the request, its sender is told.
            reply = f"{type(error).__name__}: {error}", []
        connection.send(reply)


class _Process:
    """A process that runs `serve`, and the connection to it."""

    def __init__(self, module: str) -> None:
        self.owner = os.getpid()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (`end` closes it)
        self.connection, remote = multiprocessing.Pipe()
        # It finds the modules that this process finds.
        folders = os.pathsep.join(map(os.path.abspath, sys.path))
        # A new program and not a fork: a fork of JAX's threads would leave their locks held.
        with remote:
            self.popen = start_child(
                [sys.executable, "-P", "-m", module, str(remote.fileno())],
                env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": folders},
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=self.errors,
            )

    def usable(self) -> bool:
        """Whether it lives and was started by this process, not by one that forked this one."""
        return self.owner == os.getpid() and self.popen.poll() is None

    def ask(self, request: object, timeout: float) -> tuple[str | None, list[np.ndarray]]:
        """The reply to a request; EOFError, ConnectionError or TimeoutError where none comes."""
        self.errors.seek(0)
        self.errors.truncate()
        self.connection.send(request)
        if not self.connection.poll(timeout):
            raise TimeoutError
        return self.connection.recv()

    def end(self, patience: float = 1.0) -> str:
        """End it, and tell how it ended and what it wrote since the last request."""
        self.connection.close()
        try:
            how = f"ended with status {self.popen.wait(timeout=patience)}"
        except subprocess.TimeoutExpired:
            end_child(self.popen)
            how = "did not answer in time"
        with self.errors:
            self.errors.seek(0)
            return f"{how}: {self.errors.read(2000).decode(errors='replace').strip()}"


class Worker:
    """An evaluator that is started when first asked, and again after it died.

    Args:
        name: what messages call it.
        module: full name of the module that calls `serve` when run.
    """

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self._module = module
        self._process: _Process | None = None
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def evaluate(
        self, text: str, arguments: Sequence[np.ndarray], timeout: float
    ) -> list[np.ndarray]:
        """Results of a program; OracleError if it is refused, OracleCrash if no answer comes."""
        request = text, [np.asarray(argument) for argument in arguments]
        with self._lock:
            error, results = self._ask(request, timeout)
        if error is not None:
            raise OracleError(f"{self.name} refused the module: {error}\n{text}")
        return results

    def stop(self) -> None:
        """End the process; the next evaluation starts another."""
        with self._lock:
            if self._process is not None and self._process.usable():
                self._process.end()
            self._process = None

    def _ask(
        self, request: tuple[str, list[np.ndarray]], timeout: float
    ) -> tuple[str | None, list[np.ndarray]]:
        if self._process is None or not self._process.usable():
            self._process = _Process(self._module)
        try:
            return self._process.ask(request, timeout)
        except BaseException as error:
            # On an interrupt too: a late reply would be taken for that to the next request.
            patience = 1.0 if isinstance(error, Exception) else 0.0
            ending, self._process = self._process.end(patience), None
            if isinstance(error, EOFError | ConnectionError | TimeoutError):
                raise OracleCrash(f"{self.name} {ending}\n{request[0]}") from error
            raise
