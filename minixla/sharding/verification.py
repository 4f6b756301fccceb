"""Rules of programs that passes could break."""

from collections.abc import Collection

from minixla.core.errors import ShardingError, explain
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import shardings_of
from minixla.sharding.program import Block, Program, Step

_ADVICE = "Within a manual computation its axes are gone: leave them out there."


def verify(program: Program) -> None:
    """Raises ShardingError where a program breaks a rule that concerns several of its parts.

    Within a manual computation no sharding uses one of its axes.
    """
    for function in program.functions.values():
        _verify(function, frozenset())


def _verify(block: Block, bound: Collection[str]) -> None:
    for step in block.steps:
        if bound:
            _check_axes(step, bound)
        inner = bound
        if isinstance(step.op, ManualComputation):
            inner = frozenset(bound).union(step.op.manual_axes)
        for each in step.blocks:
            _verify(each, inner)


def _check_axes(step: Step, bound: Collection[str]) -> None:
    for sharding in (*shardings_of(step.op), *[value.sharding for value in step.results]):
        used = [] if sharding is None else [axis.name for axes in sharding.lists for axis in axes]
        for name in used:
            if name in bound:
                problem = f'it operates on axis "{name}" which is already bound by a manual '
                problem += "computation around it"
                subject, given = step.op.builder_name, [f"sharding: {sharding}"]
                raise explain(ShardingError, subject, problem, given, _ADVICE, step.source)
