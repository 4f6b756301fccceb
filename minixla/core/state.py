"""What each thread is doing: its current trace, and the user's line that it works for."""

from __future__ import annotations

import gc
import threading
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from minixla.core import hooks
from minixla.core.source import Source

if TYPE_CHECKING:
    import jax.core


def current_trace() -> Any:  # noqa: ANN401  # a Trace
    """Return this thread's current trace; importing the engine replaces this function."""
    hooks.engine()
    return state.trace


def set_current_trace(trace: jax.core.Trace) -> None:
    """Set this thread's current trace; importing the engine replaces this function."""
    hooks.engine()
    state.trace = trace


class ThreadState(threading.local):
    """The state of one thread; class attributes are what a new thread starts with."""

    #: The current trace. It is read from JAX, whose stack of traces is the only one.
    trace: Any = property(
        lambda self: current_trace(), lambda self, trace: set_current_trace(trace)
    )
    #: The names of JAX's open scopes, joined by slashes; the engine replaces it by a property.
    scope: str = ""
    #: The line that new instructions and errors name, while an instruction recorded earlier is
    #: being transformed; None: the line at which the user's program is.
    source: Source | None = None
    #: The named axes that the function being traced is mapped over, innermost last, as pairs of
    #: name and what the transformation knows of the axis.
    axes: tuple[tuple[Hashable, Any], ...] = ()
    #: The mesh of devices that specs of layouts are about where they name none.
    mesh: Any = None
    #: None, or what is being looked for while programs run (`debug_nans`, `checking_leaks`):
    #: functions are traced anew for each value, and derivative rules run through its `pull`, `jvp`.
    #: `differentiates` and `batches` are called before each rule.
    watch: Any = None
    #: The rules of legalization that are switched off, as pairs of platform and name.
    disabled_rules: frozenset[tuple[str, str]] = frozenset()
    #: How many frames the framework takes for functions that are traced within each other.
    own_frames: int = 0
    #: Whether the garbage collector, which pauses, is to be started again.
    collects: bool = False

    def __reduce__(self) -> str:
        return "state"


state = ThreadState()
#: The threads that are within some transformation: in all others the default evaluator is current.
#: Where there are none, as most often, nobody need ask for this thread's.
transforming: set[int] = set()


@contextmanager
def held(name: str, value: object) -> Iterator[None]:
    """Set an attribute of the thread's state inside a `with` block."""
    previous = getattr(state, name)
    setattr(state, name, value)
    try:
        yield
    finally:
        setattr(state, name, previous)


def at_own_lines() -> AbstractContextManager[None]:
    """Inside a `with` block instructions and errors name the user's line that runs, of a rule."""
    return held("source", None)


def restore_state(trace: jax.core.Trace, own_frames: int) -> None:
    """Makes a thread's state what it was, where Ctrl-C may have come while a trace was ending."""
    # Python may raise KeyboardInterrupt as it enters a function: the end of a `with` block, too.
    state.trace = trace
    state.own_frames = own_frames
    if not own_frames:
        transforming.discard(threading.get_ident())
        state.source, state.axes, state.mesh = None, (), None
        if state.collects:
            state.collects = False
            gc.enable()
