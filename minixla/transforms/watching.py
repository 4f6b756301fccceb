"""Traces that watch what others evaluate: the base class, and how they follow to mx.reference."""

from __future__ import annotations

from collections.abc import Iterator

from minixla.core.tracing import Trace, _state


class WatchTrace(Trace):
    """Base class of traces that let their parent do all, and look at it."""

    __slots__ = ()

    @property
    def transformation(self) -> str:  # type: ignore[override]  # the parent's
        """What the parent is called."""
        return self.parent.transformation

    @property
    def evaluator(self) -> Trace:
        """The trace that does the work."""
        return self.parent.evaluator

    def over(self, parent: Trace) -> WatchTrace:
        """A trace that watches another in the same way."""
        return type(self)(parent)


def enclosing(trace: Trace | None) -> Iterator[Trace]:
    """A trace and those around it, the innermost first."""
    while trace is not None:
        yield trace
        trace = trace.parent


def watched(evaluator: Trace) -> Trace:
    """An evaluator, watched as the current trace is."""
    watching = [each for each in enclosing(_state.trace) if isinstance(each, WatchTrace)]
    for each in reversed(watching):
        evaluator = each.over(evaluator)
    return evaluator
