"""The pass that unites sharding groups with common members."""

from minixla.core.errors import ShardingError, explain
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import ShardingGroup
from minixla.sharding.program import Program, Step, Value


def import_sharding_groups(program: Program) -> None:
    """Unite groups with a common member, number them from 0, and drop repeated memberships.

    SDY: sdy-sharding-group-import.

    Raises:
        ShardingError: the members of a group differ in shape, or are both inside and outside of
            the body of a manual computation.
    """
    members = [step for step in program.walk() if isinstance(step.op, ShardingGroup)]
    _check(members)
    numbers = _numbers(members)
    seen: set[tuple[Value, int]] = set()
    dropped = set()
    for step in members:
        number = numbers[step.op.group_id]
        membership = step.operands[0], number
        if membership in seen:
            dropped.add(step)
        seen.add(membership)
        step.op = step.op.replace(group_id=number)
    for block in {step.block for step in dropped}:
        block.steps = [step for step in block.steps if step not in dropped]


def _check(members: list[Step]) -> None:
    first: dict[int, Step] = {}
    for step in members:
        other = first.setdefault(step.op.group_id, step)
        sizes = [getattr(member.operands[0].shape, "dimensions", ()) for member in (other, step)]
        if sizes[0] != sizes[1]:
            raise _error(step, other, "the values of a group must have the same shape")
        if _manual(step) is not _manual(other):
            problem = "the values of a group cannot cross ManualComputationOp boundaries"
            raise _error(step, other, problem)


def _error(step: Step, other: Step, problem: str) -> ShardingError:
    shapes = " and ".join(str(member.operands[0].shape) for member in (other, step))
    details = [f"group {step.op.group_id}: {shapes}"]
    advice = "Values of one group have one sharding: put others into a separate group."
    return explain(ShardingError, "sharding_group", problem, details, advice, step.source)


def _manual(step: Step) -> Step | None:
    """Return the innermost manual computation around a step."""
    return next((x for x in step.around() if isinstance(x.op, ManualComputation)), None)


def _numbers(members: list[Step]) -> dict[int, int]:
    """Return the new id of each group by its old one.

    Groups are in the same order as in Shardy: that of each class's leader, which is the leader of
    the first group of the value that united the class last.
    """
    groups: dict[Value, list[int]] = {}
    for step in members:
        groups.setdefault(step.operands[0], []).append(step.op.group_id)
    leaders: dict[int, int] = {}

    def leader(group: int) -> int:
        while leaders[group] != group:
            leaders[group] = group = leaders[leaders[group]]
        return group

    for first, *others in groups.values():
        leaders.setdefault(first, first)
        for group in others:
            leaders.setdefault(group, group)
            leaders[leader(group)] = leader(first)
    numbers: dict[int, int] = {}
    for group in leaders:
        if leader(group) == group:
            numbers[group] = len(numbers)
    return {group: numbers[leader(group)] for group in leaders}
