"""Calls of functions after propagation, which handled them as named computations."""

from minixla.sharding.operations import DataFlowEdge, NamedComputation, Reshard
from minixla.sharding.passes.export import sink_edges
from minixla.sharding.passes.insertions import Insertions, differ, replicated
from minixla.sharding.passes.symbols import Symbols
from minixla.sharding.program import Block, Function, Program, Step
from minixla.sharding.value_shardings import in_one_attribute
from minixla_ops.programs.call import Call


def export_named_computations(program: Program) -> None:
    """Turn each named computation into a call of a function (SDY: sdy-export-named-computations).

    The function comes after those of the computations within it.
    """
    sink_edges(program, _is_edge_of_computation)
    symbols = Symbols([*program.functions, *program.meshes])

    def export(block: Block) -> None:
        for step in block.steps:
            for inner_block in step.blocks:
                export(inner_block)
            if isinstance(step.op, NamedComputation):
                name = symbols.free(step.op.label)
                program.functions[name] = _called(step, name)

    for function in list(program.functions.values()):
        export(function)


def _is_edge_of_computation(step: Step) -> bool:
    flow = step.operands[0].flow if isinstance(step.op, DataFlowEdge) else None
    return flow is not None and isinstance(flow.op, NamedComputation)


def _called(step: Step, name: str) -> Function:
    """Return the function of a named computation, which becomes its call."""
    op, (body,) = step.op, step.blocks
    function = body.copied_to(Function(name, is_public=False), {})
    function.name, function.original_name = name, op.label
    function.output_shardings = [None] * len(body.outputs)
    step.op, step.callee, step.blocks = Call(op.computation), function, []
    sides = (function.inputs, op.in_shardings), (step.results, op.out_shardings)
    for values, shardings in sides:
        for value, sharding in zip(values, shardings or (), strict=False):
            value.sharding = sharding
    return function


def unflatten_call_graph(program: Program) -> None:
    """Share one function between calls of copies with equal shardings.

    SDY: sdy-unflatten-call-graph. The first called one is kept, in the order of functions.
    """
    first: dict[object, Function] = {}
    for step in program.walk():
        callee = step.callee
        if callee is not None:
            arguments = tuple([value.sharding for value in callee.inputs])
            name = callee.original_name or callee.name
            key = name, arguments, tuple(callee.output_shardings)
            step.callee = first.setdefault(key, callee)
    for function in program.functions.values():
        function.original_name = None


def fit_calls(program: Program) -> None:
    """Reshard results of calls whose functions have other shardings.

    SDY: sdy-insert-func-call-reshards.
    """
    inserted = Insertions(program)
    for step in program.walk():
        if step.callee is None:
            continue
        outputs = in_one_attribute(step.callee.output_shardings, step.results)
        for value, made in zip(step.results, outputs, strict=True):
            wanted, stated = value.sharding, value.sharding or made
            if stated is None:
                continue
            whole = replicated(stated, value)
            value.sharding = made or whole
            if differ(wanted, made):
                reshard = step.block.new_step(Reshard(wanted or whole), [value], step.source)
                inserted.put_behind([reshard], step)
    inserted.write()
