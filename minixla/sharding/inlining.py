"""Blocks in place of the steps that run them."""

from collections.abc import Callable

from minixla.sharding.program import Block, Program, Step, Value

#: The block of a step, or None for one that stays.
Body = Callable[[Step], Block | None]


def inline_calls(program: Program) -> None:
    """Puts copies of functions in place of calls, the innermost first; `main` alone stays."""
    main = program.main
    inline(main, lambda step: step.callee)
    program.functions = {name: each for name, each in program.functions.items() if each is main}


def inline(block: Block, body: Body) -> None:
    """Puts copies of blocks in place of steps of a block and of those within, innermost first."""
    values: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in block.steps:
        step.operands = [values.get(each, each) for each in step.operands]
        for each in step.blocks:
            inline(each, body)
        found = body(step)
        if found is None:
            steps.append(step)
            continue
        inline(found, body)
        copies = dict(zip(found.inputs, step.operands, strict=True))
        made = [each.again(block, copies) for each in found.steps]
        for each in made:
            each.source = each.source or step.source
        steps += made
        outputs = [copies.get(each, each) for each in found.outputs]
        values.update(zip(step.results, outputs, strict=True))
    block.steps = steps
    if values:
        block.read_instead(values)
