"""The pass that completes the manual axes in the shardings of manual computations."""

from collections.abc import Iterable
from functools import partial

from minixla.core.errors import ShardingError, explain
from minixla.sharding.axes import Part
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.tensor_sharding import TensorSharding

_ADVICE = "Without a sharding the mesh of the axes is unknown: give the computation operands."


def clean_up_manual_axes(program: Program) -> None:
    """Make every sharding of a manual computation mention each manual axis, and sort them.

    SDY: sdy-manual-axes-cleanup. An axis, or the rest of one, that a sharding does not mention is
    added as replicated. A sharding on the empty mesh gets the mesh of the others.

    Raises:
        ShardingError: a computation with manual axes has neither operands nor results.
    """
    for step in program.walk():
        if isinstance(step.op, ManualComputation) and step.op.manual_axes:
            _clean_up(step, step.op)


def _clean_up(step: Step, op: ManualComputation) -> None:
    shardings = [*op.in_shardings, *op.out_shardings]
    if not shardings:
        if step.blocks[0].steps:
            problem = "manual axes are given without shardings of operands or results, "
            problem += "but the body is not empty"
            details = [f"manual axes: {', '.join(op.manual_axes)}"]
            raise explain(
                ShardingError, "manual_computation", problem, details, _ADVICE, step.source
            )
        return
    common = next((sharding for sharding in shardings if not sharding.mesh.is_empty), shardings[0])
    names = sorted(op.manual_axes, key=common.mesh.order.__getitem__)
    complete = partial(_complete, common=common, whole=[common.mesh.whole_axes[x] for x in names])
    step.op = op.replace(
        in_shardings=tuple(map(complete, op.in_shardings, step.operands)),
        out_shardings=tuple(map(complete, op.out_shardings, step.results)),
        manual_axes=tuple(names),
    )


def _complete(
    sharding: TensorSharding, value: Value, common: TensorSharding, whole: list[Part]
) -> TensorSharding:
    """Return a sharding in which all axes of `whole` that it does not mention are replicated."""
    if not value.can_be_sharded:
        return sharding
    if sharding.mesh.is_empty:
        sharding = sharding.of(mesh=common.mesh, mesh_name=common.mesh_name)
    mesh = sharding.mesh
    mentioned = [mesh.part(axis) for axes in sharding.lists for axis in axes]
    missing = [part for axis in whole for part in _rest(axis, mentioned)]
    return sharding.of(replicated=mesh.listed([*map(mesh.part, sharding.replicated), *missing]))


def _rest(whole: Part, mentioned: Iterable[Part]) -> list[Part]:
    """Return the rest of an axis without some parts."""
    left = [whole]
    for part in mentioned:
        left = [rest for remaining in left for rest in remaining.without(part)]
    return left
