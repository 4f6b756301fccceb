"""Residuals: values that the backward half of a reverse derivative takes from the forward half."""

from __future__ import annotations

from collections.abc import Sequence

from minixla.core.graph import Graph, Instruction, Rewriting, Value
from minixla.core.shapes import Shape


def with_fewer_residuals(forward: Graph, backward: Graph, count: int) -> tuple[Graph, Graph]:
    """Let the backward half of a reverse derivative recompute cheap residuals.

    `forward` returns `count` results and the residuals, the first inputs of `backward`. Residuals
    that cheap operations compute from others are recomputed: loops and calls store less.
    """
    residuals = forward.outputs[count:]
    sources = {*residuals, *[smaller for value in residuals for smaller in _smaller(value)]}
    again: set[Value] = set()
    for step in forward.instructions:
        if _is_cheap(step) and all(
            operand in sources or operand in again for operand in step.operands
        ):
            again.add(step.results[0])
    if again.isdisjoint(residuals):
        return forward, backward
    needed, steps = dict.fromkeys(residuals), []
    for step in reversed(forward.instructions):
        if step.results and step.results[0] in again and step.results[0] in needed:
            steps.append(step)
            needed.update(dict.fromkeys(step.operands))
    kept = [value for value in needed if value not in again]
    outputs = [*forward.outputs[:count], *kept]
    first = Graph(forward.inputs, forward.instructions, outputs, forward.name)
    return first.pruned(), _from(kept, steps[::-1], residuals, backward).pruned()


def _from(
    kept: Sequence[Value], steps: Sequence[Instruction], residuals: Sequence[Value], backward: Graph
) -> Graph:
    """Return `backward` as a program of `kept`, with `steps` to compute its residuals."""
    inputs = {value: Value(value.shape, None, index) for index, value in enumerate(kept)}
    made, second = dict(inputs), Rewriting(backward, lambda graph: graph)
    for step in steps:
        second.instructions.append(step.again([made[operand] for operand in step.operands]))
        made[step.results[0]] = second.instructions[-1].results[0]
    second.values.update(
        zip(backward.inputs, [made[residual] for residual in residuals], strict=False)
    )
    gradients, cotangents = second.run(), backward.inputs[len(residuals) :]
    taken = [*inputs.values(), *cotangents]
    return Graph(taken, gradients.instructions, gradients.outputs, backward.name)


def _smaller(value: Value) -> list[Value]:
    """Follow cheap unary operations back while operands are smaller, and return these operands."""
    smaller: list[Value] = []
    while (step := value.instruction) is not None and _is_cheap(step) and len(step.operands) == 1:
        (operand,) = step.operands
        if not _bytes(operand) < _bytes(value):
            break
        smaller.append(value := operand)
    return smaller


def _bytes(value: Value) -> int:
    return value.shape.nbytes if isinstance(value.shape, Shape) else 0


def _is_cheap(step: Instruction) -> bool:
    shape = step.shapes[0] if step.single else None
    if not step.op.is_cheap or not isinstance(shape, Shape) or shape.is_dynamic:
        return False
    literal = step.results[0].literal
    return literal is None or literal.is_printed
