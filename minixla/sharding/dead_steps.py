"""Removal of steps whose results are not used."""

from minixla.sharding.operations import (
    DataFlowEdge,
    FuncDataFlowEdge,
    ShardingConstraint,
    ShardingGroup,
)
from minixla.sharding.program import Block, Program, Step, Value
from minixla_ops.collectives.collective_groups import Collective

# Operations that MLIR keeps as if they had side effects.
_LASTING = Collective, DataFlowEdge, FuncDataFlowEdge, ShardingConstraint, ShardingGroup


def remove_dead_steps(program: Program) -> None:
    """Remove steps whose results are not used (MLIR: a side effect of its greedy driver).

    Steps with side effects stay, and so do calls, collectives, constraints, groups and edges.
    """
    read = {value for function in program.functions.values() for value in function.outputs}
    for function in program.functions.values():
        _remove_dead(function, read)


def _remove_dead(block: Block, read: set[Value]) -> None:
    kept = []
    for step in reversed(block.steps):
        if read.isdisjoint(step.results) and not _has_effects(step):
            continue
        kept.append(step)
        for inner in step.blocks:
            read.update(inner.outputs)
            _remove_dead(inner, read)
        read.update(step.operands)
    block.steps = kept[::-1]


def _has_effects(step: Step) -> bool:
    if step.callee is not None or isinstance(step.op, _LASTING):
        return True
    inner = (inner_step for block in step.blocks for inner_step in block.steps)
    return step.op.has_side_effect or any(map(_has_effects, inner))
