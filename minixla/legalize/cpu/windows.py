"""Reductions over windows, and reductions of several arrays."""

import minixla_ops as ops
from minixla.core import shape_of
from minixla.core.element_types import ELEMENT_TYPES
from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import on_hidden, type_of
from minixla.legalize.registry import legalize

_PADS = classes("Pad")


def _is_cropped(operation, operands, target):
    return any(min(pair) < 0 for pair in operation.padding)


@legalize(classes("ReduceWindow"), "cpu", when=_is_cropped)
def windows_of_negative_padding(operation, operands, target):
    """XLA ends the process over windows of one element with negative padding."""
    count = len(operands) // 2
    crops = [(min(low, 0), min(high, 0), 0) for low, high in operation.padding]
    rest = [(max(low, 0), max(high, 0)) for low, high in operation.padding]
    arrays = [
        ops.optimization_barrier(ops.pad(array, init, crops))
        for array, init in zip(operands[:count], operands[count:], strict=True)
    ]
    return operation(*arrays, *operands[count:], padding=rest)


def _is_of_crop(operation, operands, target):
    for operand in operands[: len(operands) // 2]:
        step = operand.instruction
        if step is not None and isinstance(step.op, _PADS):
            return True
    return False


@legalize(classes("ReduceWindow"), "cpu", when=_is_of_crop)
def windows_of_crops(operation, operands, target):
    """XLA merges a pad or crop into the windows that follow, which then see cropped elements."""
    return on_hidden(operation, operands, *range(len(operands) // 2))


