"""Short passes after propagation: they remove temporary steps, and make shardings final."""

from collections.abc import Callable
from dataclasses import replace

from minixla.sharding.operations import (
    DataFlowEdge,
    Reshard,
    SdyConstant,
    ShardingConstraint,
    ShardingGroup,
)
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import change_shardings, put, put_own, sharding_of
from minixla_ops.movement.broadcasting import Broadcast, BroadcastInDim
from minixla_ops.movement.constants import Constant


def merge_constants(program: Program) -> None:
    """Merge equal constants of a block with one sharding (SDY: sdy-constant-or-scalar-merger).

    Broadcasts of one scalar are merged, too.
    """
    merged: dict[Value, Value] = {}
    for block in program.blocks():
        constants: dict[object, Step] = {}
        kept = []
        for step in block.steps:
            first = constants.setdefault(_identity(step), step) if _is_merged(step) else step
            if first is step:
                kept.append(step)
            else:
                merged[step.results[0]] = first.results[0]
        block.steps = kept
    program.read_instead(merged)


def _is_merged(step: Step) -> bool:
    is_scalar = [value.rank == 0 for value in step.operands] == [True]
    is_expansion = is_scalar and isinstance(step.op, (Broadcast, BroadcastInDim))
    return is_expansion or isinstance(step.op, (Constant, SdyConstant))


def _identity(step: Step) -> object:
    said = step.op.literal if isinstance(step.op, (Constant, SdyConstant)) else step.op
    return said, *step.operands, step.results[0].sharding


def sink_data_flow_edges(program: Program) -> None:
    """Remove edges; their shardings go to their owners (SDY: sdy-sink-data-flow-edges)."""
    sink_edges(program, lambda step: isinstance(step.op, DataFlowEdge))


def sink_edges(program: Program, is_sunk: Callable[[Step], bool]) -> None:
    """Remove some edges; their shardings go to their owners."""
    owners: dict[Value, Value] = {}
    for block in program.blocks():
        kept = []
        for step in block.steps:
            if not is_sunk(step):
                kept.append(step)
                continue
            (owner,), (target,) = step.operands, step.results
            owners[target], sharding = owner, sharding_of(target)
            if sharding is not None:
                put(owner, sharding)
        block.steps = kept
    program.read_instead(owners)


def remove_sharding_groups(program: Program) -> None:
    """Remove sharding groups (SDY: sdy-remove-sharding-groups)."""
    for block in program.blocks():
        block.steps = [step for step in block.steps if not isinstance(step.op, ShardingGroup)]


def turn_constraints_into_reshards(program: Program) -> None:
    """Turn constraints into reshards (SDY: sdy-sharding-constraint-to-reshard)."""
    for step in program.walk():
        if isinstance(step.op, ShardingConstraint):
            step.op = Reshard(step.op.sharding)


def close_shardings(program: Program) -> None:
    """Close every dimension, and drop replicated axes (SDY: sdy-close-shardings)."""

    def closed(sharding: TensorSharding) -> TensorSharding:
        dimensions = [replace(dimension, is_closed=True) for dimension in sharding.dimensions]
        return sharding.of(dimensions=dimensions, replicated=())

    for step in program.walk():
        put_own(step.results)
    change_shardings(program, closed)
