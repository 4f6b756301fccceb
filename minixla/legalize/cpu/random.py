"""Random keys."""

from typing import Any

from minixla.core.tracing import shape_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.programs.call import KeptCall
from minixla_ops.programs.lowering import lowered_program
from minixla_ops.random.threefry import Threefry2x32


def _makes_keys(operation: Any, operands: Operands, target: Target) -> bool:
    # XLA's partitioner cannot split a call.
    return operation.of_keys and target.device_count == 1


@legalize(Threefry2x32, "cpu", when=_makes_keys)
def keys_apart(operation: Threefry2x32, operands: Operands, target: Target) -> Any:
    """XLA:CPU fuses the keys with their users, and computes them again for each block."""
    program = lowered_program(operation, tuple(map(shape_of, operands)))
    return KeptCall(program)(*operands)
