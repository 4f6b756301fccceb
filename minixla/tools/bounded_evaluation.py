"""Evaluation by the reference with a limit on loops, for programs that may not terminate."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Graph, Instruction, Value
from minixla.tools.graph_parts import every_step, inner_runs
from minixla_ops.programs.reference_evaluation import reference_graph


class TooManyIterations(ValueError):
    """The loops of a program run more often than allowed."""


class Budget:
    """The number of iterations that the loops of a program may run in total.

    Attributes:
        used: the number of iterations so far.
    """

    def __init__(self, iterations: int) -> None:
        self._most, self.used = iterations, 0

    def values(self, graph: Graph, operands: Sequence[Any]) -> dict[Value, Any]:
        """Return each value of a program.

        Raises:
            TooManyIterations: the budget is used up.
        """
        values: dict[Value, Any] = dict(zip(graph.inputs, operands, strict=True))
        with np.errstate(all="ignore"):
            for step in graph.instructions:
                read = [values[value] for value in step.operands]
                values.update(zip(step.results, self._results(step, read), strict=True))
        return values

    def _results(self, step: Instruction, operands: Sequence[Any]) -> Sequence[Any]:
        inner_steps = (inner for graph in step.op.computations for inner in every_step(graph))
        if step.op.name == "While":
            return self._loop(step.op.condition, step.op.body, operands)
        if any(inner.op.name == "While" for inner in inner_steps):
            runs = inner_runs(step, operands)
            if runs is not None:
                graph, arguments = next(iter(runs))
                return self._outputs(graph, arguments)
        outcome = step.op.reference(*operands)
        outcomes = (outcome,) if step.single else outcome
        return [np.asarray(x) if isinstance(x, np.generic) else x for x in outcomes]

    def _outputs(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        values = self.values(graph, operands)
        return [values[value] for value in graph.outputs]

    def _loop(self, condition: Graph, body: Graph, values: Sequence[Any]) -> Sequence[Any]:
        if not any(step.op.name == "While" for step in every_step(body)):
            while reference_graph(condition, values)[0]:
                self._take()
                values = reference_graph(body, values)
            return values
        while self._outputs(condition, values)[0]:
            self._take()
            values = self._outputs(body, values)
        return values

    def _take(self) -> None:
        self.used += 1
        if self.used > self._most:
            raise TooManyIterations("a loop runs too often")
