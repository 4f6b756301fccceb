"""Colors of messages, and Ctrl-C where a process does not return to Python.

Python notes a signal when it comes, and raises KeyboardInterrupt when the main thread runs Python
again. Where that takes too long (what XLA computes, for one), the process ends without it.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, Literal

_STYLES = {"bold": 1, "red": 31, "green": 32}
#: The exit status of a process that Ctrl-C has ended, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
# How long what is being done has to end in order.
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
    children = sys.modules.get("minixla.engine.subprocesses")
    try:
        if children is not None:
            children.end_children()
    finally:
        os._exit(INTERRUPTED)
