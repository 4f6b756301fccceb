"""Shardings as instructions, which every transformation keeps; and their removal."""

from typing import Any

from minixla.core.graph import Annotations, Graph, Rewriting, Value, inner_first
from minixla.core.source import Source
from minixla.sharding.operations import Identity, ShardingConstraint


@inner_first
def explicit(graph: Graph) -> Graph:
    """Return the program with constraints in place of all annotations that are not empty."""
    return _Explicit(graph, explicit).run()


@inner_first
def without_layouts(graph: Graph) -> Graph:
    """Return the program without shardings of values; manual computations stay."""
    return _Without(graph, without_layouts).run()


class _Explicit(Rewriting):
    """A rewrite that adds constraints after values with an annotation."""

    def __init__(self, graph: Graph, inner: Any) -> None:
        super().__init__(graph, inner)
        self.notes = graph.annotations or Annotations()
        for value in graph.inputs:
            if value in self.notes.values:
                self.values[value] = self.placed(value, self.notes.values[value], None)

    def placed(self, value: Value, sharding: Any, source: Source | None) -> Value:
        """Return a value with a constraint, unless the constraint is empty."""
        if sharding is None or sharding == sharding.saying_nothing(value.shape):
            return value
        return self.apply(ShardingConstraint(sharding), [value], source)[0]

    def after(self, step, results):
        stated = [self.notes.values.get(result) for result in step.results]
        if not any(stated):
            return results
        pairs = zip(results, stated, strict=True)
        return [self.placed(value, sharding, step.source) for value, sharding in pairs]

    def outputs(self):
        shardings = super().outputs()
        pairs = zip(shardings, self.notes.outputs or [None] * len(shardings), strict=True)
        return [self.placed(value, sharding, None) for value, sharding in pairs]


class _Without(Rewriting):
    """A rewrite that removes identities that state shardings."""

    def replaced(self, step):
        return self.all(step.operands) if isinstance(step.op, Identity) else None
