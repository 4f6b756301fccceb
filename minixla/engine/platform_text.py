"""The StableHLO text of a graph for one platform: legalized, with platform-specific forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.stablehlo_text import Emitter
from minixla.engine import kernels
from minixla.legalize import Target, legalized, legalized_text, platform_of
from minixla.legalize.cpu.repeats import repeated
from minixla.legalize.unsupported import unsupported_type


class PlatformEmitter(Emitter):
    """Writes a program for a target; None means several platforms, and no rules apply."""

    def __init__(self, target: Target | None, locations: bool = False, prefix: str = "") -> None:
        super().__init__(locations, prefix, None if target is None else target.platform)
        self._target = target
        self.device_count = 1 if target is None else target.device_count

    def module(self, graph: Graph, *arguments: Any, **options: Any) -> str:
        """Emit like `Emitter.module`; on one CPU, repeated calls of large programs stay calls."""
        if self._target is not None:
            graph = legalized(graph.pruned(), self._target)
        # Code split over devices must be visible to XLA's partitioner, so it must not be in a call.
        if self.platform == "cpu" and self.device_count == 1:
            self.apart = repeated(graph)
        return super().module(graph, *arguments, **options)

    def expand(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Like `Emitter.expand`, with the program legalized."""
        return super().expand(self._legal(graph), operands)

    def _function(self, graph: Graph, *arguments: Any) -> str:
        return super()._function(self._legal(graph), *arguments)

    def _legal(self, graph: Graph) -> Graph:
        """Legalize a program that replaces an operation; its operands may be constants."""
        return graph if self._target is None else legalized_text(graph, self._target)

    def _body(self, graph: Graph, parameters: Sequence[str]) -> list[str]:
        platform = self.platform or "cpu"
        for step in graph.instructions if platform != "cpu" else ():
            operand_shapes = tuple([operand.shape for operand in step.operands])
            shapes, gives_several = (*operand_shapes, *step.shapes), len(step.results) > 1
            lacking = unsupported_type(type(step.op), platform, shapes, gives_several)
            if lacking is None:
                continue
            # Without this check XLA would raise an unclear error or crash.
            name, is_any = step.op.builder_name, lacking == "any"
            what = name if is_any else f"{name} of {lacking}"
            ways = ["Compile it for the CPU"] + ["convert to another type (astype)"] * (not is_any)
            details = [f"operands {', '.join(map(str, operand_shapes))}"]
            problem, advice = f"XLA has no code for {what} on {platform}", f"{', or '.join(ways)}."
            raise explain(TransformError, name, problem, details, advice, source=step.source)
        return super()._body(graph, parameters)


def platform_text(graph: Graph, platform: str) -> str:
    """Return the program that XLA receives for one device of a platform, without source lines.

    Raises:
        AttributeValueError: the platform is unknown.
    """
    return PlatformEmitter(target_on(platform_of(platform))).module(graph)


def target_on(platform: str, device_count: int = 1, for_export: bool = False) -> Target:
    """Return the target for devices of this machine, or for export."""
    is_here = platform == "cpu" and device_count == 1 and not for_export
    return Target(platform, device_count, for_export, is_here and kernels.library() is not None)
