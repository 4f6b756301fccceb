"""Collectives."""

from typing import Any

from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.collectives.collective_passing import CollectiveBroadcast


@legalize(CollectiveBroadcast, "cpu")
@legalize(CollectiveBroadcast, "tpu")
def broadcasts_by_permutations(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU and XLA:TPU do not run collective_broadcast."""
    return operation.lowered(*operands)
