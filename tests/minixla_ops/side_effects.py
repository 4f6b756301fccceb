"""An operation with a side effect, for tests."""

from __future__ import annotations

from typing import Any

from minixla.core.operation import Operation, register


@register
class MarkedForTest(Operation):
    """The operand as it is, never dropped."""

    operands = ("operand",)
    has_side_effect = True
    stablehlo_name = "optimization_barrier"
    zero_derivative = "a test"

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return operand


def marked(operand: Any) -> Any:
    """The operand, through MarkedForTest."""
    return MarkedForTest()(operand)
