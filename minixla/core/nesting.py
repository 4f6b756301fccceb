"""How deep functions may be traced within each other, and the error where that has no end.

A level takes several frames of the framework's beside the user's own. Python's recursion limit,
which counts frames of both kinds, is raised while levels pile up, as far as the stack has room.
"""

from __future__ import annotations

import sys
import threading
from typing import ClassVar

from minixla.core.errors import NestingError, explain
from minixla.core.source import Source, is_user_file
from minixla.core.state import state, transforming

#: How many frames of ours a level takes at most, of functions that are traced to graphs.
FRAMES_OF_TRACING = 15
# The limit is looked at each time when so many frames have been added.
_STEP = 64
# What a frame takes of the stack at most, with what C functions between two frames take: 250 bytes
# were measured of our own functions, 750 of objects that are called (CPython 3.11).
_BYTES_PER_FRAME = 1024
_STACK, _STACK_OF_THREADS = 8 << 20, 2 << 20  # where the system has no limit, or does not say


class _Limit:
    """Python's recursion limit, which all threads share, and who has had it raised."""

    lock = threading.Lock()
    threads: ClassVar[set[int]] = set()  # in which levels have piled up
    before = raised = 0


def _stack_size() -> int:
    """How many bytes the stack of this thread may have."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main and threading.stack_size():
        return threading.stack_size()
    try:
        import resource  # which Windows has not
    except ImportError:
        return _STACK_OF_THREADS
    size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if size == resource.RLIM_INFINITY:
        return _STACK if is_main else _STACK_OF_THREADS
    return size


def enter_level(frames: int) -> int:
    """Begins one more level, of so many frames of ours; gives what `leave_level` is to be given."""
    before = state.own_frames
    if not before:
        transforming.add(threading.get_ident())
    state.own_frames = now = before + frames
    if now // _STEP != before // _STEP:
        with _Limit.lock:
            if not _Limit.threads:
                _Limit.before = _Limit.raised = sys.getrecursionlimit()
            _Limit.threads.add(threading.get_ident())
            # Above those that the user may have, if the stack has room.
            wanted = min(_Limit.before + now + _STEP, _stack_size() // _BYTES_PER_FRAME)
            if wanted > sys.getrecursionlimit():
                sys.setrecursionlimit(wanted)
                _Limit.raised = wanted
    return before


def leave_level(before: int, error: BaseException | None) -> None:
    """Ends a level, and those within it whose own end Python had no frame left to run."""
    # Where the outermost of many ends in Python's RecursionError, that becomes a NestingError.
    state.own_frames = before
    if before:
        return
    thread = threading.get_ident()
    transforming.discard(thread)
    if thread not in _Limit.threads:
        return
    with _Limit.lock:
        _Limit.threads.remove(thread)
        # The last one leaves the limit as it was.
        if not _Limit.threads and sys.getrecursionlimit() == _Limit.raised:
            sys.setrecursionlimit(_Limit.before)
    # JAX's flattening of trees, which is no Python, ends in a SystemError with that for its cause.
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
    # The frames, thousands of them, say no more than the message will.
    error.__traceback__ = None
    # What stands at the ends is how they began, and what the innermost happened to call.
    quarter = len(places) // 4
    keys = [hash((id(x.code), x.line)) for x in places[quarter : len(places) - quarter]]
    # After how many places the calls repeat themselves.
    periods = (n for n in range(1, len(keys) // 2 + 1) if keys[n:] == keys[:-n])
    period = next(periods, None)
    title, details = "from the outermost to the innermost", [f"  {source}" for source in places]
    if period:
        names = "a function calls itself" if period == 1 else f"{period} lines call each other"
        title = f"{names}, {len(places) // period} times"
        details = details[len(places) // 2 :][:period]
    if len(details) > 12:
        details[6:-6] = [f"  ... {len(details) - 12} more ..."]
    problem = "functions are traced within each other, deeper than the stack has room"
    advice = "A function that calls itself must come to an end while it is traced: let a Python "
    advice += "number or a shape decide, or write the repetition as mx.while_loop, mx.fori_loop or "
    advice += "mx.scan. If it does end, sys.setrecursionlimit gives the functions themselves more "
    advice += "room."
    return explain(NestingError, "trace", problem, [f"{title}:", *details], advice)
