"""Colors of messages, and Ctrl-C while a process does not return to Python.

Python notes a signal when it comes, and raises KeyboardInterrupt when the main thread runs Python
again. If that takes too long, for example while XLA computes, the process ends without it.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, Literal

_STYLES = {"bold": 1, "red": 31, "green": 32}
#: The exit status of a process that Ctrl-C ended, as in shells.
INTERRUPTED = 128 + signal.SIGINT
# The time in which the process may end in order.
_SECONDS = 1.2


def has_colors(stream: Any) -> bool:  # any object with `write`
    """Test whether a stream is a terminal that shows colors, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    is_terminal = getattr(stream, "isatty", None)
    return is_terminal is not None and is_terminal()


def styled(
    text: str,
    style: Literal["bold", "red", "green"],
    stream: Any,  # any object with `write`
) -> str:
    """Return text in a color, or bold, if the stream that it is written to shows colors."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if has_colors(stream) else text


def end_on_interrupt() -> None:
    """Let the first Ctrl-C end this process within two seconds.

    KeyboardInterrupt is raised as usual; if the process still runs a second later, it is ended.
    This has no effect outside the main thread, which receives the signals.
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
    # Importing it would load NumPy; without it, the process has no children.
    children = sys.modules.get("minixla.engine.subprocesses")
    try:
        if children is not None:
            children.end_children()
    finally:
        os._exit(INTERRUPTED)
