"""What programs leave undefined: the derivative where they choose the constant NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY, register
from minixla.core.shapes import Shape
from minixla.core.tracing import bind
from minixla.interop.incomplete import recognised
from minixla.interop.step import Step
from minixla_ops.comparison import eq
from minixla_ops.rules import zeros_like
from minixla_ops.selection import Select, select


@register
class Undefined(Select):
    """A Select one of whose values is the constant NaN.

    Such is the result of a function outside of its domain. Its derivative there is NaN, too, in
    both modes, where that of a constant would be 0.
    """

    spec_names = ()

    def jvp(self, primals: Any, tangents: Any, results: Any, /) -> Any:
        """The same choice between NaN and the tangent."""
        return bind(self, *_replaced(primals, tangents))

    def transpose(self, cotangents: Any, operands: Any, linear: Any, /) -> Sequence[Any]:
        """The same of the cotangent, but that it stays 0: nobody uses such a result."""
        given = [cotangents if each else None for each in linear]
        chosen = bind(self, *_replaced(operands, given))
        found = select(eq(cotangents, zeros_like(cotangents)), cotangents, chosen)
        return [found if each else None for each in linear]


def _replaced(operands: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Operands with others in place of those which are given."""
    pairs = zip(operands, others, strict=True)
    return [operand if other is None else other for operand, other in pairs]


def translated_select(step: Step) -> Sequence[Value]:
    """stablehlo.select: Undefined where one of the values is the constant NaN, else Select.

    What is undefined outside of a domain may be one of the incomplete functions.
    """
    shape = step.operands[1].shape
    is_inexact = isinstance(shape, Shape) and shape.element_type.is_inexact
    undefined = is_inexact and any(map(_is_nan, step.operands[1:]))
    if not undefined:
        return step.builder.apply(REGISTRY["Select"], step.operands)
    return [recognised(step, step.builder.apply(Undefined.instance, step.operands)[0])]


def _is_nan(value: Value) -> bool:
    instruction = value.instruction
    if instruction is None:
        return False
    if instruction.op.name in ("Broadcast", "BroadcastInDim"):
        return _is_nan(instruction.operands[0])
    literal = value.literal
    return literal is not None and literal.is_splat and bool(np.isnan(literal.scalar))
