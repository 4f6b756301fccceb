"""Window reductions, and reductions of several arrays."""

from typing import Any

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.tracing import evaluate_graph
from minixla.legalize.barriers import on_hidden, type_of
from minixla.legalize.constants import classes
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.helpers.shorthand import array_shape

_CROPS = classes("Pad Slice DynamicSlice")
_S8 = ELEMENT_TYPES["s8"]


def _is_cropped(operation: Any, operands: Operands, target: Target) -> bool:
    window = operation.window
    is_plain = all(dilation == 1 for dilation in (*window.base_dilations, *window.sizes))
    sizes = zip(operands[0].shape.dimensions, window.padding, strict=True)
    # If the padded size is negative, the result is empty.
    is_left = all(size + min(low, 0) + min(high, 0) >= 0 for size, (low, high) in sizes)
    return is_plain and is_left and any(min(pair) < 0 for pair in window.padding)


@legalize(classes("ReduceWindow"), "cpu", when=_is_cropped)
def windows_of_negative_padding(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA ends the process for windows of one element with negative padding."""
    count, padding = len(operands) // 2, operation.window.padding
    crops = [(min(low, 0), min(high, 0), 0) for low, high in padding]
    rest = [(max(low, 0), max(high, 0)) for low, high in padding]
    arrays = [
        ops.optimization_barrier(ops.pad(array, init, crops))
        for array, init in zip(operands[:count], operands[count:], strict=True)
    ]
    return operation(*arrays, *operands[count:], padding=rest)


def _is_of_crop(operation: Any, operands: Operands, target: Target) -> bool:
    for operand in operands[: len(operands) // 2]:
        step = operand.instruction
        if step is not None and isinstance(step.op, _CROPS):
            return True
    return False


@legalize(classes("ReduceWindow"), "cpu", when=_is_of_crop)
def windows_of_crops(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA may merge a crop into the windows that follow, which then read cropped elements."""
    return on_hidden(operation, operands, *range(len(operands) // 2))


def _has_several_of_two_bits(operation: Any, operands: Operands, target: Target) -> bool:
    return len(operands) > 2 and any(type_of(operand).bits == 2 for operand in operands)


@legalize(classes("Reduce"), "cpu", when=_has_several_of_two_bits)
def several_reductions_of_two_bits(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU does not support reductions of several arrays if some are of s2 or u2.

    The replacement converts these to s8 outside the computation.
    """
    kinds = [array_shape(operand).element_type for operand in operands]

    def as_declared(values: Any) -> list[Any]:
        pairs = zip(values, kinds, strict=False)
        return [ops.convert_element_type(value, kind) for value, kind in pairs]

    def as_wide(values: Any) -> list[Any]:
        pairs = zip(values, kinds, strict=False)
        return [ops.convert_element_type(x, _S8) if kind.bits == 2 else x for x, kind in pairs]

    def computation(*values: Any) -> tuple[Any, ...]:
        half = len(values) // 2
        arguments = [*as_declared(values[:half]), *as_declared(values[half:])]
        return tuple(as_wide(evaluate_graph(operation.computation, arguments)))

    half = len(operands) // 2
    arrays, init = as_wide(operands[:half]), as_wide(operands[half:])
    return tuple(as_declared(ops.reduce(arrays, init, computation, operation.dimensions_to_reduce)))
