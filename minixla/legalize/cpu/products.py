"""Dot products and convolutions of narrow types."""

from typing import Any

from minixla.core.element_types import ElementType
from minixla.legalize.barriers import type_of
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.casting import widened
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.products.convolution import ConvGeneralDilated
from minixla_ops.products.dot import DotGeneral


def _is_narrow(kind: ElementType) -> bool:
    return kind.bits < 8 and kind.kind != "pred"


def _has_narrow_type(operation: Any, operands: Operands, target: Target) -> bool:
    lhs, rhs = operands
    return _is_narrow(type_of(lhs)) or _is_narrow(type_of(rhs))


@legalize((DotGeneral, ConvGeneralDilated), "cpu", when=_has_narrow_type)
def products_of_narrow_types(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU lacks products of types below 8 bits, or accumulates them only in the same type."""
    shapes = tuple(map(array_shape, operands))
    result = operation.infer(shapes).element_type
    wide = [_wide(shape.element_type) for shape in shapes]
    values = map(convert, operands, wide)
    return convert(operation(*values, preferred_element_type=_wide(result)), result)


def _wide(kind: ElementType) -> ElementType:
    return widened(kind) if _is_narrow(kind) else kind
