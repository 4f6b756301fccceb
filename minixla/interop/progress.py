"""Progress of long work at a terminal or in a notebook: a line, drawn by tqdm."""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# Shorter work shows nothing.
_PATIENCE = 1.0
# Seconds between two updates of the line.
_INTERVAL = 0.2
_STEPS = "{desc} |{bar:20}| {n_fmt}/{total_fmt} [{elapsed}]{postfix}"
_TIME = "{desc} [{elapsed}]{postfix}"
# Held by the work that is shown, so that work inside it shows nothing.
_SHOWN = threading.Lock()


@contextlib.contextmanager
def shown_progress(title: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Return a function that reports which step of long work begins.

    At a terminal or in a notebook, if tqdm is installed, a line appears on standard error after a
    second of work. It shows the step and the elapsed time, and disappears at the end.

    Args:
        title: the beginning of the line.
        total: the number of steps, if it is known: then the line has a bar.
    """
    if not _is_watched() or not _SHOWN.acquire(blocking=False):
        yield lambda step: None
        return
    line = _Line(title, total)
    try:
        yield line.steps.append
    finally:
        line.end()
        _SHOWN.release()


def in_notebook() -> bool:
    """Return whether a notebook runs this: IPython is loaded, and has a kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _is_watched() -> bool:
    return in_notebook() or getattr(sys.stderr, "isatty", lambda: False)()


class _Line:
    """A line that another thread draws, so that a long step does not stop its clock."""

    def __init__(self, title: str, total: int | None) -> None:
        self.steps: list[str] = []
        self._title, self._total, self._start = title, total, time.time()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="minixla progress", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._ended.wait(_PATIENCE):
            return
        # Work must not fail because its progress cannot be shown.
        with contextlib.suppress(ImportError, OSError, ValueError):
            bar = _bar_class()(
                desc=self._title,
                total=self._total,
                bar_format=_STEPS if self._total else _TIME,
                file=sys.stderr,
                leave=False,
                delay=1e-9,  # it is drawn below
            )
            bar.start_t = self._start
            try:
                while not self._ended.is_set():
                    # A step that has begun is not done.
                    bar.n = max(0, len(self.steps) - 1)
                    # A line that wraps could not be written over.
                    bar.ncols = shutil.get_terminal_size().columns - 1
                    bar.set_postfix_str(self.steps[-1] if self.steps else "")
                    self._ended.wait(_INTERVAL)
                bar.close()
            finally:
                bar.disable = True  # otherwise Python closes it again


def _bar_class() -> Any:
    """Return a class of tqdm bars without tqdm's thread and the lock between processes.

    It is a new class because tqdm stores the lock in the class, out of our reach.
    """
    from tqdm import tqdm  # an extra

    class Bar(tqdm):
        monitor_interval = 0
        _lock: Any = threading.RLock()

    return Bar
