"""The StableHLO text of a graph for one platform: legalized, with the platform's own forms."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.stablehlo_text import Emitter
from minixla.engine import kernels
from minixla.engine.repeats import repeated
from minixla.legalize import Target, legalized, legalized_text, platform_of

#: Element types for which XLA has no code at all on a platform.
_LACKING = {"tpu": "c128 s2 u2"}


@lru_cache(maxsize=4096)
def _lacking(
    kind: type[Operation], platform: str, shapes: tuple[AnyShape, ...], gives_several: bool
) -> str | None:
    """Of what element type XLA has no code for an operation: one, `any`, or None."""
    tables = [kind.lacking, _LACKING, *[kind.lacking_together] * gives_several]
    lacking = {name for table in tables for name in table.get(platform, "").split()}
    own = {str(shape.element_type) for shape in shapes if isinstance(shape, Shape)}
    return min(lacking & (own | {"any"}), default=None)


class PlatformEmitter(Emitter):
    """Writes a program for a target; None stands for several platforms, which have no rules."""

    def __init__(self, target: Target | None, locations: bool = False, prefix: str = "") -> None:
        super().__init__(locations, prefix, None if target is None else target.platform)
        self._target = target
        self.device_count = 1 if target is None else target.device_count
        is_here = target is not None and not target.for_export
        self.calls_kernels = is_here and self.is_for_one_cpu and kernels.library() is not None

    def module(self, graph: Graph, *given: Any, **options: Any) -> str:
        """As `Emitter.module`; on one CPU calls of large programs that are many stay calls."""
        if self._target is not None:
            graph = legalized(graph.pruned(), self._target)
        # What is split over devices must not hide in a call from XLA's partitioner.
        if self.is_for_one_cpu:
            self.apart = repeated(graph)
        return super().module(graph, *given, **options)

    def expand(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """As `Emitter.expand`, legalized."""
        return super().expand(self._legal(graph), operands)

    def _function(self, graph: Graph, *given: Any) -> str:
        return super()._function(self._legal(graph), *given)

    def _legal(self, graph: Graph) -> Graph:
        """A program that an operation is written as, for operands that may be constants."""
        return graph if self._target is None else legalized_text(graph, self._target)

    def _body(self, graph: Graph, parameters: Sequence[str]) -> list[str]:
        platform = self.platform or "cpu"
        for step in graph.instructions if platform != "cpu" else ():
            given = tuple([operand.shape for operand in step.operands])
            shapes, gives_several = (*given, *step.shapes), len(step.results) > 1
            lacking = _lacking(type(step.op), platform, shapes, gives_several)
            if lacking is None:
                continue
            # XLA would refuse it in its own words, or die.
            name, is_any = step.op.builder_name, lacking == "any"
            what = name if is_any else f"{name} of {lacking}"
            ways = ["Compile it for the CPU"] + ["convert to another type (astype)"] * (not is_any)
            shown = [f"operands {', '.join(map(str, given))}"]
            problem, advice = f"XLA has no code for {what} on {platform}", f"{', or '.join(ways)}."
            raise explain(TransformError, name, problem, shown, advice, source=step.source)
        return super()._body(graph, parameters)


def platform_text(graph: Graph, platform: str) -> str:
    """Return the program that XLA receives on one device of a platform, without source lines.

    Raises:
        AttributeValueError: the platform is unknown.
    """
    return PlatformEmitter(Target(platform_of(platform))).module(graph)
