"""Short passes after propagation: what it needed goes, and shardings become final."""

from dataclasses import replace

from minixla.core.operation import Operation
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import (
    DataFlowEdge,
    NamedComputation,
    Reshard,
    SdyConstant,
    ShardingConstraint,
    ShardingGroup,
)
from minixla.sharding.program import Block, Program, Step, Value
from minixla.sharding.propagation.manual import ManualAxes, put_bound
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import change_shardings
from minixla_ops.movement.broadcasting import Broadcast, BroadcastInDim
from minixla_ops.movement.constants import Constant


def merge_constants(program: Program) -> None:
    """Makes one of equal constants of a block that lie alike (SDY: sdy-constant-or-scalar-merger).

    So it does of broadcasts of one scalar.
    """
    merged: dict[Value, Value] = {}
    for block in program.blocks():
        found: dict[object, Step] = {}
        kept = []
        for step in block.steps:
            first = found.setdefault(_identity(step), step) if _is_merged(step) else step
            if first is step:
                kept.append(step)
            else:
                merged[step.results[0]] = first.results[0]
        block.steps = kept
    read_instead(program, merged)


def _is_merged(step: Step) -> bool:
    is_scalar = [value.rank == 0 for value in step.operands] == [True]
    is_expansion = is_scalar and isinstance(step.op, (Broadcast, BroadcastInDim))
    return is_expansion or isinstance(step.op, (Constant, SdyConstant))


def _identity(step: Step) -> object:
    said = step.op.literal if isinstance(step.op, (Constant, SdyConstant)) else step.op
    return said, *step.operands, step.results[0].sharding


def sink_data_flow_edges(program: Program) -> None:
    """Takes edges away, whose shardings go to their owners (SDY: sdy-sink-data-flow-edges)."""
    sink_edges(program, Operation)


def sink_edges(program: Program, kind: type[Operation]) -> None:
    """Does so with edges that operations of a kind own."""
    owners: dict[Value, Value] = {}
    for block in program.blocks():
        kept = []
        for step in block.steps:
            if not isinstance(step.op, DataFlowEdge) or not _is_edge_of(step, kind):
                kept.append(step)
                continue
            (owner,), (target,) = step.operands, step.results
            owners[target] = owner
            if step.op.sharding is not None:
                _put(owner, step.op.sharding)
        block.steps = kept
    read_instead(program, owners)


def _is_edge_of(step: Step, kind: type[Operation]) -> bool:
    owner = step.operands[0].owner
    flow = owner.step if isinstance(owner, Block) else owner
    return flow is None or isinstance(flow.op, kind)


def _put(owner: Value, sharding: TensorSharding) -> None:
    """Gives the owner of an edge its sharding."""
    is_input = isinstance(owner.owner, Block)
    step = owner.owner.step if isinstance(owner.owner, Block) else owner.owner
    assert step is not None
    op = step.op
    if not isinstance(op, (ManualComputation, NamedComputation)):
        owner.sharding = sharding
        return
    if is_input and isinstance(op, ManualComputation):
        sharding = ManualAxes(op.in_shardings[owner.index], op.manual_axes).outside(sharding)
    put_bound(step, "in_shardings" if is_input else "out_shardings", owner.index, sharding)


def remove_sharding_groups(program: Program) -> None:
    """Takes sharding groups away (SDY: sdy-remove-sharding-groups)."""
    for block in program.blocks():
        block.steps = [step for step in block.steps if not isinstance(step.op, ShardingGroup)]


def turn_constraints_into_reshards(program: Program) -> None:
    """Makes reshards of constraints (SDY: sdy-sharding-constraint-to-reshard)."""
    for step in program.walk():
        if isinstance(step.op, ShardingConstraint):
            step.op = Reshard(step.op.sharding)


def close_shardings(program: Program) -> None:
    """Closes every dimension, and drops replicated axes (SDY: sdy-close-shardings)."""

    def closed(sharding: TensorSharding) -> TensorSharding:
        dimensions = [replace(each, is_closed=True) for each in sharding.dimensions]
        return sharding.of(dimensions=tuple(dimensions), replicated=())

    for step in program.walk():
        # One attribute has the shardings of all results: those of which nothing is said are open.
        said = [value.sharding for value in step.results if value.sharding is not None]
        for value in step.results if said else ():
            value.sharding = value.sharding or said[0].saying_nothing(value.shape)
    change_shardings(program, closed)


def read_instead(program: Program, values: dict[Value, Value]) -> None:
    """Has values read in place of others, everywhere."""

    def current(value: Value) -> Value:
        while value in values:
            value = values[value]
        return value

    for block in program.blocks():
        for step in block.steps:
            step.operands = [current(each) for each in step.operands]
        block.outputs = [current(each) for each in block.outputs]
