"""The pass that adds edges to values that control flow carries."""

from minixla.core.errors import ShardingError, explain
from minixla.core.operation import Operation
from minixla.sharding.operations import DataFlowEdge
from minixla.sharding.program import Block, Function, Program, Step, Use, Value
from minixla.sharding.value_shardings import sharding_of


def add_data_flow_edges(program: Program) -> None:
    """Add a data_flow_edge to every owner of an edge (SDY: sdy-add-data-flow-edges).

    The edge has the owner's sharding, and all readers of the owner read the edge instead. Values
    that cannot be sharded, tokens and arrays of dynamic sizes, get no edge.

    Raises:
        ShardingError: a value has an edge already.
    """
    for function in program.functions.values():
        add_edges(function)


def add_edges(function: Function, kind: type[Operation] = Operation) -> None:
    """Add edges to the owners in a function that belong to one kind of operation."""
    uses = function.uses()
    blocks = [function, *[block for step in function.walk() for block in step.blocks]]
    for block in blocks:
        steps = _edges(block, block.step, block.inputs, uses, kind)
        for step in block.steps:
            steps += [step, *_edges(block, step, step.results, uses, kind)]
        block.steps = steps


def _edges(
    block: Block,
    step: Step | None,
    values: list[Value],
    uses: dict[Value, list[Use]],
    kind: type[Operation],
) -> list[Step]:
    """Return the edges for the values of a step that own an edge."""
    if not values or step is None or not isinstance(step.op, kind):
        return []
    owners = [step.at(edge.owner) for edge in step.edges]
    made = []
    for value in values:
        if value in owners and value.can_be_sharded:
            edge = block.new_step(DataFlowEdge(sharding_of(value)), [value], step.source)
            for use in uses.get(value, ()):
                _check(use, step)
                use.put(edge.results[0])
            made.append(edge)
    return made


def _check(use: Use, owner: Step) -> None:
    if use.step is not None and isinstance(use.step.op, DataFlowEdge):
        problem = "the input of an edge cannot be an edge: the value has one already"
        details = [f"value of {owner.op.name}"]
        advice = "Add edges to a program only once."
        raise explain(ShardingError, "data_flow_edge", problem, details, advice, use.step.source)
