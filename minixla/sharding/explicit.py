"""Annotations of a program as instructions, which every transformation keeps."""

from typing import Any

from minixla.core.graph import Annotations, Graph, Instruction, Value, inner_first
from minixla.sharding.operations import ShardingConstraint


@inner_first
def explicit(graph: Graph) -> Graph:
    """The program with a constraint in place of each annotation that says something."""
    notes = graph.annotations or Annotations()
    values: dict[Value, Value] = {}
    kept: list[Instruction] = []

    def placed(value: Value, sharding: Any, source: Any = None) -> Value:
        current = values.get(value, value)
        if sharding is None or sharding == sharding.saying_nothing(value.shape):
            return current
        made = Instruction(ShardingConstraint(sharding), (current,), value.shape, source)
        kept.append(made)
        return made.results[0]

    for each in graph.inputs:
        values[each] = placed(each, notes.values.get(each))
    for step in graph.instructions:
        operands = [values.get(each, each) for each in step.operands]
        op = step.op
        if any(explicit(each) is not each for each in op.computations):
            op = op.changed(_explicit)
        again = op is not step.op or operands != list(step.operands)
        made = step.again(operands, op) if again else step
        kept.append(made)
        for old, new in zip(step.results, made.results, strict=True):
            values[old] = new
            values[old] = placed(old, notes.values.get(old), step.source)
    outputs = [values.get(each, each) for each in graph.outputs]
    if notes.outputs:
        pairs = zip(graph.outputs, notes.outputs, strict=True)
        outputs = [placed(each, sharding) for each, sharding in pairs]
    if graph.annotations is None and kept == list(graph.instructions):
        return graph
    return Graph(graph.inputs, kept, outputs, graph.name)


def _explicit(value: Any) -> Any:
    if type(value) is tuple:  # Dimension numbers are tuples of classes of their own.
        return tuple(map(_explicit, value))
    return explicit(value) if isinstance(value, Graph) else value
