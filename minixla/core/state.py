"""Thread-local state: the current trace, and the user's line being processed."""

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
    """The state of one thread; class attributes are initial values."""

    #: The current trace. It is read from JAX, which has the only stack of traces.
    trace: Any = property(
        lambda self: current_trace(), lambda self, trace: set_current_trace(trace)
    )
    #: The names of JAX's open scopes, joined by slashes; the engine replaces it with a property.
    scope: str = ""
    #: The line for new instructions and errors while a recorded instruction is transformed; None:
    #: the running line of the user's program.
    source: Source | None = None
    #: The named axes that the traced function is mapped over, innermost last, as pairs of name and
    #: information of the transformation.
    axes: tuple[tuple[Hashable, Any], ...] = ()
    #: The default mesh of devices for sharding specs.
    mesh: Any = None
    #: None, or the active check of running programs (`debug_nans`, `checking_leaks`). Functions are
    #: traced again for each value, and derivative rules run through its `pull` and `jvp`.
    #: `differentiates` and `batches` are called before each rule.
    watch: Any = None
    #: The disabled rules of legalization, as pairs of platform and name.
    disabled_rules: frozenset[tuple[str, str]] = frozenset()
    #: The number of framework frames of nested traced functions.
    own_frames: int = 0
    #: True if the paused garbage collector must be restarted.
    collects: bool = False

    def __reduce__(self) -> str:
        return "state"


state = ThreadState()
#: The threads inside a transformation; in all others the default evaluator is current. If it is
#: empty, which is the most common case, the thread id is not needed.
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
    """Make instructions and errors inside a `with` block name the running line of a user's rule."""
    return held("source", None)


def restore_state(trace: jax.core.Trace, own_frames: int) -> None:
    """Restore a thread's state after Ctrl-C while a trace was ending."""
    # Python may raise KeyboardInterrupt on entry of a function, including the end of a `with`
    # block.
    state.trace = trace
    state.own_frames = own_frames
    if not own_frames:
        transforming.discard(threading.get_ident())
        state.source, state.axes, state.mesh = None, (), None
        if state.collects:
            state.collects = False
            gc.enable()
