"""Passes about functions and their calls."""

from collections.abc import Iterator
from typing import Any

from minixla.sharding.operations import NamedComputation
from minixla.sharding.passes.data_flow_edges import add_edges
from minixla.sharding.passes.symbols import Symbols
from minixla.sharding.program import Block, Function, Program, Step
from minixla.sharding.value_shardings import in_one_attribute, own_shardings


def callees_first(program: Program) -> list[Function]:
    """Return the functions of a program, each after the functions that it calls."""
    order: dict[Function, None] = {}
    stack = list(reversed(program.functions.values()))
    while stack:
        function = stack[-1]
        missing = [callee for callee in callees(function) if callee not in order]
        if function in order or not missing:
            order.setdefault(function)
            stack.pop()
        else:
            stack += reversed(missing)
    return list(order)


def callees(function: Function) -> Iterator[Function]:
    """Yield the functions that a function calls, in order."""
    for step in function.walk():
        if step.callee is not None:
            yield step.callee


class FunctionCopies:
    """Copies of a program's functions, under names that are free."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.symbols = Symbols([*program.functions, *program.meshes])

    def copy(self, function: Function) -> Function:
        """Copy a function, and the functions that it calls."""
        made = function.again(function.name)
        for step in made.walk():
            if step.callee is not None:
                step.callee = self.copy(step.callee)
        made.name = self.symbols.free(function.name)
        self.program.functions[made.name] = made
        return made


def flatten_call_graph(program: Program) -> None:
    """Give every call a separate function (SDY: sdy-flatten-call-graph)."""
    copies = FunctionCopies(program)
    called: set[Function] = set()
    for function in callees_first(program):
        for step in function.walk():
            if step.callee in called:
                step.callee = copies.copy(step.callee)
            elif step.callee is not None:
                called.add(step.callee)


def order_callers_first(program: Program) -> None:
    """Sort functions so that each precedes those that it calls (SDY: sdy-pre-order-funcs)."""
    program.functions = {function.name: function for function in reversed(callees_first(program))}


def turn_calls_into_named_computations(
    program: Program, *, add_data_flow_edges_on_named_computations: bool = True
) -> None:
    """Replace each call by a named computation with the function's body.

    SDY: sdy-import-func-calls. The computation's operands have the shardings of the function's
    arguments, and its results have those of the call. Called functions are removed.

    Args:
        program: the program, which is changed.
        add_data_flow_edges_on_named_computations: whether all named computations get edges, as in
            `add_data_flow_edges`.

    Raises:
        ShardingError: a value has an edge already.
    """
    called: set[Function] = set()
    for function in callees_first(program):
        for step in function.walk():
            if step.callee is not None:
                called.add(step.callee)
                _write_out(step)
    functions = program.functions.items()
    program.functions = {name: function for name, function in functions if function not in called}
    if add_data_flow_edges_on_named_computations:
        for function in program.functions.values():
            add_edges(function, NamedComputation)


def _write_out(step: Step) -> None:
    callee = step.callee
    assert callee is not None
    sides = map(own_shardings, (callee.inputs, step.results))
    stated: Any = [tuple(side) if any(side) else None for side in sides]
    name = callee.original_name or callee.name
    step.op = NamedComputation(step.op.computation, name, *stated)
    step.callee, step.blocks = None, [callee.copied_to(Block(step), {})]
    for value in (*step.results, *step.blocks[0].inputs):
        value.sharding = None


def copy_shardings_to_calls(program: Program) -> None:
    """Copy shardings of functions' results to calls without shardings.

    SDY: sdy-propagate-sharding-from-func-to-call.
    """
    for step in program.walk():
        if step.callee is None or any(result.sharding for result in step.results):
            continue
        shardings = in_one_attribute(step.callee.output_shardings, step.results)
        for value, sharding in zip(step.results, shardings, strict=True):
            value.sharding = sharding


def remove_dead_functions(program: Program) -> None:
    """Remove functions that no public function calls, directly or not (MLIR: symbol-dce)."""
    reached: set[Function] = set()
    stack = [function for function in program.functions.values() if function.is_public]
    while stack:
        function = stack.pop()
        if function not in reached:
            reached.add(function)
            stack += callees(function)
    functions = program.functions.items()
    program.functions = {name: function for name, function in functions if function in reached}
