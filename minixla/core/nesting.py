"""The nesting depth of traced functions, and the error for infinite recursion.

A level takes several frames of the framework and the user. Python's recursion limit counts both. It
is raised while levels nest, as far as the stack has room.
"""

from __future__ import annotations

import sys
import threading
from typing import ClassVar

from minixla.core.errors import NestingError, explain
from minixla.core.source import Source, is_user_file
from minixla.core.state import state, transforming

#: The maximum number of framework frames per level, for functions traced to graphs.
FRAMES_OF_TRACING = 15
# The limit is checked after this many additional frames.
_STEP = 64
# The maximum stack size of a frame, including C functions between two frames. Measured sizes are
# 250 bytes for functions of the framework and 750 for callable objects (CPython 3.11).
_BYTES_PER_FRAME = 1024
_STACK, _STACK_OF_THREADS = 8 << 20, 2 << 20  # if the system has no limit, or does not report it


class _Limit:
    """Python's recursion limit, shared by all threads, and the threads that have raised it."""

    lock = threading.Lock()
    threads: ClassVar[set[int]] = set()  # threads with nested levels
    before = raised = 0


def _stack_size() -> int:
    """Return the size of this thread's stack in bytes."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main and threading.stack_size():
        return threading.stack_size()
    try:
        import resource  # not available on Windows
    except ImportError:
        return _STACK_OF_THREADS
    size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if size == resource.RLIM_INFINITY:
        return _STACK if is_main else _STACK_OF_THREADS
    return size


def enter_level(frames: int) -> int:
    """Enter a level with this number of frames; return the argument for `leave_level`."""
    before = state.own_frames
    if not before:
        transforming.add(threading.get_ident())
    state.own_frames = now = before + frames
    if now // _STEP != before // _STEP:
        with _Limit.lock:
            if not _Limit.threads:
                _Limit.before = _Limit.raised = sys.getrecursionlimit()
            _Limit.threads.add(threading.get_ident())
            # Exceed the user's limit if the stack has room.
            wanted = min(_Limit.before + now + _STEP, _stack_size() // _BYTES_PER_FRAME)
            if wanted > sys.getrecursionlimit():
                sys.setrecursionlimit(wanted)
                _Limit.raised = wanted
    return before


def leave_level(before: int, error: BaseException | None) -> None:
    """Leave a level, including inner levels that Python had no frame left to leave."""
    # If the outermost level ends in Python's RecursionError, it becomes a NestingError.
    state.own_frames = before
    if before:
        return
    thread = threading.get_ident()
    transforming.discard(thread)
    if thread not in _Limit.threads:
        return
    with _Limit.lock:
        _Limit.threads.remove(thread)
        # The last thread restores the limit.
        if not _Limit.threads and sys.getrecursionlimit() == _Limit.raised:
            sys.setrecursionlimit(_Limit.before)
    # JAX's flattening of trees, in C++, raises a SystemError with the RecursionError as its cause.
    cause = error.__cause__ if isinstance(error, SystemError) else error
    if error and isinstance(cause, RecursionError) and not isinstance(error, NestingError):
        raise _nesting_error(error) from None


def _nesting_error(error: BaseException) -> NestingError:
    places: list[Source] = []  # the user's lines in the traceback, outermost first
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_file(code.co_filename):
            places.append(Source(code, traceback.tb_lasti))
        traceback = traceback.tb_next
    # The traceback, with thousands of frames, has no more information than the message.
    error.__traceback__ = None
    # Ignore both ends: the start of the recursion, and the last calls.
    quarter = len(places) // 4
    keys = [hash((id(x.code), x.line)) for x in places[quarter : len(places) - quarter]]
    # The period after which the calls repeat.
    periods = (n for n in range(1, len(keys) // 2 + 1) if keys[n:] == keys[:-n])
    period = next(periods, None)
    title, details = "from the outermost to the innermost", [f"  {source}" for source in places]
    if period:
        names = "a function calls itself" if period == 1 else f"{period} lines call each other"
        title = f"{names}, {len(places) // period} times"
        details = details[len(places) // 2 :][:period]
    if len(details) > 12:
        details[6:-6] = [f"  ... {len(details) - 12} more ..."]
    problem = "traced functions are nested deeper than the stack allows"
    advice = "A recursive function must terminate while it is traced: let a Python "
    advice += "scalar or a shape decide, or write the repetition as mx.while_loop, mx.fori_loop or "
    advice += "mx.scan. If it does terminate, sys.setrecursionlimit allows the functions more "
    advice += "frames."
    return explain(NestingError, "trace", problem, [f"{title}:", *details], advice)
