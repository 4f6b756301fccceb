"""Tracebacks of the user's frames alone: the framework's, and JAX's, are taken out.

Python prints the traceback that an error carries, so that frames are taken out where an error
leaves the framework (`api_boundary`). What stands between such a place and the user is marked
`__tracebackhide__`, which IPython and pytest heed.
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
# JAX's option counts where ours is not set, and JAX's note gives way to ours.
_OPTION_OF_JAX = "JAX_TRACEBACK_FILTERING"
_NOTE = f"(Frames of minixla and JAX are hidden; {_OPTION}=off shows them.)"


def _is_filtering() -> bool:
    """Whether frames are hidden; the environment is asked anew for each error."""
    return (os.environ.get(_OPTION) or os.environ.get(_OPTION_OF_JAX)) != "off"


def api_boundary(function: Function) -> Function:
    """`function`, whose errors show no frames of the framework. A decorator."""
    # It costs a frame; where that matters, call `hide_frames` in an `except` clause instead.
    return cast(Function, functools.wraps(function)(hiding_frames(function)))


def hiding_frames(function: Function) -> Function:
    """`api_boundary` for functions that get the name of another afterwards."""

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
    """Takes our frames off an error and those it came from, where it was caught, before `raise`."""
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
    """Marks a frame and those that called it, up to the user's, as hidden in tracebacks."""
    if not _is_filtering():
        return
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back
