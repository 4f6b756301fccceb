"""Traces that watch what others evaluate: the base class, and how they follow to mx.reference."""

from __future__ import annotations

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


def watched(evaluator: Trace) -> Trace:
    """An evaluator, watched as the current trace is."""
    watching = []
    trace: Trace | None = _state.trace
    while trace is not None:
        if isinstance(trace, WatchTrace):
            watching.append(trace)
        trace = trace.parent
    for each in reversed(watching):
        evaluator = each.over(evaluator)
    return evaluator
