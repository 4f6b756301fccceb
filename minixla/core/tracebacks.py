"""Tracebacks of only the user's frames: frames of the framework and of JAX are removed.

Python prints the traceback of an error, so frames are removed when an error leaves the framework
(`api_boundary`). Frames between such a function and the user are marked `__tracebackhide__`, which
IPython and pytest respect.
"""

import functools
import os
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TypeVar, cast

from minixla.core.source import is_user_file
from minixla.core.state import restore_state, state

Function = TypeVar("Function", bound=Callable[..., object])

_OPTION = "MINIXLA_TRACEBACK_FILTERING"
# JAX's option applies if ours is not set, and our note replaces JAX's.
_OPTION_OF_JAX = "JAX_TRACEBACK_FILTERING"
_NOTE = f"(Frames of minixla and JAX are hidden; {_OPTION}=off shows them.)"


def _is_filtering() -> bool:
    """Return whether frames are hidden; the environment is read again for each error."""
    return (os.environ.get(_OPTION) or os.environ.get(_OPTION_OF_JAX)) != "off"


def api_boundary(function: Function) -> Function:
    """Hide frames of the framework in errors of `function`. A decorator."""
    # It costs a frame; if that matters, call `hide_frames` in an `except` clause instead.
    return cast(Function, functools.wraps(function)(hiding_frames(function)))


def hiding_frames(function: Function) -> Function:
    """Apply `api_boundary` to functions that get another name afterwards."""

    def called(*args: object, **kwargs: object) -> object:
        trace, own_frames = state.trace, state.own_frames
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise
        except KeyboardInterrupt:
            restore_state(trace, own_frames)
            raise

    return cast(Function, called)


def hide_frames(error: BaseException) -> None:
    """Remove our frames from a caught error and its causes; call it before `raise`."""
    if not _is_filtering():
        return
    pending: list[BaseException | None] = [error]
    seen = set()
    while pending:
        exception = pending.pop()
        if exception is not None and id(exception) not in seen:
            seen.add(id(exception))
            entries, kept = [], None
            traceback = exception.__traceback__
            while traceback is not None:
                if is_user_file(traceback.tb_frame.f_code.co_filename):
                    entries.append(traceback)
                traceback = traceback.tb_next
            for entry in reversed(entries):
                kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
            exception.__traceback__ = kept
            pending += [exception.__cause__, exception.__context__]
    notes: list[str] = getattr(error, "__notes__", [])
    others = [note for note in notes if note != _NOTE and _OPTION_OF_JAX not in note]
    error.__notes__ = [*others, _NOTE]
    mark_frames(sys._getframe(1))


def mark_frames(frame: FrameType | None) -> None:
    """Mark a frame and its callers, up to the user's frame, as hidden in tracebacks."""
    if not _is_filtering():
        return
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back
