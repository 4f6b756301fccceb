"""Samples of random distributions."""

from typing import Any

import minixla_ops as ops
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.random.random_samples import RngNormal, RngUniform


@legalize((RngNormal, RngUniform), "tpu")
def hidden_parameters(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:TPU moves a reshape of the parameters behind the samples, and crashes."""
    return operation(*ops.optimization_barrier(operands))
