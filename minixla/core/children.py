"""Processes that this one starts to help it; they end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import weakref
from collections.abc import Sequence
from typing import Any

_CHILDREN: weakref.WeakSet[subprocess.Popen[Any]] = weakref.WeakSet()


def start_child(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` in a group of its own: Ctrl-C is for us, who end our children."""
    child = subprocess.Popen(words, process_group=0, **options)
    _CHILDREN.add(child)
    return child


def end_child(child: subprocess.Popen[Any]) -> None:
    """Ends a process at once, and those that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def end_children() -> None:
    """Ends all of them at once."""
    for child in list(_CHILDREN):
        if child.poll() is None:
            end_child(child)
