"""What somebody at a terminal sees of long work, and Ctrl-C where it does not return to Python.

Python notes a signal when it comes, and raises KeyboardInterrupt when the main thread runs Python
again. Where that takes too long (what XLA computes, for one), the process ends without it.
"""

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

#: The exit status of a process that Ctrl-C has ended, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
# How long what is being done has to end in order.
_SECONDS = 1.2


def end_on_interrupt() -> None:
    """Lets the first Ctrl-C end this process within two seconds, whatever it is doing.

    KeyboardInterrupt is raised as ever; if the process still runs a second later, it is ended.
    Without effect outside the main thread, which signals are for.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), name="minixla interrupts", daemon=True).start()


def _watch(reader: int) -> None:
    while signal.SIGINT not in os.read(reader, 4096):
        pass
    time.sleep(_SECONDS)
    # Loading it would load NumPy; where it is not loaded, there are no children.
    children = sys.modules.get("minixla.core.children")
    if children is not None:
        children.end_children()
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def shown_progress(title: str) -> Iterator[Callable[[str], None]]:
    """A function that shows the step of long work, and for how long the work has been going on.

    It writes to standard error where somebody watches: a terminal, or a notebook. The line is gone
    at the end.
    """
    stream = sys.stderr
    # A notebook: IPython is there, and has a kernel.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_terminal = getattr(stream, "isatty", lambda: False)()
    if not is_terminal and getattr(shell, "kernel", None) is None:
        yield lambda step: None
        return
    start, shown = time.monotonic(), ""

    def show(line: str) -> None:
        nonlocal shown
        # Work does not fail because nobody sees how far it is.
        with contextlib.suppress(OSError, ValueError):
            print(f"\r{' ' * len(shown)}\r{line}", end="", file=stream, flush=True)
        shown = line

    def say(step: str) -> None:
        line = f"{title}: {step} ({time.monotonic() - start:.0f} s)"
        # One that wraps could not be written over.
        show(line[: shutil.get_terminal_size().columns - 1])

    try:
        yield say
    finally:
        show("")
