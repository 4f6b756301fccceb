"""What each thread is doing: its current trace, and the user's line that it works for."""

from __future__ import annotations

import threading
from typing import Any

from minixla.core.source import Source

__all__ = ["ThreadState", "state"]


class ThreadState(threading.local):
    """The state of one thread; class attributes are what a new thread starts with.

    Attributes:
        trace: the current trace.
        source: the line that new instructions and errors name, while an instruction recorded
            earlier is being transformed; None: the line at which the user's program is.
        axes: the named axes that the function being traced is mapped over, innermost last, as
            pairs of name and what the transformation knows of the axis.
        watch: None, or what is being looked for while programs run (`debug_nans`,
            `checking_leaks`): functions are traced anew for each value of it, and derivative rules
            run through its `pull` and `jvp`.
    """

    trace: Any = None
    source: Source | None = None
    axes: tuple[tuple[Any, Any], ...] = ()
    watch: Any = None


state = ThreadState()
