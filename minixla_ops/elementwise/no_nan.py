"""MulNoNan and DivNoNan: products and quotients for derivatives of imported programs.

Imported programs contain `select`s of two formulas. The cotangent of the formula that is not chosen
is exactly 0. Its derivative may be infinite or NaN, and 0 times that is NaN.
`helpers.changes` applies these operations in place of products and quotients.
"""

from __future__ import annotations

import numpy as np

import minixla_ops as ops
from minixla.core import register
from minixla.core.attributes import Boolean, attribute
from minixla.core.linear import add_cotangents
from minixla.core.operation import EACH_OPERAND
from minixla_ops.elementwise.binary import Div
from minixla_ops.elementwise.families import INEXACT, Binary
from minixla_ops.helpers.shorthand import full_like


@register
class MulNoNan(Binary):
    """Compute lhs * rhs, or 0 if lhs is 0, even if rhs is infinite or NaN.

    Attributes:
        either: whether the product is also 0 if rhs is 0.

    Derivatives use the same products, so that the rule holds at every order.
    """

    spec_names = ()
    is_cheap = True
    element_types = INEXACT
    either: bool = attribute(Boolean(), default=False)
    linear_operands = EACH_OPERAND

    def reference(self, lhs, rhs):
        is_zero = (lhs == 0) | (rhs == 0) if self.either else lhs == 0
        with np.errstate(all="ignore"):
            return np.where(is_zero, 0, lhs * rhs).astype(lhs.dtype)

    def lowered(self, lhs, rhs):
        zero = full_like(lhs, 0)
        is_zero = ops.eq(lhs, zero)
        if self.either:
            is_zero = is_zero | ops.eq(rhs, zero)
        return ops.select(is_zero, zero, lhs * rhs)

    def jvp(self, primals, tangents, results):
        (lhs, rhs), (left, right) = primals, tangents
        return add_cotangents(
            None if left is None else self(left, rhs),
            None if right is None else self(lhs, right, either=True),
        )

    def transpose(self, cotangents, operands, linear):
        lhs, rhs = operands
        return [
            self(cotangents, rhs) if linear[0] else None,
            self(lhs, cotangents, either=True) if linear[1] else None,
        ]


@register
class DivNoNan(Div):
    """Compute lhs / rhs, or 0 if lhs is 0, even if rhs is 0 or NaN."""

    spec_names = ()
    element_types = INEXACT
    stablehlo_name = None

    def reference(self, lhs, rhs):
        with np.errstate(all="ignore"):
            return np.where(lhs == 0, 0, lhs / rhs).astype(lhs.dtype)

    def lowered(self, lhs, rhs):
        zero = full_like(lhs, 0)
        return ops.select(ops.eq(lhs, zero), zero, lhs / rhs)

    def over(self, change, divisor):
        return self(change, divisor)

    def times(self, change, result):
        return MulNoNan(either=True)(change, result)
