"""Functions in the place of their calls, as XLA has them before it propagates."""

from minixla.sharding.operations import ShardingConstraint
from minixla.sharding.passes.calls import callees_first
from minixla.sharding.program import Block, Function, Program, Step, Value


def inline_calls(program: Program) -> None:
    """Puts the steps of functions in the place of calls.

    What a function says of its inputs and results is said by constraints.
    """
    for function in callees_first(program):
        blocks = [function, *[block for step in function.walk() for block in step.blocks]]
        for block in blocks:
            if any(step.callee is not None for step in block.steps):
                _inline(block, program)
    program.functions = {name: each for name, each in program.functions.items() if each.is_public}


def _inline(block: Block, program: Program) -> None:
    uses, steps = program.uses(), []
    for step in block.steps:
        if step.callee is None:
            steps.append(step)
            continue
        made, outputs = _body(step.callee, step, block)
        steps += made
        for old, new in zip(step.results, outputs, strict=True):
            for use in uses.get(old, ()):
                use.put(new)
    block.steps = steps


def _body(function: Function, call: Step, block: Block) -> tuple[list[Step], list[Value]]:
    """The steps of a function for the operands of a call, and their results."""
    made: list[Step] = []
    values: dict[Value, Value] = {}

    def constrained(value: Value, sharding: object) -> Value:
        if sharding is None:
            return value
        made.append(block.new_step(ShardingConstraint(sharding), [value], call.source))
        return made[-1].results[0]

    for inner, outer in zip(function.inputs, call.operands, strict=True):
        values[inner] = constrained(outer, inner.sharding)
    made += [each.again(block, values) for each in function.steps]
    pairs = zip(function.outputs, function.output_shardings, strict=True)
    outputs = [constrained(values[value], sharding) for value, sharding in pairs]
    pairs = zip(call.results, outputs, strict=True)
    return made, [constrained(new, old.sharding) for old, new in pairs]
