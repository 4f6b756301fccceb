"""What programs leave undefined: the derivative where they choose the constant NaN."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.graph import Value
from minixla.core.linear import spread
from minixla.core.operation import REGISTRY, register
from minixla.core.shapes import Shape
from minixla.interop.incomplete import recognised
from minixla.interop.step import Step
from minixla_ops.elementwise.selection import Select
from minixla_ops.vocabulary.shorthand import zeros_like


@register
class Undefined(Select):
    """A Select one of whose values is the constant NaN.

    Such is the result of a function outside of its domain. Its derivative there is NaN, too, in
    both modes, where that of a constant would be 0.
    """

    spec_names = ()

    def jvp(self, primals, tangents, results):
        return self(*_replaced(primals, tangents))

    def transpose(self, cotangents, operands, linear):
        # But that it stays 0: nobody uses such a result.
        chosen = self(*_replaced(operands, spread(linear, repeat(cotangents))))
        found = ops.select(ops.eq(cotangents, zeros_like(cotangents)), cotangents, chosen)
        return spread(linear, repeat(found))


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
    return [recognised(step, step.builder.apply(Undefined, step.operands)[0])]


def _is_nan(value: Value) -> bool:
    instruction = value.instruction
    if instruction is None:
        return False
    if instruction.op.name in ("Broadcast", "BroadcastInDim"):
        return _is_nan(instruction.operands[0])
    literal = value.literal
    return literal is not None and literal.is_splat and bool(np.isnan(literal.scalar))
