"""Gradients of pooling."""

from typing import Any

from minixla.legalize.barriers import type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.indexing.select_and_scatter import SelectAndScatter


def _is_unknown(operation: Any, operands: Operands, target: Target) -> bool:
    sizes = zip(operation.window_dimensions, operation.window_strides, strict=True)
    is_supported = sum(size == (1, 1) for size in sizes) > 1
    return not is_supported or type_of(operands[0]).bits not in (16, 32)


@legalize(SelectAndScatter, "tpu", when=_is_unknown)
def windows_by_slices(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:TPU supports only 16- and 32-bit types, and windows of size 1 in two dimensions."""
    return operation.lowered(*operands)
