"""One line that says what long work is at, on a terminal and in a notebook."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator


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
