"""Passes that carry shardings between functions and their calls, without inlining."""

from minixla.sharding.operations import FuncDataFlowEdge
from minixla.sharding.passes.export import sink_edges
from minixla.sharding.program import Block, Program, Step, Value
from minixla.sharding.value_shardings import sharding_of


def add_function_edges(program: Program) -> None:
    """Add edges to arguments of functions except main, and to results of calls.

    SDY: sdy-add-func-data-flow-edges.
    """
    uses = program.uses()

    def edge(block: Block, value: Value) -> Step:
        step = block.new_step(FuncDataFlowEdge(), [value])
        step.results[0].sharding = value.sharding
        for use in uses.get(value, ()):
            use.put(step.results[0])
        return step

    for block in program.blocks():
        steps = []
        if block.step is None and block is not program.main:
            steps += [edge(block, value) for value in block.inputs if value.can_be_sharded]
        for step in block.steps:
            steps.append(step)
            if step.callee is not None:
                steps += [edge(block, value) for value in step.results if value.can_be_sharded]
        block.steps = steps


def sink_function_edges(program: Program) -> None:
    """Remove these edges; their shardings go to their owners.

    SDY: sdy-sink-func-data-flow-edges.
    """
    sink_edges(program, lambda step: isinstance(step.op, FuncDataFlowEdge))


def propagate_to_function_results(program: Program) -> None:
    """Give results of functions, except main, the shardings of the returned values.

    SDY: sdy-propagate-to-func-results.
    """
    for function in program.functions.values():
        if function is not program.main:
            function.output_shardings = [sharding_of(value) for value in function.outputs]
