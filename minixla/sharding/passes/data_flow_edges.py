"""The pass that puts edges on what control flow carries."""

from minixla.sharding.operations import DataFlowEdge
from minixla.sharding.program import Block, Program, Step, Use, Value
from minixla.sharding.value_shardings import sharding_of


def add_data_flow_edges(program: Program) -> None:
    """Puts a data_flow_edge on every owner of one (SDY: sdy-add-data-flow-edges).

    It has the owner's sharding, and all that read the owner read it instead. What cannot be
    sharded, tokens and arrays of dynamic sizes, gets none.
    """
    uses = program.uses()
    for block in list(program.blocks()):
        steps = edges_of(block, [] if block.step is None else block.inputs, uses)
        for step in block.steps:
            steps.append(step)
            steps += edges_of(block, step.results, uses)
        block.steps = steps


def edges_of(block: Block, values: list[Value], uses: dict[Value, list[Use]]) -> list[Step]:
    """The edges of those of some values that own one, which all are of one step."""
    if not values:
        return []
    owner = values[0].owner
    step = owner if isinstance(owner, Step) else owner.step
    assert step is not None
    owners = [step.at(edge.owner) for edge in step.edges]
    made = []
    for value in values:
        if value in owners and value.can_be_sharded:
            edge = block.new_step(DataFlowEdge(sharding_of(value)), [value], step.source)
            for use in uses.get(value, ()):
                use.put(edge.results[0])
            made.append(edge)
    return made
