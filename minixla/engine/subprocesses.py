"""Helper processes, which end with this process."""

import atexit
import contextlib
import math
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Sequence
from io import BufferedRWPair
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np


class ForkedChild:
    """A fork of this process that runs a Python script, with the methods of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], errors: int, unused: int) -> None:
        """Fork.

        Args:
            words: the path of the script and its arguments.
            errors: the file descriptor that becomes the standard error of the child.
            unused: the file descriptor of the parent's end of their connection, which the child
                closes; otherwise it would not notice the death of the parent.
        """
        with warnings.catch_warnings():
            # Python warns about the threads of this process: see `Helper.start_by_fork`.
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if self.pid == 0:
            _run_script(words, errors, unused)
        with contextlib.suppress(OSError):  # the child has done it, or has ended
            os.setpgid(self.pid, self.pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # another thread has the status, or SIGCHLD is ignored
                self.returncode = self.returncode or 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status after the process has ended; raise TimeoutExpired otherwise."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            time.sleep(0.001)
        return status


def _run_script(words: Sequence[str], errors: int, unused: int) -> NoReturn:
    """Run a script in a fork, then end the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(source, target)
        os.close(unused)
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


Child: TypeAlias = "subprocess.Popen[Any] | ForkedChild"
_CHILDREN: weakref.WeakSet[Child] = weakref.WeakSet()


def start_child(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start `subprocess.Popen` in a new process group, so that Ctrl-C reaches only this process."""
    child = subprocess.Popen(words, process_group=0, **options)
    _CHILDREN.add(child)
    return child


def end_child(child: Child) -> None:
    """End a process and the processes that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def end_children() -> None:
    """End all helper processes."""
    for child in list(_CHILDREN):
        if child.poll() is None:
            end_child(child)


def send(
    stream: BufferedRWPair, number: int, message: object, blocks: Sequence[bytes] = ()
) -> None:
    """Send a picklable message under a number, and blocks of bytes unchanged."""
    pickle.dump((number, message, list(map(len, blocks))), stream)
    for block in blocks:
        stream.write(block)
    stream.flush()


def receive(stream: Any) -> tuple[int, Any, list[np.ndarray]]:
    """Return the arguments of `send` at the other end; raise EOFError or TimeoutError if none."""
    number, message, sizes = pickle.load(stream)
    blocks = [np.empty(size, np.uint8) for size in sizes]
    if any(stream.readinto(block) < len(block) for block in blocks):
        raise EOFError
    return number, message, blocks


def stream_to_parent() -> BufferedRWPair:
    """Return the stream on which a helper process can `receive` requests and `send` replies."""
    return socket.socket(fileno=int(sys.argv[-1])).makefile("rwb")


def module_path() -> str:
    """Return the module search path of helper processes: this process's without the current folder.

    The current folder stays if PYTHONPATH has it, or if only it contains this package.
    """
    here, package = os.path.realpath(os.curdir), os.path.realpath(Path(__file__).parents[1])
    named = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    allowed = {os.path.abspath(path) for path in named}
    folders = [os.path.abspath(path) for path in sys.path if path]
    kept = [folder for folder in folders if folder in allowed or os.path.realpath(folder) != here]
    parent, name = os.path.split(package)
    is_found = any(os.path.realpath(os.path.join(folder, name)) == package for folder in kept)
    return os.pathsep.join(kept if is_found else [*kept, parent])


class HelperDied(Exception):
    """Error for a helper process that did not answer; `is_slow` is true if it took too long."""

    def __init__(self, ending: str, is_slow: bool) -> None:
        super().__init__(ending)
        self.is_slow = is_slow


class Helper:
    """A process that answers requests; it starts on the first request, and again after a death."""

    # Python runs `words` in it; it can `receive` requests on `stream_to_parent`, and `send` replies
    # with the same number.
    def __init__(self, *words: str) -> None:
        self._words = words
        self._child: Child | None = None
        self._owner = self._number = 0
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def ask(self, request: object, seconds: float, *blocks: bytes) -> tuple[Any, list[np.ndarray]]:
        """Return the reply to a request and its blocks of bytes; raise HelperDied if none comes."""
        with self._lock:
            while True:
                # A process that forked this one has started its own helper.
                child = self._child
                if child is None or self._owner != os.getpid() or child.poll() is not None:
                    self._start()
                try:
                    self._errors.seek(0)
                    self._errors.truncate()
                    self._number += 1
                    self._connection.settimeout(seconds)
                    send(self._stream, self._number, request, blocks)
                    number, reply, arrays = receive(self._stream)
                except (EOFError, OSError, pickle.UnpicklingError) as error:
                    raise HelperDied(self._end(1.0), isinstance(error, TimeoutError)) from error
                except BaseException:  # an interrupt: a late reply may be incomplete
                    self._end(0.0)
                    raise
                if number == self._number:
                    return reply, arrays
                # It died after its last reply; it may have read part of this request.
                self._end(0.0)

    def start_by_fork(self) -> None:
        """Start the process as a fork of this one, which has loaded most modules that it needs.

        The caller guarantees that no thread of this process holds a lock, which is true before JAX
        looks for devices. It does nothing if the process runs, or on systems other than Linux.
        """
        with self._lock:
            if self._child is None and sys.platform == "linux":
                self._start(by_fork=True)

    def stop(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            if self._child is not None and self._owner == os.getpid():
                self._end(0.0)

    def _start(self, by_fork: bool = False) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (`_end` closes it)
        connection, remote = socket.socketpair()
        self._connection, self._stream = connection, connection.makefile("rwb")
        self._owner = os.getpid()
        # A fork would keep the locks of JAX's threads locked, so by default a new program is
        # started.
        with remote:
            words = [*self._words, str(remote.fileno())]
            if by_fork:
                self._child = ForkedChild(words, self._errors.fileno(), connection.fileno())
                _CHILDREN.add(self._child)
                return
            self._child = start_child(
                [sys.executable, "-P", *words],
                env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": module_path()},
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
            )

    def _end(self, patience: float) -> str:
        """End the process; return how it ended and what it wrote since the last request."""
        child, self._child = self._child, None
        assert child is not None
        self._connection.close()
        with contextlib.suppress(OSError):  # data is still unsent
            self._stream.close()
        try:
            how = f"ended with status {child.wait(timeout=patience)}"
        except subprocess.TimeoutExpired:
            end_child(child)
            how = "did not answer in time"
        with self._errors:
            self._errors.seek(0)
            return f"{how}: {self._errors.read(2000).decode(errors='replace').strip()}"
