"""Forward derivatives of which only the tangents' part is recorded, as a program: linearization."""

from __future__ import annotations

from typing import Any

from minixla.core.forward import ForwardTrace, jvp_of
from minixla.core.operation import Operation
from minixla.core.tracing import GraphTrace, GraphTracer, Trace, under


class PartialTrace(GraphTrace):
    """Records operations on its own tracers; computes all others under its parent."""

    transformation = "linearize"
    __slots__ = ()

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """The operation, recorded where an operand is unknown."""
        if any(map(self.is_own, operands)):
            return super().process(operation, operands)
        with under(self.parent):
            return self.parent.process(operation, operands)

    def lift(self, value: Any, subject: str = "trace") -> Any:
        """A tracer, or a value of the parent."""
        return value if self.is_own(value) else self.parent.lift(value, subject)

    def is_own(self, value: Any) -> bool:
        """Whether a value is known only when the recorded program runs."""
        return type(value) is GraphTracer and value._trace is self


class LinearizeTrace(ForwardTrace):
    """Computes primals at once, and records what happens to tangents."""

    transformation = "linearize"
    __slots__ = ("recorder",)

    def __init__(self, parent: Trace) -> None:
        self.recorder = PartialTrace(parent)
        super().__init__(self.recorder)

    def derive(
        self, operation: Operation, primals: list[Any], tangents: list[Any]
    ) -> tuple[Any, Any]:
        """Results, computed, and tangents, recorded."""
        results, tangents_out = jvp_of(operation, primals, tangents)
        if type(results) is tuple and any(map(self.recorder.is_own, results)):
            # One program gives both: the recorded one is run for tangents alone.
            known = self.recorder.parent
            with under(known):
                results = known.process(operation, tuple(primals))
        return results, tangents_out
