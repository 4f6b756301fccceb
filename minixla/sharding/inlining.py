"""Blocks in place of the steps that run them."""

from collections.abc import Callable

from minixla.sharding.program import Block, Program, Step, Value

#: The block of a step, or None for one that stays.
Body = Callable[[Step], Block | None]


def inline_calls(program: Program) -> None:
    """Replace calls by copies of functions, the innermost first; only `main` stays."""
    main = program.main
    inline(main, lambda step: step.callee)
    program.functions = {
        name: function for name, function in program.functions.items() if function is main
    }


def inline(block: Block, body: Body) -> None:
    """Replace steps, also those in inner blocks, by copies of blocks, the innermost first."""
    values: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in block.steps:
        step.operands = [values.get(operand, operand) for operand in step.operands]
        for inner_block in step.blocks:
            inline(inner_block, body)
        copied = body(step)
        if copied is None:
            steps.append(step)
            continue
        inline(copied, body)
        copies = dict(zip(copied.inputs, step.operands, strict=True))
        made = [step.again(block, copies) for step in copied.steps]
        for inner_step in made:
            inner_step.source = inner_step.source or step.source
        steps += made
        outputs = [copies.get(output, output) for output in copied.outputs]
        values.update(zip(step.results, outputs, strict=True))
    block.steps = steps
    if values:
        block.read_instead(values)
