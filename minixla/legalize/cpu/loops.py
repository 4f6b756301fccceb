"""Loops whose trip count XLA computes during compilation."""

from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.graph import Value
from minixla.core.tracing import evaluate_graph
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes, holds_only
from minixla.legalize.registry import Operands, Target, legalize


def _counters(operation: Any) -> list[int]:
    """Return the indices of the carried values that the condition may read and the body changes."""
    condition, body = operation.condition.pruned(), operation.body
    read = {value for step in condition.instructions for value in step.operands}
    return [
        index
        for index, value in enumerate(condition.inputs)
        if value in read and body.outputs[index] is not body.inputs[index]
    ]


def _counts_by_one(operation: Any, counters: Sequence[int]) -> bool:
    """Return whether a loop is `while i < limit: i += 1` of signed integers."""
    condition, body = operation.condition.pruned(), operation.body
    if len(counters) != 1 or len(condition.instructions) > 2:
        return False
    index = counters[0]
    test = condition.outputs[0].instruction
    next_: Value = body.outputs[index]
    step = next_.instruction
    kind = type_of(next_)
    if test is None or step is None or kind.kind != "signed" or step.op.name != "Add":
        return False
    is_below = (test.op.name == "Lt" and test.operands[0] is condition.inputs[index]) or (
        test.op.name == "Gt" and test.operands[1] is condition.inputs[index]
    )
    counter = body.inputs[index]
    others = [operand for operand in step.operands if operand is not counter]
    return is_below and len(others) == 1 and holds_only(others[0], 1)


def _is_counted(operation: Any, operands: Operands, target: Target) -> bool:
    counters = _counters(operation)
    constants = [index for index in counters if target.is_constant(operands[index])]
    return bool(constants) and not _counts_by_one(operation, counters)


@legalize(classes("While"), "cpu", when=_is_counted)
def counted_loops(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA miscounts loops of constant start and limit unless they count up by 1.

    `i = 0; while i < 1: i += 2` never runs, `i = 5; while i < 4: i += 2` runs once. If an
    unsigned counter decreases, XLA ends the process (u64) or stops one step early. A barrier on the
    initial value of the counter hides the trip count.
    """
    return on_hidden(operation, operands, *_counters(operation))


def _unsigned(operation: Any) -> list[int]:
    """Return the indices of the unsigned scalars that the condition reads and the body changes."""
    inputs = operation.body.inputs
    return [
        index
        for index in _counters(operation)
        if type_of(inputs[index]).kind == "unsigned" and not inputs[index].shape.rank
    ]


def _counts_unsigned(operation: Any, operands: Operands, target: Target) -> bool:
    return bool(_unsigned(operation))


@legalize(classes("While"), "cpu", when=_counts_unsigned)
def unsigned_counters(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA ends the process for loops that count a u64 down, and stops others one step early.

    The loop carries the same bits as a signed number.
    """
    at = _unsigned(operation)
    kinds = {index: type_of(operation.body.inputs[index]) for index in at}
    signed = {index: ELEMENT_TYPES[f"s{kind.bits}"] for index, kind in kinds.items()}

    def read_as(values: Sequence[Any], types: dict[int, Any]) -> list[Any]:
        return [
            ops.bitcast_convert_type(value, types[i]) if i in types else value
            for i, value in enumerate(values)
        ]

    def condition(*values: Any) -> Any:
        return evaluate_graph(operation.condition, read_as(values, kinds))[0]

    def body(*values: Any) -> list[Any]:
        return read_as(evaluate_graph(operation.body, read_as(values, kinds)), signed)

    results = ops.while_(condition, body, read_as(operands, signed))
    return tuple(read_as(results, kinds))
