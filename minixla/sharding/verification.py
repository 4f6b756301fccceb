"""Rules of programs that passes might break."""

from collections.abc import Collection

from minixla.core.errors import ShardingError, explain
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import shardings_of
from minixla.sharding.program import Program, Step

_ADVICE = "The axes of a manual computation are not available within it: omit them there."


def verify(program: Program) -> None:
    """Raise ShardingError if a program breaks a rule that concerns several of its parts.

    Within a manual computation no sharding uses one of its axes.
    """
    for step in program.walk():
        around = [
            enclosing.op
            for enclosing in step.around()
            if isinstance(enclosing.op, ManualComputation)
        ]
        if around:
            _check_axes(step, {name for op in around for name in op.manual_axes})


def _check_axes(step: Step, bound: Collection[str]) -> None:
    for sharding in (*shardings_of(step.op), *[value.sharding for value in step.results]):
        used = [] if sharding is None else [axis.name for axes in sharding.lists for axis in axes]
        for name in used:
            if name in bound:
                problem = f'it operates on axis "{name}" which is already bound by a manual '
                problem += "computation around it"
                subject, details = step.op.builder_name, [f"sharding: {sharding}"]
                raise explain(ShardingError, subject, problem, details, _ADVICE, step.source)
