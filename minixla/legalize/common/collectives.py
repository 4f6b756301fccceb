"""Collectives."""

from typing import Any

from minixla.legalize.barriers import type_of
from minixla.legalize.registry import PLATFORMS, Operands, Target, legalize
from minixla_ops.collectives.collective_passing import CollectiveBroadcast
from minixla_ops.collectives.collective_reductions import AllReduce, ReduceScatter
from minixla_ops.programs.computations import monoid_of

_REDUCTIONS = AllReduce, ReduceScatter


@legalize(CollectiveBroadcast, ("cpu", "tpu"))
def broadcasts_by_permutations(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU and XLA:TPU do not run collective_broadcast."""
    return operation.lowered(*operands)


def _is_unknown(operation: Any, operands: Operands, target: Target) -> bool:
    kind = type_of(operands[0])
    native = ("and", "or") if kind.kind == "pred" else ("add", "mul", "max", "min")
    return kind.bits == 2 or monoid_of(operation.computation) not in native


@legalize(_REDUCTIONS, PLATFORMS, when=_is_unknown)
def reductions_by_gathers(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA reduces over devices only with sums, products, min and max, and not 2-bit integers."""
    return operation.lowered(*operands)
