"""Which values of a program that several devices run may differ between them."""

from minixla.core.graph import Graph, remembered
from minixla.core.operation import Operation

# They depend on who asks; those of one group of all are the same for each.
_OWN = {"partition-id", "replica-id", "rng"}
_FOR_ALL = {"all-reduce", "all-gather"}


@remembered
def differing(graph: Graph, given: tuple[bool, ...]) -> tuple[bool, ...]:
    """Whether each result may differ between devices.

    Args:
        graph: what each device runs.
        given: whether each input may.
    """
    flags = dict(zip(graph.inputs, given, strict=True))
    for step in graph.instructions:
        own = tuple([flags[value] for value in step.operands])
        called = step.op.computations if step.op.hlo_name == "call" else ()
        if called and len(called[0].inputs) == len(own):
            found = differing(called[0], own)
        else:
            may_differ = not _is_for_all(step.op) and (any(own) or _depends_on_device(step.op))
            found = [may_differ] * len(step.results)
        flags.update(zip(step.results, found, strict=False))
    return tuple([flags[value] for value in graph.outputs])


def _is_for_all(op: Operation) -> bool:
    return op.hlo_name in _FOR_ALL and len(op.values["replica_groups"]) == 1


def _depends_on_device(op: Operation) -> bool:
    # Of other collectives each device gets a part of its own.
    if op.hlo_name in _OWN or "channel_id" in op.fields or op.has_side_effect:
        return True
    programs = () if op.is_plain else op.computations
    return any(_depends_on_device(step.op) for each in programs for step in each.instructions)
