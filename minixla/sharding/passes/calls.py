"""Passes about functions and their calls."""

from collections.abc import Iterator

from minixla.core.errors import ShardingError, explain
from minixla.sharding.program import Function, Program, Step
from minixla.sharding.tensor_sharding import TensorSharding


def callees_first(program: Program) -> list[Function]:
    """The functions of a program, each behind those that it calls."""
    found: dict[Function, None] = {}
    stack = list(reversed(program.functions.values()))
    while stack:
        function = stack[-1]
        missing = [each for each in callees(function) if each not in found]
        if function in found or not missing:
            found.setdefault(function)
            stack.pop()
        else:
            stack += reversed(missing)
    return list(found)


def callees(function: Function) -> Iterator[Function]:
    """The functions that a function calls, in order."""
    for step in function.walk():
        if step.callee is not None:
            yield step.callee


def copy_shardings_to_calls(program: Program) -> None:
    """Copies shardings of functions' results to calls that have none.

    SDY: sdy-propagate-sharding-from-func-to-call.

    Raises:
        ShardingError: a call is in a manual computation whose axes such a sharding uses.
    """
    for step in program.walk():
        if step.callee is None or any(each.sharding for each in step.results):
            continue
        given = step.callee.output_shardings
        first = next(filter(None, given), None)
        if first is not None:
            for value, sharding in zip(step.results, given, strict=True):
                value.sharding = sharding or first.saying_nothing(value.shape)
                _check_axes(step, value.sharding)


def _check_axes(step: Step, sharding: TensorSharding) -> None:
    """Raises where a step is within a manual computation over axes of a sharding."""
    used = {axis.name for axes in sharding.lists for axis in axes}
    outer = step.block.step
    while outer is not None:
        for name in getattr(outer.op, "manual_axes", ()):
            if name in used:
                problem = f'it operates on axis "{name}" which is already bound by a manual '
                problem += "computation around it"
                given = [f"sharding of the result: {sharding}"]
                advice = "Within it the axis is gone: call a function whose results are free of it."
                raise explain(ShardingError, "call", problem, given, advice, step.source)
        outer = outer.block.step


def remove_dead_functions(program: Program) -> None:
    """Takes functions away that none can be reached by which is public (MLIR: symbol-dce)."""
    found: set[Function] = set()
    stack = [each for each in program.functions.values() if each.is_public]
    while stack:
        function = stack.pop()
        if function not in found:
            found.add(function)
            stack += callees(function)
    functions = program.functions.items()
    program.functions = {name: each for name, each in functions if each in found}
